/* A recurrent network, one step of time after another. Written by nmt.exporting.c.cell; link with libnet.a or libnet.so.
   It needs nothing but memcpy and memset: it takes no memory, waits for nothing, and cannot fail. */
#ifndef NET_H
#define NET_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* SIZES */

/* All that changes for NET_STREAMS independent streams. A variable is aligned as it must be; memory that is asked for
   must be aligned to NET_ALIGNMENT bytes. A program may copy it. Two threads may not use one state at the same time. */
typedef struct {
  unsigned char memory[NET_STATE_BYTES];
} __attribute__((aligned(NET_ALIGNMENT))) net_state;

/* Begin at the initial states. A state must be reset before its first step. */
void net_reset(net_state *state);

/* Take one step: x [NET_STREAMS][NET_INPUT_SIZE], y [NET_STREAMS][NET_OUTPUT_SIZE]; they may be the same memory. */
void net_step(net_state *state, const float *x, float *y);

/* Take so many steps: x [steps][NET_STREAMS][NET_INPUT_SIZE], y [steps][NET_STREAMS][NET_OUTPUT_SIZE]. */
void net_run(net_state *state, const float *x, size_t steps, float *y);

#ifdef __cplusplus
}
#endif
#endif
