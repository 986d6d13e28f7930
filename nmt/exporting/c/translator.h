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

/* Settings of the section decoding of a configuration, by their names there. length_penalty: the exponent of Wu et al.
   (2016), or NMT_AVERAGE. batch_size changes the speed and the memory, not the translations. With sampling, n_best is the
   number of samples of each line. details: whether translations have what stands behind `confidence` below, which takes
   one more pass of the model over each. prefixes: with what the translation of each line begins, in whole words; NULL for
   nothing. Begin with nmt_defaults. */
#define NMT_AVERAGE (-1.0)
typedef struct {
  int beam_size, n_best, batch_size, max_length_extra, min_length, no_repeat_ngram_size, generate_unk;
  int sampling, sampling_topk, details;
  long long sampling_seed;
  double max_length_ratio, length_penalty, word_reward, repetition_penalty, sampling_temperature, sampling_topp;
  const char *const *prefixes;
} nmt_options;
void nmt_defaults(nmt_options *options);

typedef struct {
  int source, target;
} nmt_pair;

/* text: of `size` bytes, followed by a zero. log_prob: of all `length` tokens, the end of the sentence included; score: by
   which translations rank; confidence: the geometric mean of the tokens' probabilities, 0 to 1. The others are there with
   `details`: the tokens as text, `</s>` if the translation has ended; those of the source; the log-probability of each;
   [length][source_length + 1], the attention of each to those of the source and, last, to its ends; and the pairs of words,
   counted from 0. Without attention in the model there are none of the last two. */
typedef struct {
  const char *text;
  size_t size;
  double score, log_prob;
  int length;
  double confidence;
  const char *const *tokens, *const *source_tokens;
  int source_length;
  const float *log_probs, *attention;
  const nmt_pair *alignment;
  size_t pairs;
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

/* Put given translations through the model: each line gets one, with details; log_prob and score are the sum. */
int nmt_score(const nmt_model *model, const char *const *sources, const char *const *targets, size_t count,
              const nmt_results **results, char *error);
void nmt_free_results(const nmt_results *results);

#ifdef __cplusplus
}
#endif
#endif
