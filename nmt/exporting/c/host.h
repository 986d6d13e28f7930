/* What the parts of the library share: memory, searches, and levels of processors. */
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
#ifdef __APPLE__ /* where symbols are hidden unless they say so */
#define SEEN __attribute__((visibility("default")))
#else
#define SEEN
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

/* ------------------------------------------------------------ compiled code */

/* A compiled function: the number of this thread, that of all threads, and its table of 8-byte words. */
typedef void (*task)(int64_t part, int64_t parts, void *table);

/* ------------------------------------------------------------ search */

typedef struct {
  const int32_t *ids;
  int size, finished;
  double log_prob, score;
} hypothesis;

typedef struct {
  const int32_t *ids, *prefix;
  int64_t size, limit, prefix_size;
  hypothesis *found;
  int count;
} sentence;

/* Settings of a search by the names of its program; the rules are those of token_rules.py. */
typedef struct {
  int64_t size, beam_size, n_best, first_token;
  double word_reward, length_penalty;
  const int64_t *rule_numbers;
  const double *rule_reals;
} request;

/* A level of processors: packs the weights of a model; searches translations of sentences, the longest first; and sets
   the log-probabilities of the tokens of a translation, and their attention [count][size + 1] to the tokens of the
   sentence and, last, to its boundaries; it returns whether there is attention. */
typedef struct {
  const char *name;
  int64_t *(*pack)(arena *memory, const char *content);
  void (*search)(arena *memory, const int64_t *model, sentence *sentences, int64_t count, const request *asked);
  int (*force)(arena *memory, const int64_t *model, sentence *one, const int32_t *target, int64_t count,
               float *log_probs, float *attention);
} level;

/* ------------------------------------------------------------ text */

enum { PAD_ID, UNK_ID, BOS_ID, EOS_ID };

/* A model of sentencepiece (see subword_tables.py): the places of its arrays in the model. */
typedef struct {
  int is_bpe, bytes, prefix, trims, escapes, unknown, num_pieces, num_symbols;
  float least, most;
  int64_t starts, texts, order, scores, types, ids, numbers, symbols, map, map_size;
} subwords;

/* Return the ids of a line and, in `pieces` unless it is NULL, the text of each. */
int32_t *cut(arena *memory, const char *content, const subwords *model, const char *line, size_t size, int64_t *count, text **pieces);
text name_of(const char *content, const subwords *model, int32_t id);
void join(text *target, const char *content, const subwords *model, const int32_t *ids, int64_t count);
int is_same(const text *a, const text *b);

#endif
