/* Translate the lines of the standard input: cc example.c libtranslator.a -lm -o translate && ./translate model.bin */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "translator.h"

int main(int count, char **arguments) {
  char error[NMT_ERROR_SIZE], *line = NULL;
  size_t room = 0;
  ssize_t size;
  nmt_model *model;
  if (nmt_load(count > 1 ? arguments[1] : "model.bin", NULL, &model, error)) {
    fprintf(stderr, "%s\n", error);
    return 1;
  }
  while ((size = getline(&line, &room, stdin)) >= 0) {
    const char *lines[] = {line};
    const nmt_results *found;
    size_t bytes = (size_t)size;
    if (nmt_translate(model, lines, &bytes, 1, NULL, &found, error)) {
      fprintf(stderr, "%s\n", error);
      return 1;
    }
    puts(found->lines[0].count ? found->lines[0].translations[0].text : "");
    nmt_free_results(found);
  }
  free(line);
  nmt_free_model(model);
  return 0;
}
