#ifndef NMT_DETAILS_H
#define NMT_DETAILS_H
#include "host.h"
#include "translator.h"

/* What is needed to put a translation through the model. */
typedef struct {
  const level *level;
  const int64_t *words;
  const char *content;
  const subwords *target;
} details_of;

double confidence_of(double log_prob, int length);

/* Add what the model makes of a translation of these ids; `pieces`: of the source. */
void add_details(arena *memory, arena *work, const details_of *of, sentence *source, const text *pieces, const int32_t *ids,
                 nmt_translation *one);
#endif
