/* words NUMBER-OF-MODEL < LINES: print the ids of each line, and the text that they are. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host.h"
#include "models.h"

int main(int argc, char **argv) {
  const subwords *model = models + atoi(argv[argc - 1]);
  char *content = malloc(BYTES), *line = NULL;
  FILE *file = fopen("arrays", "rb");
  size_t room = 0;
  ssize_t size;
  if (!file || fread(content, 1, BYTES, file) != BYTES) return 1;
  while ((size = getline(&line, &room, stdin)) > 0) {
    jmp_buf failed;
    arena memory = {NULL, 0, &failed};
    if (setjmp(failed)) return 2;
    int64_t count;
    int32_t *ids = cut(&memory, content, model, line, (size_t)size - 1, &count, NULL);
    text joined = {&memory, NULL, 0, 0};
    join(&joined, content, model, ids, count);
    for (int64_t n = 0; n < count; n++) printf("%d ", ids[n]);
    printf("| ");
    fwrite(joined.at ? joined.at : "", 1, joined.size, stdout);
    putchar('\n');
    free_since(&memory, (arena){NULL, 0, NULL});
  }
  free(line), free(content);
  return fclose(file);
}
