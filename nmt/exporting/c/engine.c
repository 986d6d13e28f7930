/* Runs the compiled functions of one level: packing, encoding and search. plan.h has what is run, with which arrays; see
   nmt/exporting/description.py. */
#define _POSIX_C_SOURCE 200809L
#include "host.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "plan.h"

enum { FIRST = 8, DONE = 1, WHOLE = 1 << 30 }; /* words of a barrier at the start of a table; a status; no limit */
#define ADDRESS(pointer) ((int64_t)(intptr_t)(pointer))
#define COUNT(array) ((int)(sizeof(array) / sizeof *(array)))

/* ------------------------------------------------------------ what compiled functions call */

static _Thread_local arena *asking;

#ifdef _WIN32
void *nmt_allocate(int64_t size, int64_t line) {
#else
void *nmt_allocate(int64_t line, int64_t size) {
#endif
  void *found = aligned_alloc((size_t)line, (size_t)((size + line - 1) / line * line));
  if (!found) longjmp(*asking->failed, 1);
  return found;
}
void nmt_free(void *memory) { free_aligned(memory); }
#include "alone.h"

/* ------------------------------------------------------------ tables */

typedef struct {
  arena *memory;
  const char *content;
  void *const *packed;
} engine;

typedef struct {
  int64_t T, B, S, C;
  int reverse;
  const int64_t *owner, *source_lengths, *word, *parent;
} rows;

static void *array(const engine *e, int number) { return (void *)(e->content + array_at[number]); }
static void *floats(const engine *e, int64_t count) { return take(e->memory, 4 * (size_t)count); }
static int64_t *words(const engine *e, int64_t count) { return zeros(e->memory, 8 * (size_t)(count ? count : 1)); }
static int64_t *filled(const engine *e, int64_t count, int64_t value, int64_t step) {
  int64_t *found = words(e, count);
  for (int64_t n = 0; n < count; n++) found[n] = value + n * step;
  return found;
}
static void set_real(int64_t *word, double value) { memcpy(word, &value, 8); }
static void call(int code, int64_t *table) { functions[code](0, 1, table); }

static void **pack(arena *memory, const char *content) {
  void **packed = take(memory, COUNT(weights) * sizeof *packed);
  engine e = {memory, content, packed};
  asking = memory;
  for (int n = 0; n < COUNT(weights); n++) {
    const weight *w = weights + n;
    int64_t table[FIRST + 9] = {0}, *next = table + FIRST;
    packed[n] = floats(&e, w->size);
    *next++ = ADDRESS(array(&e, w->numbers)), *next++ = w->rows, *next++ = w->columns;
    if (w->scales >= 0) *next++ = ADDRESS(array(&e, w->scales)), *next++ = w->num_scales;
    *next++ = w->start, *next++ = w->stop, *next++ = ADDRESS(packed[n]), *next++ = w->size;
    call(w->code, table);
  }
  return packed;
}

static int64_t *table_of(const engine *e, const plan *p, const step *s, float **at, const rows *r) {
  int64_t *table = words(e, FIRST + 14 + s->num_operands + s->num_scratch + s->num_weights), *next = table + FIRST;
  const int64_t *owner = r->owner ? r->owner : filled(e, r->B, 0, 1);
  const int64_t numbers[] = {0, 0, r->T, r->T, r->B, r->C, r->S, r->reverse, r->reverse};
  for (int n = 0; n < COUNT(numbers); n++) *next++ = numbers[n];
  *next++ = ADDRESS(filled(e, 2, 0, r->B));
  *next++ = ADDRESS(p->dims);
  *next++ = ADDRESS(filled(e, r->B, r->T, 0));
  *next++ = ADDRESS(r->source_lengths ? r->source_lengths : filled(e, r->B, r->S, 0));
  *next++ = ADDRESS(owner);
  for (int n = 0; n < s->num_operands; n++) {
    const operand *o = s->operands + n;
    const void *found = o->kind == SLOT        ? (const void *)at[o->number]
                        : o->kind == PARAMETER ? array(e, o->number)
                        : o->kind == WORD      ? (const void *)r->word
                        : o->kind == PARENT    ? (const void *)r->parent
                                               : (const void *)owner;
    *next++ = ADDRESS(found);
  }
  for (int n = 0; n < s->num_scratch; n++)
    *next++ = ADDRESS(floats(e, (s->scratch[n].wide ? r->S : 1) * r->B * s->scratch[n].width));
  for (int n = 0; n < s->num_weights; n++) *next++ = ADDRESS(e->packed[s->weights[n]]);
  return table;
}

/* Make those arrays of a plan that are not given. */
static void make_arrays(const engine *e, const plan *p, float **at, const rows *r) {
  for (int n = 0; n < p->num_arrays; n++) {
    const shape *one = p->arrays + n;
    size_t bytes = 4 * (size_t)(r->T * (one->wide ? r->S : 1) * r->B * one->width);
    if (!at[one->slot]) at[one->slot] = zeros(e->memory, bytes);
  }
}

static float **slots_of(const engine *e, const plan *p) { return zeros(e->memory, (size_t)p->num_slots * sizeof(float *)); }

/* Run a plan over rows that all take T steps. */
static void run(const engine *e, const plan *p, float **at, const rows *r) {
  make_arrays(e, p, at, r);
  for (const step *s = p->steps; s < p->steps + p->num_steps; s++) {
    if (s->weight < 0) {
      call(s->code, table_of(e, p, s, at, r));
      continue;
    }
    int64_t segments[2] = {0, (s->wide ? r->S : r->T) * r->B};
    int64_t slot = s->after < 0 ? 0 : (s->after == 1) != r->reverse;
    int64_t table[FIRST + 12] = {0, 0, 0, 0, 0, 0, 0, 0, s->offset, s->width, 0, s->target_width, s->K, s->N, 1, 0,
                                 ADDRESS(at[s->source] + slot * r->B * s->width), ADDRESS(e->packed[s->weight]),
                                 ADDRESS(at[s->target]), ADDRESS(segments)};
    call(PRODUCT, table);
  }
}

/* Run a scan over x [T, B, n]. Returns y [T, B, size]; the final states [B, n] are put into `last`. */
static float *run_scan(const engine *e, const scan *s, float *x, int64_t T, int64_t B, int reverse, float **last) {
  float **at = slots_of(e, s->plan);
  rows r = {T, B, 1, B, reverse, NULL, NULL, NULL, NULL};
  at[s->x] = x;
  for (int n = 0; n < s->num_states; n++) {
    const state *one = s->states + n;
    float *stack = floats(e, (T + 1) * B * one->size), *first = stack + (reverse ? T : 0) * B * one->size;
    at[one->slot] = stack;
    if (one->learned < 0) memset(first, 0, 4 * (size_t)(B * one->size));
    else for (int64_t b = 0; b < B; b++) memcpy(first + b * one->size, array(e, one->learned), 4 * (size_t)one->size);
    last[n] = stack + (reverse ? 0 : T) * B * one->size;
  }
  run(e, s->plan, at, &r);
  return at[s->y] + (s->is_stack && !reverse ? B * s->size : 0);
}

/* ------------------------------------------------------------ encoding */

static float *beside(const engine *e, float *const *parts, const int *sizes, int count, int64_t num_rows) {
  int64_t width = 0, first = 0;
  if (count == 1) return parts[0];
  for (int n = 0; n < count; n++) width += sizes[n];
  float *out = floats(e, num_rows * width);
  for (int n = 0; n < count; first += sizes[n++])
    for (int64_t r = 0; r < num_rows; r++) memcpy(out + r * width + first, parts[n] + r * sizes[n], 4 * (size_t)sizes[n]);
  return out;
}

static int64_t *embedding(const engine *e, const int64_t *table, const int64_t *ids, int64_t count, float *out) {
  int64_t *found = words(e, EMBEDDING_WORDS);
  memcpy(found, table, 8 * EMBEDDING_WORDS);
  found[EMBEDDING_rows] = count;
  found[EMBEDDING_ids] = ADDRESS(ids), found[EMBEDDING_out] = ADDRESS(out);
  return found;
}

/* Fill in the tables of embeddings, but for their rows, ids and out. */
static void tables_of_embeddings(const engine *e, int64_t found[2][EMBEDDING_WORDS]) {
  for (int side = 0; side < 2; side++) {
    const table *one = embeddings + side;
    memset(found[side], 0, 8 * EMBEDDING_WORDS);
    found[side][EMBEDDING_width] = one->width, found[side][EMBEDDING_vocab_size] = one->vocab_size;
    set_real(&found[side][EMBEDDING_scale], one->scale);
    found[side][EMBEDDING_numbers] = ADDRESS(array(e, one->numbers));
    if (one->scales >= 0) found[side][EMBEDDING_scales] = ADDRESS(array(e, one->scales));
  }
}

/* Encode B sentences of one length. Returns the memory [S, B, MEMORY]; the decoder's initial states [B, n] are put into
   `initial`, NULL where they are zero. */
static float *encode(const engine *e, const int64_t *source_table, const sentence *sentences, int64_t B, float **initial) {
  int64_t S = COUNT(before) - 1 + sentences[0].size + COUNT(after) - 1;
  int64_t *ids = words(e, S * B);
  for (int64_t b = 0; b < B; b++) {
    int64_t s = 0;
    for (int n = 0; n < COUNT(before) - 1; n++) ids[s++ * B + b] = before[n];
    for (int64_t n = 0; n < sentences[b].size; n++) ids[s++ * B + b] = sentences[b].ids[n];
    for (int n = 0; n < COUNT(after) - 1; n++) ids[s++ * B + b] = after[n];
  }
  float *read = floats(e, S * B * embeddings[0].width), *x = read, *final[LAYERS + 1][MOST_STATES];
  call(embeddings[0].code, embedding(e, source_table, ids, S * B, read));
  for (int layer = 0; layer < LAYERS; layer++) {
    float *y[DIRECTIONS], *last[DIRECTIONS][MOST_STATES], *joined[DIRECTIONS];
    int sizes[DIRECTIONS];
    for (int n = 0; n < DIRECTIONS; n++) {
      y[n] = run_scan(e, encoder[layer][n], x, S, B, n == 1, last[n]);
      sizes[n] = encoder[layer][n]->size;
    }
    float *above = beside(e, y, sizes, DIRECTIONS, S * B);
    if (layer && RESIDUAL) {
      int64_t count = S * B * sizes[0] * DIRECTIONS;
      float *sum = floats(e, count);
      for (int64_t n = 0; n < count; n++) sum[n] = above[n] + x[n];
      above = sum;
    }
    x = above;
    for (int n = 0; n < encoder[layer][0]->num_states; n++) {
      for (int k = 0; k < DIRECTIONS; k++) joined[k] = last[k][n], sizes[k] = encoder[layer][0]->states[n].size;
      final[layer][n] = beside(e, joined, sizes, DIRECTIONS, B);
    }
  }
  if (OF_MEAN) {
    float *mean = zeros(e->memory, 4 * (size_t)(B * MEMORY)), share = (float)(1.0 / (double)S);
    for (int64_t s = 0; s < S; s++)
      for (int64_t n = 0; n < B * MEMORY; n++) mean[n] += x[s * B * MEMORY + n] * share;
    final[LAYERS][0] = mean;
  }
  for (int n = 0; n < COUNT(routes) - 1; n++) {
    float *from = final[routes[n].layer][routes[n].state], *none[MOST_STATES];
    initial[routes[n].target] = routes[n].scan ? run_scan(e, routes[n].scan, from, 1, B, 0, none) : from;
  }
  float *both[2] = {x, read};
  return LEXICAL ? beside(e, both, (const int[]){MEMORY, embeddings[0].width}, 2, S * B) : x;
}

/* ------------------------------------------------------------ search */

/* The arrays of the decoder for all sentences (see Search in nmt/exporting/web/engine.js, which does the same). */
typedef struct {
  int64_t *starts, *lengths, positions, longest, count;
  float *stored[COUNT(of_sentences)], *waiting[NUM_STATES];
} sources;

/* Encode all sentences, those of one length together. */
static sources admit(const engine *e, const int64_t *source_table, const sentence *sentences, int64_t count) {
  sources found = {words(e, count), NULL, 0, 1, count, {0}, {0}};
  int64_t more = COUNT(before) + COUNT(after) - 2;
  for (int64_t b = 0; b < count; b++) {
    int64_t length = sentences[b].size + more;
    found.starts[b] = found.positions, found.positions += length;
    if (length > found.longest) found.longest = length;
  }
  found.lengths = words(e, found.positions);
  for (int n = 0; n < COUNT(of_sentences) - 1; n++) found.stored[n] = floats(e, found.positions * of_sentences[n].size);
  for (int n = 0; n < NUM_STATES; n++) found.waiting[n] = zeros(e->memory, 4 * (size_t)(count * states[n].size));
  for (int64_t first = 0, next; first < count; first = next) {
    for (next = first; next < count && sentences[next].size == sentences[first].size && next < first + 64;) next++;
    arena moment = *e->memory;
    int64_t B = next - first, S = sentences[first].size + more;
    float *initial[NUM_STATES] = {0}, *x = encode(e, source_table, sentences + first, B, initial), **at = NULL;
    if (CONSTANT) {
      rows r = {1, B, S, B, 0, NULL, NULL, NULL, NULL};
      at = slots_of(e, CONSTANT);
      at[CONSTANT_MEMORY] = x;
      run(e, CONSTANT, at, &r);
    }
    for (int64_t b = 0; b < B; b++) {
      int64_t start = found.starts[first + b];
      found.lengths[start] = S;
      for (int n = 0; n < COUNT(of_sentences) - 1; n++) {
        const stored *one = of_sentences + n;
        const float *from = one->source < 0 ? x : at[one->source];
        for (int64_t s = 0; s < (one->narrow ? 1 : S); s++)
          memcpy(found.stored[n] + (start + s) * one->size, from + (s * B + b) * one->size, 4 * (size_t)one->size);
      }
      for (int n = 0; n < NUM_STATES; n++)
        if (initial[n])
          memcpy(found.waiting[n] + (first + b) * states[n].size, initial[n] + b * states[n].size, 4 * (size_t)states[n].size);
    }
    free_since(e->memory, moment);
  }
  return found;
}

/* Make the table of a part of the step, for up to `r->B` rows. */
static int64_t *part_of(const engine *e, const plan *p, float **at, const rows *r, const int64_t *divisions) {
  int64_t *found = words(e, PART_WORDS);
  make_arrays(e, p, at, r);
  found[PART_code] = ADDRESS(functions[p->steps->code]);
  found[PART_table] = ADDRESS(table_of(e, p, p->steps, at, r));
  found[PART_divisions] = ADDRESS(divisions);
  return found;
}

/* Make the tables of the parts of a step; `x` and `continued` are what it reads. Returns the outputs of the step. */
static float *connect(const engine *e, int64_t *search, const sources *all, int64_t C, float *x, float *const *continued) {
  int64_t *divisions = words(e, 3 * (C + 1)), *bounds = words(e, 2 * (C + 1)), *part_tables[3];
  for (int64_t n = 0; n <= C; n++) {
    bounds[2 * n + 1] = n;
    divisions[3 * n + 1] = 1, divisions[3 * n + 2] = ADDRESS(bounds + 2 * n);
  }
  float **at = slots_of(e, STEP);
  for (int n = 0; n < 2; n++) {
    const part *one = parts + n;
    part_tables[n] = words(e, PART_WORDS);
    part_tables[n][PART_divisions] = ADDRESS(divisions);
    if (!one->plan) continue;
    float **own = slots_of(e, one->plan);
    rows r = {1, C, 1, C, 0, NULL, NULL, NULL, NULL};
    if (one->x >= 0) own[one->x] = x;
    for (int k = 0; k < NUM_STATES; k++)
      if (one->states[k] >= 0) own[one->states[k]] = continued[k];
    part_tables[n] = part_of(e, one->plan, own, &r, divisions);
    for (int k = 0; k < one->num_links; k++) at[one->links[k].to] = own[one->links[k].from];
  }
  for (int n = 0; n < COUNT(of_sentences) - 1; n++) at[of_sentences[n].slot] = all->stored[n];
  for (int n = 0; n < NUM_STATES; n++) at[states[n].slot] = zeros(e->memory, 8 * (size_t)(C * states[n].size));
  int64_t *columns[8];
  for (int n = 0; n < 8; n++) columns[n] = words(e, NUM_STATES + COUNT(directly));
  for (int n = 0; n < COUNT(directly) - 1; n++) {
    int k = directly[n].state, size = k < 0 ? embeddings[1].width : states[k].size;
    if (!at[directly[n].slot]) at[directly[n].slot] = zeros(e->memory, 4 * (size_t)(C * size));
    columns[0][n] = ADDRESS(k < 0 ? x : continued[k]), columns[1][n] = ADDRESS(at[directly[n].slot]);
    columns[2][n] = 4 * size, columns[3][n] = k < 0;
  }
  for (int n = 0; n < NUM_STATES; n++) {
    columns[4][n] = ADDRESS(at[states[n].slot]), columns[5][n] = ADDRESS(all->waiting[n]);
    columns[6][n] = ADDRESS(continued[n]), columns[7][n] = 4 * states[n].size;
  }
  rows r = {1, C, all->longest, 1, 0, (void *)(intptr_t)search[SEARCH_rows_source], all->lengths,
            (void *)(intptr_t)search[SEARCH_rows_word], (void *)(intptr_t)search[SEARCH_rows_parent]};
  part_tables[2] = part_of(e, STEP, at, &r, divisions);
  search[SEARCH_inputs] = ADDRESS(part_tables[0]), search[SEARCH_states] = ADDRESS(part_tables[1]);
  search[SEARCH_step] = ADDRESS(part_tables[2]);
  search[SEARCH_num_gathered] = COUNT(directly) - 1, search[SEARCH_num_states] = NUM_STATES;
  search[SEARCH_gathered_source] = ADDRESS(columns[0]), search[SEARCH_gathered_target] = ADDRESS(columns[1]);
  search[SEARCH_gathered_num_bytes] = ADDRESS(columns[2]), search[SEARCH_gathered_by_word] = ADDRESS(columns[3]);
  search[SEARCH_continued_stepped] = ADDRESS(columns[4]), search[SEARCH_continued_waiting] = ADDRESS(columns[5]);
  search[SEARCH_continued_target] = ADDRESS(columns[6]), search[SEARCH_continued_num_bytes] = ADDRESS(columns[7]);
  return at[STEP_Y];
}

static int64_t *output_layer(const engine *e, const int64_t *search, int64_t C, int64_t places, float *x) {
  int64_t *found = words(e, OUTPUT_WORDS), chunks = (VOCABULARY + OUTPUT_CHUNK - 1) / OUTPUT_CHUNK;
  found[OUTPUT_rows] = C, found[OUTPUT_inputs] = OUTPUT_INPUTS, found[OUTPUT_columns] = VOCABULARY;
  found[OUTPUT_places] = places, found[OUTPUT_parts] = 1, found[OUTPUT_words] = OUTPUT_ROUNDED;
  found[OUTPUT_chunks] = chunks, found[OUTPUT_first_token] = search[SEARCH_first_token];
  found[OUTPUT_y] = ADDRESS(x), found[OUTPUT_weights] = ADDRESS(e->packed[OUTPUT_WEIGHT]);
  found[OUTPUT_bias] = ADDRESS(array(e, OUTPUT_BIAS));
  found[OUTPUT_tokens] = search[SEARCH_tokens], found[OUTPUT_scores] = search[SEARCH_scores];
  found[OUTPUT_rounded] = ADDRESS(floats(e, C * OUTPUT_ROUNDED)), found[OUTPUT_counts] = ADDRESS(words(e, C));
  found[OUTPUT_part_tokens] = ADDRESS(floats(e, C * places)), found[OUTPUT_part_logits] = ADDRESS(floats(e, C * places));
  found[OUTPUT_tops] = ADDRESS(floats(e, C * chunks)), found[OUTPUT_totals] = ADDRESS(floats(e, C * chunks));
  return found;
}

static double divisor(double penalty, int64_t length) {
  if (penalty < 0) return length > 1 ? (double)length : 1;
  return pow((double)(5 + length) / 6, penalty);
}

/* Make the memory of a search for `size` sentences at a time with up to `width` tokens. */
static int64_t *search_memory(const engine *e, const request *asked, int64_t width) {
  int64_t K = asked->beam_size, C = asked->size * K, slots = 2 * asked->size, *search = words(e, SEARCH_WORDS);
  for (int n = 0; n < COUNT(search_by_row); n++) search[search_by_row[n]] = ADDRESS(words(e, C));
  for (int n = 0; n < COUNT(search_by_slot); n++) search[search_by_slot[n]] = ADDRESS(words(e, slots));
  for (int n = 0; n < COUNT(search_by_hypothesis); n++) search[search_by_hypothesis[n]] = ADDRESS(words(e, slots * K));
  search[SEARCH_room] = C, search[SEARCH_num_slots] = slots, search[SEARCH_width] = width;
  search[SEARCH_beam_size] = K, search[SEARCH_size] = asked->size, search[SEARCH_n_best] = asked->n_best;
  search[SEARCH_vocab_size] = VOCABULARY, search[SEARCH_eos_id] = EOS_ID, search[SEARCH_never] = BOS_ID;
  search[SEARCH_first_token] = asked->first_token, search[SEARCH_num_free] = slots;
  set_real(search + SEARCH_word_reward, asked->word_reward);
  search[SEARCH_free] = ADDRESS(filled(e, slots, 0, 1)), search[SEARCH_numbering] = ADDRESS(filled(e, VOCABULARY, -1, 0));
  search[SEARCH_live_first_row] = ADDRESS(words(e, C + 1)), search[SEARCH_moments] = ADDRESS(words(e, 3));
  search[SEARCH_history] = ADDRESS(floats(e, 2 * C * width)), search[SEARCH_hypotheses_history] = ADDRESS(floats(e, slots * K * width));
  search[SEARCH_tokens] = ADDRESS(words(e, C * (K + 1))), search[SEARCH_scores] = ADDRESS(words(e, C * (K + 1)));
  double *divisors = take(e->memory, 8 * (size_t)(width + 1));
  for (int64_t n = 0; n <= width; n++) divisors[n] = divisor(asked->length_penalty, n);
  search[SEARCH_divisors] = ADDRESS(divisors);
  return search;
}

/* Let all sentences wait, each with its limit. */
static void queue(const engine *e, int64_t *search, const sentence *sentences, const sources *all) {
  int64_t *limits = words(e, all->count);
  for (int64_t b = 0; b < all->count; b++) limits[b] = sentences[b].limit;
  search[SEARCH_waiting_sentence] = search[SEARCH_waiting_sentence_id] = ADDRESS(filled(e, all->count, 0, 1));
  search[SEARCH_waiting_list] = ADDRESS(words(e, all->count)), search[SEARCH_waiting_limit] = ADDRESS(limits);
  search[SEARCH_waiting_token] = ADDRESS(filled(e, all->count, BOS_ID, 0));
  search[SEARCH_num_waiting] = all->count, search[SEARCH_starts] = ADDRESS(all->starts);
  search[SEARCH_num_ids] = CAPTURES ? all->count : 0;
}

/* Read the sentences that have ended, and free their slots. */
static void read_ended(arena *results, int64_t *search, sentence *sentences) {
#define COLUMN(type, name) ((type *)(intptr_t)search[SEARCH_##name])
  int64_t K = search[SEARCH_beam_size], width = search[SEARCH_width];
  for (int64_t n = 0; n < search[SEARCH_num_ended]; n++) {
    int64_t slot = COLUMN(int64_t, ended)[n], count = COLUMN(int64_t, slots_num_ended)[slot];
    sentence *one = sentences + COLUMN(int64_t, slots_sentence)[slot];
    one->found = take(results, (size_t)count * sizeof *one->found), one->count = (int)count;
    for (int64_t k = 0, at = slot * K; k < count; k++, at++) {
      size_t size = (size_t)COLUMN(int64_t, hypotheses_steps)[at];
      int32_t *ids = take(results, 4 * size);
      memcpy(ids, COLUMN(int32_t, hypotheses_history) + at * width, 4 * size);
      one->found[k] = (hypothesis){ids, (int)size, COLUMN(int64_t, hypotheses_finished)[at] != 0,
                                   COLUMN(double, hypotheses_sum)[at], COLUMN(double, hypotheses_score)[at]};
    }
    COLUMN(int64_t, free)[search[SEARCH_num_free]++] = slot;
  }
  search[SEARCH_num_ended] = 0;
}

static void search_all(arena *memory, arena *results, const char *content, void *const *packed, sentence *sentences,
                       int64_t count, const request *asked) {
  engine here = {memory, content, packed}, *e = &here;
  int64_t C = asked->size * asked->beam_size, width = 1, tables[2][EMBEDDING_WORDS];
  asking = memory;
  for (int64_t b = 0; b < count; b++)
    if (sentences[b].limit >= width) width = sentences[b].limit + 1;
  tables_of_embeddings(e, tables);
  sources all = admit(e, tables[0], sentences, count);
  int64_t *search = search_memory(e, asked, width);
  float *x = zeros(memory, 4 * (size_t)(C * embeddings[1].width)), *continued[NUM_STATES];
  for (int n = 0; n < NUM_STATES; n++) continued[n] = zeros(memory, 4 * (size_t)(C * states[n].size));
  search[SEARCH_outputs] = ADDRESS(connect(e, search, &all, C, x, continued));
  search[SEARCH_output_step] = STEP_Y_IS_STACK ? 4 * OUTPUT_INPUTS : 0;
  search[SEARCH_embedding_code] = ADDRESS(functions[embeddings[1].code]);
  search[SEARCH_embedding_table] = ADDRESS(embedding(e, tables[1], (void *)(intptr_t)search[SEARCH_distinct], C, x));
  int64_t places = asked->beam_size + 1 < VOCABULARY ? asked->beam_size + 1 : VOCABULARY;
  search[SEARCH_output_code] = ADDRESS(functions[OUTPUT_CODE]), search[SEARCH_output_parts] = 1;
  search[SEARCH_output_table] = ADDRESS(output_layer(e, search, C, places, x));
  queue(e, search, sentences, &all);
  do {
    search[SEARCH_budget] = WHOLE;
    call(SEARCH_CODE, search);
    read_ended(results, search, sentences);
  } while (search[SEARCH_status] != DONE);
}

const level THIS_LEVEL = {LEVEL_NAME, pack, search_all};
