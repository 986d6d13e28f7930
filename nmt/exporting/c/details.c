/* What is known of translations besides their text: see nmt/inference/pipeline.py. */
#include "details.h"

#include <math.h>
#include <string.h>

double confidence_of(double log_prob, int length) {
  if (!isfinite(log_prob)) return 0;
  double mean = log_prob / (length > 1 ? length : 1);
  return exp(mean < 0 ? mean : 0);
}

/* Set the word of each piece: one that starts with U+2581 begins a word, and alone it belongs to the next. */
static void count_words(int32_t *words, const text *pieces, int64_t count) {
  int32_t word = -1, pending = 1;
  for (int64_t k = 0; k < count; k++) {
    int64_t spaces = 0, size = (int64_t)pieces[k].size;
    while (spaces + 3 <= size && !memcmp(pieces[k].at + spaces, "\xe2\x96\x81", 3)) spaces += 3;
    pending |= spaces > 0;
    if (spaces < size) word += pending, pending = 0;
    words[k] = word + (spaces == size);
  }
  for (int64_t k = 0; k < count; k++) words[k] = words[k] > word ? word : words[k], words[k] = words[k] < 0 ? 0 : words[k];
}

/* Set the pairs of words, each piece with that source piece to which it attends most, in rising order. */
static void align(arena *memory, nmt_translation *one, const int32_t *from, const int32_t *into, int count) {
  int columns = one->source_length + 1;
  nmt_pair *pairs = take(memory, (size_t)(count + 1) * sizeof *pairs);
  for (int t = 0; t < count; t++) {
    const float *row = one->attention + (size_t)t * (size_t)columns;
    int best = 0;
    for (int s = 1; s < columns; s++)
      if (row[s] > row[best]) best = s;
    if (best == one->source_length) continue;
    nmt_pair pair = {from[best], into[t]};
    size_t k = one->pairs;
    while (k && (pairs[k - 1].source > pair.source || (pairs[k - 1].source == pair.source && pairs[k - 1].target > pair.target))) k--;
    if (k && pairs[k - 1].source == pair.source && pairs[k - 1].target == pair.target) continue;
    memmove(pairs + k + 1, pairs + k, (one->pairs - k) * sizeof *pairs);
    pairs[k] = pair, one->pairs++;
  }
  one->alignment = pairs;
}

static const char *const *texts_of(arena *memory, const text *pieces, int64_t count) {
  const char **found = take(memory, (size_t)(count + 1) * sizeof *found);
  for (int64_t k = 0; k < count; k++) {
    char *own = take(memory, pieces[k].size + 1);
    memcpy(own, pieces[k].at, pieces[k].size), own[pieces[k].size] = 0;
    found[k] = own;
  }
  return found;
}

void add_details(arena *memory, arena *work, const details_of *of, sentence *source, const text *pieces, const int32_t *ids,
                 nmt_translation *one) {
  int count = one->length, size = (int)source->size;
  float *log_probs = take(memory, sizeof(float) * (size_t)(count + 1));
  float *attention = take(memory, sizeof(float) * (size_t)count * (size_t)(size + 1) + 4);
  arena moment = *work;
  int attends = count ? of->level->force(work, of->words, source, ids, count, log_probs, attention) : 0;
  text *names = take(work, (size_t)(count + 1) * sizeof *names);
  for (int t = 0; t < count; t++) names[t] = name_of(of->content, of->target, ids[t]);
  one->log_probs = log_probs, one->attention = attends ? attention : NULL, one->source_length = size;
  one->tokens = texts_of(memory, names, count), one->source_tokens = texts_of(memory, pieces, size);
  if (attends) {
    int32_t *from = take(work, 4 * (size_t)(size + count + 1)), *into = from + size;
    int own = count - (ids[count - 1] == EOS_ID);
    count_words(from, pieces, size), count_words(into, names, own);
    align(memory, one, from, into, own);
  }
  free_since(work, moment);
}
