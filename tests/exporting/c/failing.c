/* failing MODEL < LINE: let each allocation of a translation fail in turn. Prints how many can fail; each must be an error
   of one line that leaves no memory in use. Linked with --wrap of the functions below. */
#include <stdio.h>
#include <stdlib.h>

#include "translator.h"

static long count, failing, used;
void *__real_malloc(size_t), *__real_calloc(size_t, size_t), *__real_aligned_alloc(size_t, size_t);
void __real_free(void *);
static int fails(void) { return ++count == failing || !++used; }
void *__wrap_malloc(size_t size) { return fails() ? NULL : __real_malloc(size); }
void *__wrap_calloc(size_t items, size_t size) { return fails() ? NULL : __real_calloc(items, size); }
void *__wrap_aligned_alloc(size_t line, size_t size) { return fails() ? NULL : __real_aligned_alloc(line, size); }
void __wrap_free(void *memory) {
  used -= memory != NULL;
  __real_free(memory);
}

int main(int argc, char **argv) {
  static char line[10000];
  char error[NMT_ERROR_SIZE];
  if (argc != 2 || !fgets(line, sizeof line, stdin)) return 2;
  for (failing = 1;; failing++) {
    const char *lines[] = {line};
    const nmt_results *found = NULL, *scored = NULL;
    nmt_model *model = NULL;
    nmt_options options;
    nmt_defaults(&options);
    options.n_best = 3, options.details = 1, options.min_length = 2, options.prefixes = lines;
    count = used = 0;
    int code = nmt_load(argv[1], NULL, &model, error);
    if (!code) code = nmt_translate(model, lines, NULL, 1, &options, &found, error);
    if (!code) code = nmt_score(model, lines, lines, 1, &scored, error);
    nmt_free_results(found), nmt_free_results(scored);
    nmt_free_model(model);
    if (used || (code && code != NMT_NO_MEMORY)) return printf("%ld: code %d, %ld in use\n", failing, code, used), 1;
    if (!code) return count < failing ? printf("%ld\n", failing - 1), 0 : (printf("%ld was ignored\n", failing), 1);
  }
}
