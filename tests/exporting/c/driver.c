/* driver MODEL LEVEL BEAM N_BEST THREADS ROUNDS < LINES: translate all lines in each thread. Prints, for each line, its
   warnings and number of translations, then a line for each: score and log-probability in hexadecimal, tokens, text. With
   ROUNDS, prints the milliseconds of loading, of translating the first line, and of each round instead. */
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

int main(int argc, char **argv) {
  char error[NMT_ERROR_SIZE];
  if (argc != 7) return 2;
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
  if (!rounds) {
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
      }
    }
    for (int t = 0; t < threads; t++) nmt_free_results(found[t]);
  }
  nmt_free_model(model);
  free(all);
  return 0;
}
