/* driver MODEL LEVEL BEAM N_BEST THREADS ROUNDS [NAME=VALUE ...] < LINES: translate all lines in each thread. Prints, for
   each line, its warnings and number of translations, then a line for each: score and log-probability in hexadecimal,
   tokens, text; with details=1 a line of JSON after each. With ROUNDS, prints the milliseconds of loading, of translating
   the first line, and of each round instead. Names are options; prefix=TEXT is that of all lines, and score=1 prints the
   details of each line as a translation of itself. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "translator.h"

static nmt_model *model;
static nmt_options options;
static const char *lines[1000000];
static size_t sizes[1000000], count;

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return 1e3 * (double)t.tv_sec + 1e-6 * (double)t.tv_nsec;
}

static void *translate(void *found) {
  char error[NMT_ERROR_SIZE];
  int code = nmt_translate(model, lines, sizes, count, &options, found, error);
  if (code) fprintf(stderr, "%d: %s\n", code, error), exit(1);
  return NULL;
}

static int differ(const nmt_results *a, const nmt_results *b) {
  for (size_t n = 0; n < count; n++)
    for (size_t k = 0; k < a->lines[n].count; k++) {
      const nmt_translation *one = a->lines[n].translations + k, *other = b->lines[n].translations + k;
      if (b->lines[n].count != a->lines[n].count || one->score != other->score || one->size != other->size ||
          memcmp(one->text, other->text, one->size))
        return 1;
    }
  return 0;
}

static char *read_all(size_t *size) {
  size_t room = 1 << 20, more;
  char *all = malloc(room);
  while ((more = fread(all + *size, 1, room - *size, stdin)) > 0)
    if ((*size += more) == room) all = realloc(all, room *= 2);
  return all;
}

static const char *prefixes[1000000];
static int scores;
static void set(char *name) {
  char *value = strchr(name, '=');
  *value++ = 0;
  if (!strcmp(name, "score")) scores = 1;
  if (!strcmp(name, "prefix")) {
    options.prefixes = prefixes;
    for (size_t n = 0; n < count; n++) prefixes[n] = value;
  }
#define INTEGER(option) if (!strcmp(name, #option)) options.option = atoll(value)
#define REAL(option) if (!strcmp(name, #option)) options.option = atof(value)
  INTEGER(details); INTEGER(min_length); INTEGER(no_repeat_ngram_size); INTEGER(generate_unk); INTEGER(sampling);
  INTEGER(sampling_topk); INTEGER(sampling_seed); REAL(repetition_penalty); REAL(sampling_temperature); REAL(sampling_topp);
  REAL(length_penalty); REAL(word_reward);
}

static void show_texts(const char *name, const char *const *texts, int size) {
  printf("\"%s\": [", name);
  for (int n = 0; n < size; n++) {
    printf("%s\"", n ? ", " : "");
    for (const char *c = texts[n]; *c; c++) printf(*c == '"' || *c == '\\' ? "\\%c" : "%c", *c);
    printf("\"");
  }
  printf("], ");
}

static void show_details(const nmt_translation *one) {
  printf("{\"confidence\": \"%a\", \"log_probs\": [", one->confidence);
  for (int t = 0; t < one->length; t++) printf("%s\"%a\"", t ? ", " : "", (double)one->log_probs[t]);
  printf("], \"attention\": [");
  for (int n = 0; one->attention && n < one->length * (one->source_length + 1); n++)
    printf("%s\"%a\"", n ? ", " : "", (double)one->attention[n]);
  printf("], ");
  show_texts("tokens", one->tokens, one->length), show_texts("source_tokens", one->source_tokens, one->source_length);
  printf("\"alignment\": [");
  for (size_t n = 0; n < one->pairs; n++) printf("%s[%d, %d]", n ? ", " : "", one->alignment[n].source, one->alignment[n].target);
  printf("]}\n");
}

static void show_scores(void) {
  char error[NMT_ERROR_SIZE];
  const nmt_results *found;
  static char own[10000][1000];
  static const char *texts[10000];
  for (size_t n = 0; n < count; n++) snprintf(own[n], sizeof own[n], "%.*s", (int)sizes[n], lines[n]), texts[n] = own[n];
  if (nmt_score(model, texts, texts, count, &found, error)) fprintf(stderr, "%s\n", error), exit(1);
  for (size_t n = 0; n < count; n++) show_details(found->lines[n].translations);
  nmt_free_results(found);
}

int main(int argc, char **argv) {
  char error[NMT_ERROR_SIZE];
  if (argc < 7) return 2;
  size_t size = 0;
  char *all = read_all(&size);
  for (char *at = all, *end; at < all + size; at = end + 1) {
    end = memchr(at, '\n', (size_t)(all + size - at));
    if (!end) end = all + size;
    lines[count] = at, sizes[count++] = (size_t)(end - at);
  }
  double start = now();
  int code = nmt_load(argv[1], *argv[2] ? argv[2] : NULL, &model, error);
  if (code) return fprintf(stderr, "%d: %s\n", code, error), 1;
  double loaded = now();
  nmt_defaults(&options);
  options.beam_size = atoi(argv[3]), options.n_best = atoi(argv[4]);
  int threads = atoi(argv[5]), rounds = atoi(argv[6]);
  for (int n = 7; n < argc; n++) set(argv[n]);
  const nmt_results *found[64];
  if (rounds) {
    size_t whole = count;
    count = 1;
    translate(found);
    nmt_free_results(found[0]);
    printf("%s\n%.3f\n%.3f\n", nmt_level(model), loaded - start, now() - loaded);
    count = whole;
  }
  for (int n = 0; n < rounds; n++) {
    char go[8];
    start = now();
    translate(found);
    nmt_free_results(found[0]);
    printf("%.3f\n", now() - start);
    (void)go;
  }
  if (scores) show_scores();
  if (!rounds && !scores) {
    pthread_t running[64];
    for (int t = 0; t < threads; t++) pthread_create(running + t, NULL, translate, found + t);
    for (int t = 0; t < threads; t++) pthread_join(running[t], NULL);
    for (int t = 1; t < threads; t++)
      if (differ(found[0], found[t])) return 3;
    for (size_t n = 0; n < count; n++) {
      const nmt_line *line = found[0]->lines + n;
      printf("%d %zu\n", line->warnings, line->count);
      for (size_t k = 0; k < line->count; k++) {
        const nmt_translation *one = line->translations + k;
        printf("%a %a %d %s\n", one->score, one->log_prob, one->length, one->text);
        if (options.details) show_details(one);
      }
    }
    for (int t = 0; t < threads; t++) nmt_free_results(found[t]);
  }
  nmt_free_model(model);
  free(all);
  return 0;
}
