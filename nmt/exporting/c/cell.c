/* The functions of the header of a cell. Its memory begins with a `head`, whose table the compiled step reads. */
#include "net.h"

#include <string.h>

#include "alone.h"
#include "cell_level.h"
#include "layout.h"
#include "levels.h"

typedef struct {
  const void *here;
  const level *level;
  int64_t table[NUM_WORDS];
} head;

#if SCRATCH_BYTES
/* What a step asks for lies in the memory of its state. */
static _Thread_local char *unused __attribute__((tls_model("initial-exec")));
void *nmt_allocate(int64_t line, int64_t size) { return (void)line, unused += size, unused - size; }
void nmt_free(void *memory) { (void)memory; }
#endif

/* Fill in the table for memory at this place, and choose the level: the last one needs no question. */
static void connect(head *h) {
  size_t best = 0;
  while (best + 1 < sizeof levels / sizeof *levels && !has_level(best)) best++;
  h->here = h, h->level = levels[best];
  for (int n = 0; n < NUM_WORDS; n++) {
    const word *w = h->level->words + n;
    const char *from = w->kind == MEMORY ? (const char *)h : w->kind == CONSTANT ? h->level->constants : NULL;
    h->table[n] = (int64_t)(intptr_t)from + w->value;
  }
}

void net_reset(net_state *state) {
  head *h = (head *)(void *)state;
  memset(state, 0, sizeof *state);
  connect(h);
  for (const stack *s = stacks; s->bytes; s++)
    for (size_t n = 0; s->learned >= 0 && n < NET_STREAMS; n++)
      memcpy((char *)h + s->at + n * s->bytes, h->level->constants + s->learned, s->bytes);
}

void net_step(net_state *state, const float *x, float *y) {
  head *h = (head *)(void *)state;
  if (h->here != h) connect(h);
  if (X_WORD) h->table[X_WORD] = (int64_t)(intptr_t)x;
#if SCRATCH_BYTES
  unused = (char *)h + SCRATCH_AT;
#endif
  h->level->step(0, 1, h->table);
  memcpy(y, (char *)h + Y_AT, 4 * NET_STREAMS * NET_OUTPUT_SIZE);
  for (const stack *s = stacks; s->bytes; s++) {
    char *old = (char *)h + s->at;
    memcpy(old, old + NET_STREAMS * s->bytes, NET_STREAMS * s->bytes);
  }
}

void net_run(net_state *state, const float *x, size_t steps, float *y) {
  for (; steps; steps--, x += NET_STREAMS * NET_INPUT_SIZE, y += NET_STREAMS * NET_OUTPUT_SIZE) net_step(state, x, y);
}
