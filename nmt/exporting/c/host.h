/* What the parts of the library share: memory, the description of a model as plan_writer.py writes it, and levels. */
#ifndef NMT_HOST_H
#define NMT_HOST_H

#ifdef _WIN32
#define __USE_MINGW_SETJMP_NON_SEH /* compiled functions, over which it may jump, cannot be unwound */
#include <malloc.h>
#define aligned_alloc(line, size) _aligned_malloc(size, line)
#define free_aligned _aligned_free
#else
#define free_aligned free
#endif
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>

/* ------------------------------------------------------------ memory */

/* Memory that is freed together: all of it, or what was taken since a moment. If there is no more, it jumps to
   `failed`. */
typedef struct block block;
typedef struct {
  block *last;
  size_t used;
  jmp_buf *failed;
} arena;
void *take(arena *memory, size_t bytes);
void *zeros(arena *memory, size_t bytes);
void free_since(arena *memory, arena moment);

/* Bytes that grow. */
typedef struct {
  arena *memory;
  char *at;
  size_t size, room;
} text;
void append(text *target, const char *bytes, size_t size);

/* ------------------------------------------------------------ the description of a model */

/* A compiled function: the number of this thread, that of all threads, and its table of 8-byte words. */
typedef void (*task)(int64_t part, int64_t parts, void *table);

/* A place among the arrays of a run, the numbers of a row there, and whether there is one for each source position. */
typedef struct { int slot, width, wide; } shape;

/* What a function reads: the array of a slot, a parameter, or indices of rows. */
enum { SLOT, PARAMETER, OWNER, WORD, PARENT };
typedef struct { int kind, number; } operand;

/* A product outside the loop, or if there is no weight, a function. `after`: which half of a stack is read, -1 if it is
   none. */
typedef struct {
  int weight, source, after, width, wide, offset, target, target_width, K, N;
  int code, num_operands, num_scratch, num_weights;
  const operand *operands;
  const shape *scratch;
  const int *weights;
} step;

typedef struct {
  int num_slots, num_arrays, num_dims, num_steps;
  const shape *arrays;
  const int64_t *dims;
  const step *steps;
} plan;

/* A state: its stack's slot, its size, and the parameter from which it starts, -1 for zero. */
typedef struct { int slot, size, learned; } state;

/* A plan over time. y: its slot; is_stack: it is the stack of a state. */
typedef struct {
  const plan *plan;
  int x, y, is_stack, size, num_states;
  const state *states;
} scan;

/* A table of embeddings: the code that reads it, its size, its parameters (scales: -1 if there are none), a factor. */
typedef struct { int code, width, vocab_size, numbers, scales; double scale; } table;

/* A matrix to pack: rows `start` to `stop`, 4 * size bytes. */
typedef struct { int code, numbers, scales; int64_t num_scales, start, stop, size, rows, columns; } weight;

/* The initial state of the decoder: copied from a state of an encoder's layer, or computed from it. */
typedef struct { int target, layer, state; const scan *scan; } route;

/* What sentences store: the slot of the plan that computes it (-1: the memory of the encoder), its slot in the step. */
typedef struct { int source, slot, size, narrow; } stored;

/* A part of the step, and where its outputs go in the step. */
typedef struct { int from, to; } output;
typedef struct { const plan *plan; int x, num_links; const int *states; const output *links; } part;

/* What the step reads directly: a state, or -1 for the inputs; its slot in the step. */
typedef struct { int state, slot; } gathered;

/* ------------------------------------------------------------ search */

typedef struct {
  const int32_t *ids;
  int size, finished;
  double log_prob, score;
} hypothesis;

typedef struct {
  const int32_t *ids;
  int64_t size, limit;
  hypothesis *found;
  int count;
} sentence;

typedef struct {
  int64_t size, beam_size, n_best, first_token;
  double word_reward, length_penalty;
} request;

/* A level of processors: packs the weights, and searches translations of sentences, the longest first. */
typedef struct {
  const char *name;
  void **(*pack)(arena *memory, const char *content);
  void (*search)(arena *memory, arena *results, const char *content, void *const *packed, sentence *sentences,
                 int64_t count, const request *asked);
} level;

/* ------------------------------------------------------------ text */

enum { PAD_ID, UNK_ID, BOS_ID, EOS_ID };

/* A model of sentencepiece (see subword_tables.py): the places of its arrays in the model. */
typedef struct {
  int is_bpe, bytes, prefix, trims, escapes, unknown, num_pieces, num_symbols;
  float least, most;
  int64_t starts, texts, order, scores, types, ids, numbers, symbols, map, map_size;
} subwords;

int32_t *cut(arena *memory, const char *content, const subwords *model, const char *line, size_t size, int64_t *count);
void join(text *target, const char *content, const subwords *model, const int32_t *ids, int64_t count);
int is_same(const text *a, const text *b);

#endif
