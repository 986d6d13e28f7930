/* What cell.c and the levels of a cell share: see cell.py, which writes level.c and layout.h. */
#include <stddef.h>
#include <stdint.h>

typedef void (*task)(int64_t part, int64_t parts, void *table);

/* A word of the table of a step: a number, or an address in the memory of the state or among the constants. */
enum { NUMBER, MEMORY, CONSTANT };
typedef struct { int64_t kind, value; } word;

/* A level of processors: its step, the words of the table, parameters and other constants. */
typedef struct {
  task step;
  const word *words;
  const char *constants;
} level;

/* The numbers of a state before and after a step, one after the other: their place, the bytes of one stream, and the
   constant from which it starts, -1 for zero. */
typedef struct { size_t at, bytes; int64_t learned; } stack;
