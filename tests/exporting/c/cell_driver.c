/* cell_driver STEPS < X: writes the outputs of steps one by one, of one run, of two streams in turn (the second reads the
   steps backwards), of a state that moves to other memory at every step, and of a run whose outputs replace its inputs
   where they are as wide. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "net.h"

enum { IN = NET_STREAMS * NET_INPUT_SIZE, OUT = NET_STREAMS * NET_OUTPUT_SIZE };

static net_state *made(void) {
  net_state *found = aligned_alloc(NET_ALIGNMENT, sizeof *found); /* valgrind sees what is read or written beyond it */
  net_reset(found);
  return found;
}

static void put(const float *y, size_t count) {
  if (fwrite(y, sizeof(float), count, stdout) != count) exit(1);
}

int main(int count, char **arguments) {
  size_t T = count > 1 ? (size_t)atoi(arguments[1]) : 0;
  float *x = malloc(T * IN * sizeof *x), *y = malloc(T * OUT * sizeof *y), *back = malloc(T * OUT * sizeof *back);
  if (fread(x, IN * sizeof *x, T, stdin) != T) return 1;
  net_state *one = made(), *other = made();
  for (size_t t = 0; t < T; t++) net_step(one, x + t * IN, y + t * OUT);
  put(y, T * OUT);
  net_reset(one);
  net_run(one, x, T, y);
  put(y, T * OUT);
  net_reset(one);
  for (size_t t = 0; t < T; t++) {
    net_step(one, x + t * IN, y + t * OUT);
    net_step(other, x + (T - 1 - t) * IN, back + t * OUT);
  }
  put(y, T * OUT);
  put(back, T * OUT);
  net_reset(one);
  for (size_t t = 0; t < T; t++) {
    net_step(one, x + t * IN, y + t * OUT);
    *other = *one;
    memset(one, 255, sizeof *one);
    net_state *moved = one;
    one = other, other = moved;
  }
  put(y, T * OUT);
  if (IN == OUT) {
    net_reset(one);
    net_run(one, x, T, x);
    put(x, T * OUT);
  }
  free(x), free(y), free(back), free(one), free(other);
  return 0;
}
