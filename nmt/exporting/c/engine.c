/* Runs the program of one level: packs weights, and searches translations. plan.h has the program; see
   nmt/model/translation_program.py. */
#define _POSIX_C_SOURCE 200809L
#include "host.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct { int word; task code; } function_at;
typedef struct { int word; int64_t at; } array_at;
#include "plan.h"

enum { LINE = 64, WHOLE = 1 << 30 }; /* a cache line; no limit */
#define ADDRESS(pointer) ((int64_t)(intptr_t)(pointer))
#define COUNT(array) ((int)(sizeof(array) / sizeof *(array)))

/* ------------------------------------------------------------ what compiled functions call */

/* The memory that a function of a program takes for itself and frees before it returns, which the program has planned. */
static _Thread_local struct { char *start, *next, *end; int used; } temporary;

#ifdef _WIN32
void *nmt_allocate(int64_t size, int64_t line) {
#else
void *nmt_allocate(int64_t line, int64_t size) {
#endif
  if (!temporary.used++) temporary.next = temporary.start;
  char *found = temporary.next;
  temporary.next += (size + line - 1) / line * line;
  if (temporary.next > temporary.end) abort(); /* the plan is wrong */
  return found;
}
void nmt_free(void *memory) { (void)memory, temporary.used--; }

/* Where threads share a table: here one thread has it alone. */
int nmt_sleep(int time) { return (void)time, 0; }
int nmt_yield_processor(void) { return 0; }

/* ------------------------------------------------------------ programs */

/* Begin a phase, with the memory that it needs. */
static void begin(arena *memory, int64_t *words, int phase) {
  words[PROGRAM_phase] = phase, words[PROGRAM_room] = words[PROGRAM_temporary_room] = -1;
  RUN_PROGRAM(0, 1, words);
  words[PROGRAM_room] = words[PROGRAM_most], words[PROGRAM_temporary_room] = words[PROGRAM_temporary];
  words[PROGRAM_memory] = ADDRESS(take(memory, (size_t)words[PROGRAM_room]));
  temporary.start = take(memory, (size_t)words[PROGRAM_temporary_room]);
  temporary.end = temporary.start + words[PROGRAM_temporary_room];
  RUN_PROGRAM(0, 1, words);
}

/* Return the table of the program for a model, with packed weights. */
static int64_t *pack(arena *memory, const char *content) {
  int64_t *words = zeros(memory, 8 * NUM_WORDS);
  words[PROGRAM_code] = ADDRESS(code);
  for (int n = 0; n < COUNT(functions); n++) words[functions[n].word] = ADDRESS(functions[n].code);
  for (int n = 0; n < COUNT(arrays); n++) words[arrays[n].word] = ADDRESS(content + arrays[n].at);
  begin(memory, words, PHASE_PACK);
  return words;
}

static double divisor(double penalty, int64_t length) {
  if (penalty < 0) return length > 1 ? (double)length : 1;
  return pow((double)(5 + length) / 6, penalty);
}

/* Set what a search reads, for the longest sentence first. */
static void give(arena *memory, int64_t *words, const sentence *sentences, int64_t count, const request *asked) {
  int64_t *sizes = take(memory, 16 * (size_t)count), *limits = sizes + count, tokens = 0, longest = 0;
  for (int64_t b = 0; b < count; b++) {
    sizes[b] = sentences[b].size, limits[b] = sentences[b].limit, tokens += sizes[b];
    if (limits[b] > longest) longest = limits[b];
  }
  int32_t *ids = take(memory, 4 * (size_t)tokens), *next = ids;
  for (int64_t b = 0; b < count; next += sizes[b++]) memcpy(next, sentences[b].ids, 4 * (size_t)sizes[b]);
  double *divisors = take(memory, 8 * (size_t)(longest + 2));
  for (int64_t n = 0; n < longest + 2; n++) divisors[n] = divisor(asked->length_penalty, n);
  words[PROGRAM_sentences] = count, words[PROGRAM_size] = asked->size;
  words[PROGRAM_sizes] = ADDRESS(sizes), words[PROGRAM_limits] = ADDRESS(limits), words[PROGRAM_ids] = ADDRESS(ids);
  words[PROGRAM_beam_size] = asked->beam_size, words[PROGRAM_n_best] = asked->n_best;
  words[PROGRAM_first_token] = asked->first_token, words[PROGRAM_divisors] = ADDRESS(divisors);
  words[PROGRAM_rule_numbers] = ADDRESS(asked->rule_numbers), words[PROGRAM_rule_reals] = ADDRESS(asked->rule_reals);
  memcpy(words + PROGRAM_word_reward, &asked->word_reward, 8);
}

/* Set the prefixes of translations, if there are any. */
static void give_prefixes(arena *memory, int64_t *words, const sentence *sentences, int64_t count) {
  int64_t *starts = zeros(memory, 8 * (size_t)(count + 1));
  for (int64_t b = 0; b < count; b++) starts[b + 1] = starts[b] + sentences[b].prefix_size;
  if (!starts[count]) return;
  int32_t *ids = take(memory, 4 * (size_t)starts[count]);
  for (int64_t b = 0; b < count; b++)
    if (sentences[b].prefix_size) memcpy(ids + starts[b], sentences[b].prefix, 4 * (size_t)sentences[b].prefix_size);
  words[PROGRAM_prefix_starts] = ADDRESS(starts), words[PROGRAM_prefixes] = ADDRESS(ids);
}

#define COLUMN(type, name) ((const type *)(intptr_t)search[SEARCH_##name])

/* Read the hypotheses of all sentences. */
static void read_all(arena *memory, const int64_t *search, sentence *sentences) {
  int64_t K = search[SEARCH_beam_size], width = search[SEARCH_width];
  for (int64_t slot = 0; slot < search[SEARCH_num_slots]; slot++) {
    sentence *one = sentences + COLUMN(int64_t, slots_sentence)[slot];
    one->count = (int)COLUMN(int64_t, slots_num_ended)[slot];
    one->found = take(memory, (size_t)one->count * sizeof *one->found);
    for (int64_t k = 0, at = slot * K; k < one->count; k++, at++)
      one->found[k] = (hypothesis){COLUMN(int32_t, hypotheses_history) + at * width, (int)COLUMN(int64_t, hypotheses_steps)[at],
                                   COLUMN(int64_t, hypotheses_finished)[at] != 0, COLUMN(double, hypotheses_sum)[at],
                                   COLUMN(double, hypotheses_score)[at]};
  }
}

static void search_all(arena *memory, const int64_t *model, sentence *sentences, int64_t count, const request *asked) {
  int64_t *words = take(memory, 8 * NUM_WORDS);
  memcpy(words, model, 8 * NUM_WORDS);
  give(memory, words, sentences, count, asked);
  give_prefixes(memory, words, sentences, count);
  begin(memory, words, PHASE_BEGIN);
  words[PROGRAM_phase] = PHASE_ADVANCE, words[PROGRAM_budget] = WHOLE;
  do RUN_PROGRAM(0, 1, words);
  while (words[PROGRAM_status] != STATUS_DONE);
  read_all(memory, (const int64_t *)(intptr_t)words[PROGRAM_search], sentences);
}

static int force(arena *memory, const int64_t *model, sentence *one, const int32_t *target, int64_t count,
                 float *log_probs, float *attention) {
  int64_t *words = take(memory, 8 * NUM_WORDS), size = one->size, S = BEFORE + size + AFTER;
  int64_t *ids = take(memory, 8 * (size_t)(count + 1));
  memcpy(words, model, 8 * NUM_WORDS);
  give(memory, words, one, 1, &(request){.size = 1, .beam_size = 1, .n_best = 1});
  ids[0] = BOS_ID;
  for (int64_t t = 0; t < count; t++) ids[t + 1] = target[t];
  words[PROGRAM_targets] = count, words[PROGRAM_target_ids] = ADDRESS(ids);
  begin(memory, words, PHASE_FORCED);
  const float *logs = (const float *)(intptr_t)words[PROGRAM_log_probs], *row = (const float *)(intptr_t)words[PROGRAM_outputs];
  for (int64_t t = 0; t < count; t++, row += FORCED_width, attention += size + 1) {
    log_probs[t] = logs[t * FORCED_columns + target[t]];
    if (FORCED_width == FORCED_inputs) continue;
    memcpy(attention, row + FORCED_inputs + BEFORE, 4 * (size_t)size);
    attention[size] = 0;
    for (int64_t s = 0; s < S; s++)
      if (s < BEFORE || s >= BEFORE + size) attention[size] += row[FORCED_inputs + s];
  }
  return FORCED_width != FORCED_inputs;
}

SEEN const level THIS_LEVEL = {LEVEL_NAME, pack, search_all, force};
