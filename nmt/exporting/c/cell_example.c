/* An effect: reads steps of floats from the standard input, and writes the network's outputs to the standard output.
   cc net_example.c libnet.a -o net_example && ./net_example < in.f32 > out.f32 */
#include <stdio.h>

#include "net.h"

static net_state state;

int main(void) {
  float x[NET_STREAMS * NET_INPUT_SIZE], y[NET_STREAMS * NET_OUTPUT_SIZE];
  net_reset(&state);
  while (fread(x, sizeof x, 1, stdin)) {
    net_step(&state, x, y);
    fwrite(y, sizeof y, 1, stdout);
  }
  return 0;
}
