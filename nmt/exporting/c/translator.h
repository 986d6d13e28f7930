/* Translation with one model, without Python. Written by nmt-export; link with libtranslator.a or libtranslator.so, and
   with -lm. Text is UTF-8; what is not becomes U+FFFD. */
#ifndef NMT_TRANSLATOR_H
#define NMT_TRANSLATOR_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What functions return. With anything but NMT_OK they have changed nothing, and `error`, an array of NMT_ERROR_SIZE
   characters or NULL, says in one line what was expected and what came. */
enum { NMT_OK, NMT_UNREADABLE, NMT_OTHER_MODEL, NMT_WRONG_ARGUMENT, NMT_NO_MEMORY };
#define NMT_ERROR_SIZE 512

/* A loaded model never changes: any number of threads may translate with it at once, until one of them frees it. */
typedef struct nmt_model nmt_model;

/* Load model.bin; path: NULL for the model inside the library, if it was exported with --embed. level: that of the
   processor's instructions, such as "generic"; NULL takes the best that it has. */
int nmt_load(const char *path, const char *level, nmt_model **model, char *error);
void nmt_free_model(nmt_model *model);
const char *nmt_level(const nmt_model *model);

/* length_penalty: the exponent of Wu et al. (2016), or NMT_AVERAGE. batch_size changes the speed and the memory, not the
   translations. */
#define NMT_AVERAGE (-1.0)
typedef struct {
  int beam_size, n_best, batch_size, max_length_extra;
  double max_length_ratio, length_penalty, word_reward;
} nmt_options;
void nmt_defaults(nmt_options *options);

/* text: of `size` bytes, followed by a zero. log_prob: of all `length` tokens; score: by which translations rank. */
typedef struct {
  const char *text;
  size_t size;
  double score, log_prob;
  int length;
} nmt_translation;

/* The translations of a line, the best first. None if no continuation was possible; one without text for a blank line. */
enum { NMT_CUT = 1, NMT_UNKNOWN = 2 }; /* the line was too long; it has characters that the model does not know */
typedef struct {
  size_t count;
  const nmt_translation *translations;
  int warnings;
} nmt_line;

typedef struct {
  size_t count;
  const nmt_line *lines;
} nmt_results;

/* Translate `count` lines in the calling thread, the longest first. sizes: their bytes; NULL if each ends with a zero.
   options: NULL for the defaults. */
int nmt_translate(const nmt_model *model, const char *const *lines, const size_t *sizes, size_t count,
                  const nmt_options *options, const nmt_results **results, char *error);
void nmt_free_results(const nmt_results *results);

#ifdef __cplusplus
}
#endif
#endif
