/* Translate the lines of the standard input: cc example.c libtranslator.a -lm -o translate && ./translate model.bin */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "translator.h"
#ifdef _WIN32 /* else the text ends at a ^Z */
#include <fcntl.h>
#include <io.h>
#define BINARY() (_setmode(0, _O_BINARY), _setmode(1, _O_BINARY))
#else
#define BINARY() 0
#endif

/* Read a line with its end; return its size, 0 at the end of the text. */
static size_t read_line(char **line, size_t *room) {
  size_t size = 0;
  for (int c = 0; c != '\n' && (c = getchar()) != EOF; (*line)[size++] = (char)c)
    if (size == *room && !(*line = realloc(*line, *room = 2 * size + 256))) exit(1);
  return size;
}

int main(int count, char **arguments) {
  char error[NMT_ERROR_SIZE], *line = NULL;
  size_t room = 0, size;
  nmt_model *model;
  (void)BINARY();
  if (nmt_load(count > 1 ? arguments[1] : "model.bin", NULL, &model, error)) {
    fprintf(stderr, "%s\n", error);
    return 1;
  }
  while ((size = read_line(&line, &room))) {
    const char *lines[] = {line};
    const nmt_results *found;
    if (nmt_translate(model, lines, &size, 1, NULL, &found, error)) {
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
