/* The functions of translator.h. */
#define _POSIX_C_SOURCE 200809L
#include "translator.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#ifdef _WIN32
#include <io.h>
#define O_CLOEXEC O_BINARY
#define fstat _fstat64
typedef struct _stat64 file_facts;
#else
#include <sys/mman.h>
#include <unistd.h>
typedef struct stat file_facts;
#endif

#include "details.h"
#include "inside.h"
#include "levels.h"
#include "model.h"

/* Tokens of a sentence of which fewer are searched together; those of the hypotheses of a chunk. */
enum { LONG = 200, MOST_ROWS = 5 * 8192 };

struct nmt_model {
  const level *level;
  const char *content;
  int64_t *words;
  arena memory;
};

/* What nmt_results points to; `work` is freed before it is returned. */
typedef struct {
  nmt_results shown;
  arena memory, work;
  jmp_buf failed;
} made;

static int fail(char *error, int code, const char *format, ...) {
  va_list given;
  va_start(given, format);
  if (error) vsnprintf(error, NMT_ERROR_SIZE, format, given);
  va_end(given);
  return code;
}

/* ------------------------------------------------------------ the model */

static void free_model_file(void *content) {
#ifdef _WIN32
  _aligned_free(content);
#else
  munmap(content, MODEL_BYTES);
#endif
}

static int map_model(const char *path, const char **content, char *error) {
  file_facts about;
  if (!path) return *content = nmt_model_inside, NMT_OK;
  int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0 || fstat(file, &about)) {
    int reason = errno;
    if (file >= 0) close(file);
    return fail(error, NMT_UNREADABLE, "%.300s: must be the file of the model, cannot be read: %s", path, strerror(reason));
  }
  if (!S_ISREG(about.st_mode) || about.st_size != MODEL_BYTES) {
    close(file);
    return fail(error, NMT_OTHER_MODEL, "%.300s: must be the file of %lld bytes that was exported with this library, got %lld",
                path, (long long)MODEL_BYTES, (long long)about.st_size);
  }
#ifdef _WIN32 /* a mapped file could not be replaced */
  char *found = _aligned_malloc(MODEL_BYTES, 64);
  size_t size = 0;
  for (int more; found && size < MODEL_BYTES && (more = read(file, found + size, MODEL_BYTES - size)) > 0;) size += (size_t)more;
  close(file);
  if (!found || size != MODEL_BYTES) return free_model_file(found), fail(error, NMT_NO_MEMORY, "%.300s: no memory for %lld bytes", path, (long long)MODEL_BYTES);
#else
  void *found = mmap(NULL, MODEL_BYTES, PROT_READ, MAP_PRIVATE, file, 0);
  close(file);
  if (found == MAP_FAILED) return fail(error, NMT_NO_MEMORY, "%.300s: no memory for %lld bytes", path, (long long)MODEL_BYTES);
#endif
  if (memcmp(found, MODEL_ID, sizeof MODEL_ID - 1)) {
    free_model_file(found);
    return fail(error, NMT_OTHER_MODEL, "%.300s: must be the file that was exported with this library, got another one", path);
  }
  *content = found;
  return NMT_OK;
}

static void unmap_model(const char *content) {
  if (content != nmt_model_inside) free_model_file((void *)content);
}

static const level *level_named(const char *name) {
  for (size_t n = 0; n < sizeof levels / sizeof *levels; n++)
    if (has_level(n) && (!name || !strcmp(name, levels[n]->name))) return levels[n];
  return NULL;
}

SEEN int nmt_load(const char *path, const char *name, nmt_model **model, char *error) {
  if ((!path && !nmt_model_inside) || !model) return fail(error, NMT_WRONG_ARGUMENT, "nmt_load: path and model must be given, got NULL");
  const level *chosen = level_named(name);
  if (!chosen) return fail(error, NMT_WRONG_ARGUMENT, "nmt_load: level must be of " LEVEL_NAMES " and of this processor, got %s", name ? name : "none");
  const char *content = NULL;
  int code = map_model(path, &content, error);
  if (code) return code;
  nmt_model *found = calloc(1, sizeof *found);
  jmp_buf failed;
  if (!found || setjmp(failed)) {
    if (found) free_since(&found->memory, (arena){NULL, 0, NULL});
    free(found);
    unmap_model(content);
    return fail(error, NMT_NO_MEMORY, "nmt_load: no memory for the weights");
  }
  found->level = chosen, found->content = content;
  found->memory.failed = &failed;
  found->words = chosen->pack(&found->memory, content);
  *model = found;
  return NMT_OK;
}

SEEN void nmt_free_model(nmt_model *model) {
  if (!model) return;
  free_since(&model->memory, (arena){NULL, 0, NULL});
  unmap_model(model->content);
  free(model);
}

SEEN const char *nmt_level(const nmt_model *model) { return model->level->name; }

/* ------------------------------------------------------------ options */

SEEN void nmt_defaults(nmt_options *options) { *options = (nmt_options)DEFAULTS; }

static int check(const nmt_options *o, char *error) {
  nmt_options given = *o;
  if (given.length_penalty == NMT_AVERAGE) given.length_penalty = 0;
#define RULE(name, least, most) {#name, (double)given.name, least, most},
  const struct { const char *name; double value, least, most; } rules[] = {OPTIONS(RULE)};
  if (o->prefixes && !SAME_CLEANING)
    return fail(error, NMT_WRONG_ARGUMENT, "nmt_translate: prefixes must be for a model that reads both languages' text alike, got another one");
  for (size_t n = 0; n < sizeof rules / sizeof *rules; n++)
    if (!(rules[n].value >= rules[n].least && rules[n].value <= rules[n].most))
      return fail(error, NMT_WRONG_ARGUMENT, "nmt_translate: %s must be from %g to %g, got %g", rules[n].name, rules[n].least,
                  rules[n].most, rules[n].value);
  return NMT_OK;
}

/* ------------------------------------------------------------ translating */

/* Sort hypotheses: those that have ended before the others, then by score; equal ones stay in their order. */
static void rank(hypothesis *all, int count) {
  for (int n = 1; n < count; n++) {
    hypothesis one = all[n];
    int k = n;
    for (; k > 0 && (one.finished > all[k - 1].finished || (one.finished == all[k - 1].finished && one.score > all[k - 1].score)); k--)
      all[k] = all[k - 1];
    all[k] = one;
  }
}

/* How many translations the search gives for a line: of several some may have the same text. */
static int wanted(const nmt_options *o) { return o->sampling || o->n_best == 1 ? o->n_best : o->beam_size; }

static const text *text_of(arena *memory, const nmt_model *model, const int32_t *ids, int64_t count) {
  text *found = take(memory, sizeof *found);
  *found = (text){memory, NULL, 0, 0};
  join(found, model->content, &target_subwords, ids, count);
  append(found, "", 1);
  found->size--;
  return found;
}

typedef struct { size_t line; sentence sentence; text *pieces; } numbered;

static void add(made *out, const nmt_model *model, numbered *of, const int32_t *ids, nmt_translation *one) {
  const details_of about = {model->level, model->words, model->content, &target_subwords};
  add_details(&out->memory, &out->work, &about, &of->sentence, of->pieces, ids, one);
}

/* Put the best translations into a line; those of a search differ by more than spaces. */
static void choose(made *out, const nmt_model *model, numbered *whole, const nmt_options *options, nmt_line *line) {
  const sentence *of = &whole->sentence;
  int most = wanted(options), count = 0;
  if (of->count < most) most = of->count;
  rank(of->found, of->count);
  nmt_translation *best = take(&out->memory, (size_t)(most + 1) * sizeof *best);
  const text **texts = take(&out->work, (size_t)(most + 1) * sizeof *texts);
  for (int n = 0; n < most && count < options->n_best; n++) {
    const hypothesis *one = of->found + n;
    const text *found = text_of(&out->memory, model, one->ids, one->size);
    int k = 0;
    while (k < count && !is_same(found, texts[k])) k++;
    if (k < count && !options->sampling) continue;
    texts[count] = found;
    best[count] = (nmt_translation){.text = found->at, .size = found->size, .score = one->score, .log_prob = one->log_prob,
                                    .length = one->size, .confidence = confidence_of(one->log_prob, one->size)};
    if (options->details) add(out, model, whole, one->ids, best + count);
    count++;
  }
  line->count = (size_t)count, line->translations = best;
}

static const nmt_translation blank = {.text = "", .confidence = 1};

static int by_length(const void *a, const void *b) {
  const numbered *left = a, *right = b;
  if (left->sentence.size != right->sentence.size) return left->sentence.size < right->sentence.size ? 1 : -1;
  return left->line < right->line ? -1 : left->line > right->line;
}

/* Cut a line of the source, to the longest that models read; return its ids, with pieces that last, and warnings. */
static int32_t *read_line(made *out, const nmt_model *model, const char *line, size_t bytes, numbered *one, int details, int *warnings) {
  int64_t size;
  text *pieces;
  int32_t *ids = cut(&out->work, model->content, &source_subwords, line, bytes, &size, details ? &pieces : NULL);
  *warnings = size > MOST_SOURCE ? NMT_CUT : 0;
  if (size > MOST_SOURCE) size = MOST_SOURCE;
  int32_t *own = take(&out->memory, 4 * (size_t)size + 4);
  memcpy(own, ids, 4 * (size_t)size);
  for (int64_t k = 0; k < size; k++)
    if (ids[k] == UNK_ID) *warnings |= NMT_UNKNOWN;
  one->sentence = (sentence){.ids = own, .size = size};
  if (!details) return own;
  one->pieces = take(&out->memory, (size_t)(size + 1) * sizeof *one->pieces);
  for (int64_t k = 0; k < size; k++) {
    one->pieces[k] = (text){&out->memory, NULL, 0, 0};
    append(one->pieces + k, pieces[k].at, pieces[k].size);
  }
  return own;
}

/* Cut all lines; return those that are to be translated, and their number. */
static numbered *cut_all(made *out, const nmt_model *model, const char *const *lines, const size_t *sizes, size_t count,
                         const nmt_options *options, nmt_line *found, size_t *waiting) {
  numbered *all = take(&out->work, (count + 1) * sizeof *all);
  for (size_t n = 0; n < count; n++) {
    arena moment = out->work;
    numbered *one = all + *waiting;
    int warnings;
    read_line(out, model, lines[n], sizes ? sizes[n] : strlen(lines[n]), one, options->details, &warnings);
    sentence *own = &one->sentence;
    own->limit = (int64_t)(options->max_length_ratio * (double)own->size) + options->max_length_extra;
    if (options->min_length >= own->limit && options->min_length) own->limit = options->min_length + 1;
    if (options->prefixes && options->prefixes[n]) {
      int32_t *ids = cut(&out->work, model->content, &target_subwords, options->prefixes[n], strlen(options->prefixes[n]), &own->prefix_size, NULL);
      own->prefix = memcpy(take(&out->memory, 4 * (size_t)own->prefix_size + 4), ids, 4 * (size_t)own->prefix_size);
      own->limit += own->prefix_size;
    }
    one->line = n;
    found[n] = (nmt_line){1, &blank, warnings};
    *waiting += own->size && own->limit > 0;
    free_since(&out->work, moment);
  }
  qsort(all, *waiting, sizeof *all, by_length);
  return all;
}

static void translate(made *out, const nmt_model *model, const char *const *lines, const size_t *sizes, size_t count,
                      const nmt_options *options) {
  nmt_line *found = take(&out->memory, (count + 1) * sizeof *found);
  size_t waiting = 0;
  numbered *all = cut_all(out, model, lines, sizes, count, options, found, &waiting);
  for (size_t first = 0, next; first < waiting; first = next) {
    int64_t longest = all[first].sentence.size, size = options->batch_size, tokens = 0;
    if (longest > LONG) size = size * LONG / longest;
    if (size < 1) size = 1;
    for (next = first; next < waiting; next++) {
      tokens += all[next].sentence.size;
      if (next - first >= (size_t)size && tokens * options->beam_size > MOST_ROWS) break;
    }
    arena moment = out->work;
    sentence *chunk = take(&out->work, (next - first) * sizeof *chunk);
    for (size_t n = first; n < next; n++) chunk[n - first] = all[n].sentence;
    if (size > (int64_t)(next - first)) size = (int64_t)(next - first);
    request asked = {
        .size = size, .beam_size = options->sampling ? options->n_best : options->beam_size, .n_best = wanted(options),
        .first_token = options->generate_unk ? UNK_ID : BOS_ID, .word_reward = options->word_reward,
        .length_penalty = options->length_penalty, .rule_numbers = RULE_NUMBERS(options), .rule_reals = RULE_REALS(options)};
    model->level->search(&out->work, model->words, chunk, (int64_t)(next - first), &asked);
    for (size_t n = first; n < next; n++) {
      all[n].sentence = chunk[n - first];
      choose(out, model, all + n, options, found + all[n].line);
    }
    free_since(&out->work, moment);
  }
  free_since(&out->work, (arena){NULL, 0, NULL});
  out->shown = (nmt_results){count, found};
}

static made *begun(void) {
  made *found = calloc(1, sizeof *found);
  if (found) found->memory.failed = found->work.failed = &found->failed;
  return found;
}

static int no_memory(made *found, const char *name, size_t count, char *error) {
  if (found) free_since(&found->work, (arena){NULL, 0, NULL});
  if (found) nmt_free_results(&found->shown);
  return fail(error, NMT_NO_MEMORY, "%s: no memory for %zu lines", name, count);
}

SEEN int nmt_translate(const nmt_model *model, const char *const *lines, const size_t *sizes, size_t count,
                       const nmt_options *options, const nmt_results **results, char *error) {
  if (!model || !results || (count && !lines))
    return fail(error, NMT_WRONG_ARGUMENT, "nmt_translate: model, lines and results must be given, got NULL");
  nmt_options chosen;
  if (options) chosen = *options;
  else nmt_defaults(&chosen);
  int code = check(&chosen, error);
  if (code) return code;
  made *found = begun();
  if (!found || setjmp(found->failed)) return no_memory(found, "nmt_translate", count, error);
  translate(found, model, lines, sizes, count, &chosen);
  *results = &found->shown;
  return NMT_OK;
}

/* Score a line. */
static void score(made *out, const nmt_model *model, const char *source, const char *target, nmt_line *line) {
  numbered of = {0};
  int64_t count;
  nmt_translation *one = zeros(&out->memory, sizeof *one);
  read_line(out, model, source, strlen(source), &of, 1, &line->warnings);
  int32_t *ids = cut(&out->work, model->content, &target_subwords, target, strlen(target), &count, NULL);
  const text *found = text_of(&out->memory, model, ids, count);
  ids[count++] = EOS_ID;
  one->text = found->at, one->size = found->size, one->length = (int)count;
  add(out, model, &of, ids, one);
  for (int64_t t = 0; t < count; t++) one->log_prob += (double)one->log_probs[t];
  one->score = one->log_prob, one->confidence = confidence_of(one->log_prob, one->length);
  line->count = 1, line->translations = one;
  free_since(&out->work, (arena){NULL, 0, NULL});
}

SEEN int nmt_score(const nmt_model *model, const char *const *sources, const char *const *targets, size_t count,
                   const nmt_results **results, char *error) {
  if (!model || !results || (count && (!sources || !targets)))
    return fail(error, NMT_WRONG_ARGUMENT, "nmt_score: model, sources, targets and results must be given, got NULL");
  if (!SAME_CLEANING)
    return fail(error, NMT_WRONG_ARGUMENT, "nmt_score: must be for a model that reads both languages' text alike, got another one");
  made *out = begun();
  if (!out || setjmp(out->failed)) return no_memory(out, "nmt_score", count, error);
  nmt_line *lines = zeros(&out->memory, (count + 1) * sizeof *lines);
  for (size_t n = 0; n < count; n++) score(out, model, sources[n], targets[n], lines + n);
  out->shown = (nmt_results){count, lines};
  *results = &out->shown;
  return NMT_OK;
}

SEEN void nmt_free_results(const nmt_results *results) {
  made *found = (made *)results;
  if (!found) return;
  free_since(&found->memory, (arena){NULL, 0, NULL});
  free(found);
}
