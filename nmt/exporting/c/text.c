/* Text to tokens and back: cleaned as nmt/data/corpora/corpus.py does, and cut as sentencepiece does. */
#include "host.h"

#include <stdlib.h>
#include <string.h>

#include "text_tables.h"

enum { LINE = 64, REPLACEMENT = 0xfffd, UNKNOWN = 2, USER = 4, BYTE = 6, CONTROL = 3 };
#define COUNT(array) (sizeof(array) / sizeof *(array))
typedef unsigned char byte;

/* ------------------------------------------------------------ memory */

struct block {
  block *before;
  size_t room;
  char *at;
};

void *take(arena *memory, size_t bytes) {
  bytes = (bytes + LINE - 1) / LINE * LINE;
  if (!memory->last || memory->last->room - memory->used < bytes) {
    size_t room = bytes > (1 << 18) ? bytes : 1 << 18;
    block *made = malloc(sizeof *made);
    char *at = made ? aligned_alloc(LINE, room) : NULL;
    if (!at) {
      free(made);
      longjmp(*memory->failed, 1);
    }
    *made = (block){memory->last, room, at};
    memory->last = made, memory->used = 0;
  }
  char *found = memory->last->at + memory->used;
  memory->used += bytes;
  return found;
}

void *zeros(arena *memory, size_t bytes) { return memset(take(memory, bytes), 0, bytes); }

void free_since(arena *memory, arena moment) {
  while (memory->last != moment.last) {
    block *last = memory->last;
    memory->last = last->before;
    free_aligned(last->at);
    free(last);
  }
  memory->used = moment.used;
}

void append(text *target, const char *bytes, size_t size) {
  if (target->size + size > target->room) {
    size_t room = 2 * target->room > target->size + size ? 2 * target->room : target->size + size + LINE;
    char *at = take(target->memory, room);
    if (target->size) memcpy(at, target->at, target->size);
    target->at = at, target->room = room;
  }
  if (size) memcpy(target->at + target->size, bytes, size);
  target->size += size;
}

/* ------------------------------------------------------------ UTF-8 and sets of characters */

/* Return the size of the character at `at`, and put it into `found`: U+FFFD for the longest part of one, or a byte. */
static size_t decoded(const byte *at, size_t size, uint32_t *found) {
  static const uint32_t least[] = {0, 0x80, 0x800, 0x10000};
  byte first = *at;
  size_t more = first < 0x80 ? 0 : first >= 0xc2 && first < 0xe0 ? 1 : first >= 0xe0 && first < 0xf0 ? 2 : 3;
  *found = REPLACEMENT;
  if (first >= 0x80 && (first < 0xc2 || first > 0xf4)) return 1;
  uint32_t value = more ? first & (0x3f >> more) : first;
  for (size_t n = 1; n <= more; n++) {
    if (n >= size || (at[n] & 0xc0) != 0x80) return n;
    value = value << 6 | (at[n] & 0x3f);
    uint32_t low = value << 6 * (more - n), high = low | ((1u << 6 * (more - n)) - 1);
    if (high < least[more] || low > 0x10ffff || (low >= 0xd800 && high <= 0xdfff)) return n;
  }
  *found = value;
  return more + 1;
}

static void append_character(text *target, uint32_t c) {
  char bytes[4];
  size_t more = c < 0x80 ? 0 : c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
  static const byte marks[] = {0, 0xc0, 0xe0, 0xf0};
  for (size_t n = more; n > 0; n--, c >>= 6) bytes[n] = (char)(0x80 | (c & 0x3f));
  bytes[0] = (char)(marks[more] | c);
  append(target, bytes, more + 1);
}

/* Return the last row of a rising table whose first number is at most `key`; NULL if there is none. */
static const uint32_t *last_row(const uint32_t *table, size_t rows, size_t columns, uint32_t key) {
  size_t low = 0, high = rows;
  while (low < high) {
    size_t middle = (low + high) / 2;
    if (table[middle * columns] <= key) low = middle + 1;
    else high = middle;
  }
  return low ? table + (low - 1) * columns : NULL;
}
#define LAST_ROW(table, key) last_row(*table, COUNT(table) - 1, COUNT(*table), key)

/* Return whether one of the ranges has a character. */
#define IS_IN(ranges, c) is_within(LAST_ROW(ranges, c), c)
static int is_within(const uint32_t *range, uint32_t c) { return range && c <= range[1]; }
static uint32_t value_of(const uint32_t *row, uint32_t key) { return row && row[0] == key ? row[1] : 0; }

/* ------------------------------------------------------------ cleaning */

typedef struct {
  uint32_t *at;
  size_t size;
} characters;

enum { S_BASE = 0xac00, L_BASE = 0x1100, V_BASE = 0x1161, T_BASE = 0x11a7, L_COUNT = 19, V_COUNT = 21, T_COUNT = 28 };

/* Return the character that two together are in Unicode's normal form; 0 if there is none. */
static uint32_t composed(uint32_t a, uint32_t b) {
  if (a - L_BASE < L_COUNT && b - V_BASE < V_COUNT) return S_BASE + ((a - L_BASE) * V_COUNT + (b - V_BASE)) * T_COUNT;
  if (a - S_BASE < L_COUNT * V_COUNT * T_COUNT && !((a - S_BASE) % T_COUNT) && b - T_BASE - 1 < T_COUNT - 1)
    return a + b - T_BASE;
  size_t low = 0, high = COUNT(compositions) - 1;
  while (low < high) {
    size_t middle = (low + high) / 2;
    const uint32_t *row = compositions[middle];
    if (row[0] == a && row[1] == b) return row[2];
    if (row[0] < a || (row[0] == a && row[1] < b)) low = middle + 1;
    else high = middle;
  }
  return 0;
}

/* Return a text in Unicode's normal form (Unicode Standard Annex 15). */
static characters normal_form(arena *memory, characters line) {
  size_t start = 0, room = 0;
  while (start < line.size && line.at[start] < FIRST_CHANGED) start++;
  if (start == line.size) return line;
  for (size_t n = 0; n < line.size; n++) {
    uint32_t place = value_of(LAST_ROW(decompositions, line.at[n]), line.at[n]);
    room += place ? expansions[place] : 3; /* a syllable of Hangul has up to three letters */
  }
  characters out = {take(memory, 4 * room), 0};
  for (size_t n = 0; n < line.size; n++) {
    uint32_t c = line.at[n], place = value_of(LAST_ROW(decompositions, c), c), s = c - S_BASE;
    if (s < L_COUNT * V_COUNT * T_COUNT) {
      out.at[out.size++] = L_BASE + s / (V_COUNT * T_COUNT);
      out.at[out.size++] = V_BASE + s % (V_COUNT * T_COUNT) / T_COUNT;
      if (s % T_COUNT) out.at[out.size++] = T_BASE + s % T_COUNT;
    } else if (place) for (uint32_t k = 1; k <= expansions[place]; k++) out.at[out.size++] = expansions[place + k];
    else out.at[out.size++] = c;
  }
  uint32_t *classes = take(memory, 4 * out.size + 4);
  for (size_t n = 0; n < out.size; n++) classes[n] = value_of(LAST_ROW(combining, out.at[n]), out.at[n]);
  for (size_t first = 0, end; first < out.size; first = end) { /* a stable sort of each run of marks, by counting */
    for (end = first + 1; end < out.size && classes[end];) end++;
    size_t from = classes[first] ? first : first + 1;
    uint32_t *sorted = end - from > 1 ? take(memory, 8 * (end - from)) : NULL, count = 0;
    if (!sorted) continue;
    for (uint32_t wanted = 1; wanted < 256; wanted++)
      for (size_t n = from; n < end; n++)
        if (classes[n] == wanted) sorted[2 * count] = out.at[n], sorted[2 * count++ + 1] = wanted;
    for (size_t n = from; n < end; n++) out.at[n] = sorted[2 * (n - from)], classes[n] = sorted[2 * (n - from) + 1];
  }
  size_t kept = 0, starter = SIZE_MAX, before = 0; /* `before`: the class of the last mark since the starter */
  for (size_t n = 0; n < out.size; n++) {
    uint32_t made = 0;
    if (starter != SIZE_MAX && (kept == starter + 1 || before < classes[n])) made = composed(out.at[starter], out.at[n]);
    if (made) {
      out.at[starter] = made;
      continue;
    }
    before = classes[n];
    if (!before) starter = kept;
    out.at[kept++] = out.at[n];
  }
  out.size = kept;
  return out;
}

/* Return whether a capital sigma is the last letter of a word: a cased letter before it, none after it. */
static int is_final(characters line, size_t sigma) {
  size_t before = sigma, after = sigma + 1;
  while (before && IS_IN(case_ignorable, line.at[before - 1])) before--;
  while (after < line.size && IS_IN(case_ignorable, line.at[after])) after++;
  return before && IS_IN(cased, line.at[before - 1]) && (after == line.size || !IS_IN(cased, line.at[after]));
}

/* Return a text in lower case; Cherokee letters stay, and end a word for a sigma. */
static characters lower_case(arena *memory, characters line) {
  characters out = {take(memory, 8 * line.size), 0};
  for (size_t n = 0; n < line.size; n++) {
    uint32_t c = line.at[n];
    const uint32_t *row = LAST_ROW(small_letters, c);
    int is_capital = row && row[0] == c;
    out.at[out.size++] = is_capital ? row[1] : c != 0x3a3 ? c : is_final(line, n) ? 0x3c2 : 0x3c3;
    if (is_capital && row[2]) out.at[out.size++] = row[2];
  }
  return out;
}

/* Return a line as the model reads it, in UTF-8. */
static text cleaned(arena *memory, const char *line, size_t size) {
  characters all = {take(memory, 4 * size), 0};
  for (size_t n = 0; n < size;) n += decoded((const byte *)line + n, size - n, &all.at[all.size++]);
  if (NORMALISES) all = normal_form(memory, all);
  if (LOWERS) all = lower_case(memory, all);
  if (LOWERS && NORMALISES) all = normal_form(memory, all);
  text out = {memory, NULL, 0, 0};
  int pending = 0, visible = 0;
  for (size_t n = 0; n < all.size; n++) {
    uint32_t c = all.at[n];
    if (IS_IN(not_text, c)) {
      pending = out.size > 0;
      continue;
    }
    if (pending) append(&out, " ", 1);
    pending = 0;
    visible = visible || !IS_IN(invisible, c);
    append_character(&out, c);
  }
  if (!visible) out.size = 0;
  return out;
}

/* ------------------------------------------------------------ sentencepiece */

typedef struct {
  const subwords *about;
  const char *content;
  const int32_t *starts, *order, *ids, *numbers, *symbols;
  const float *scores;
  const byte *types, *texts;
} pieces;

static pieces pieces_of(const char *content, const subwords *model) {
#define ARRAY(name) (const void *)(content + model->name)
  return (pieces){model,          content,       ARRAY(starts),  ARRAY(order), ARRAY(ids),  ARRAY(numbers),
                  ARRAY(symbols), ARRAY(scores), ARRAY(types), ARRAY(texts)};
}

/* Narrow a range of pieces, in the order of their bytes, to those with byte `c` at `depth`. */
static void narrow(const pieces *p, int32_t *low, int32_t *high, size_t depth, byte c) {
  int32_t bounds[2];
  for (int side = 0; side < 2; side++) {
    int32_t first = side ? bounds[0] : *low, last = *high;
    while (first < last) {
      int32_t middle = first + (last - first) / 2, n = p->order[middle];
      int32_t there = p->starts[n + 1] - p->starts[n] <= (int32_t)depth ? -1 : p->texts[p->starts[n] + (int32_t)depth];
      if (there < c + side) first = middle + 1;
      else last = middle;
    }
    bounds[side] = first;
  }
  *low = bounds[0], *high = bounds[1];
}

/* Return the number of the piece that ends at `depth` in a range; -1 if there is none. */
static int32_t ending(const pieces *p, int32_t low, int32_t high, size_t depth) {
  if (low >= high) return -1;
  int32_t n = p->order[low];
  return p->starts[n + 1] - p->starts[n] == (int32_t)depth ? n : -1;
}

static int32_t number_of(const pieces *p, const char *bytes, size_t size) {
  int32_t low = 0, high = p->about->num_pieces;
  for (size_t n = 0; n < size && low < high; n++) narrow(p, &low, &high, n, (byte)bytes[n]);
  return ending(p, low, high, size);
}
static int is_reserved(const pieces *p, int32_t n) {
  return p->types[n] == UNKNOWN || p->types[n] == CONTROL || p->types[n] == BYTE;
}
/* Return the number of a piece that text can contain; -1 if there is none. */
static int32_t plain_number(const pieces *p, const char *bytes, size_t size) {
  int32_t n = number_of(p, bytes, size);
  return n >= 0 && is_reserved(p, n) ? -1 : n;
}

/* Return the size of the symbol of the user that a text starts with; 0 if there is none. */
static size_t symbol_size(const pieces *p, const char *bytes, size_t size) {
  for (int k = 0; k < p->about->num_symbols; k++) {
    int32_t n = p->symbols[k];
    size_t own = (size_t)(p->starts[n + 1] - p->starts[n]);
    if (own <= size && !memcmp(bytes, p->texts + p->starts[n], own)) return own;
  }
  return 0;
}
static size_t character_size(const char *at) {
  byte first = (byte)*at;
  return first < 0x80 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
}

/* Return the size of the longest key of the model's replacements at a place, and put its replacement into `found`. They
   are a trie of byte strings (Yata's double array), and texts that end with a zero. */
static size_t replaced(const pieces *p, const char *at, size_t size, const char **found) {
  const char *map = p->content + p->about->map;
  uint32_t bytes, unit, node = 0, best = 0;
  size_t longest = 0;
  if (!p->about->map_size) return 0;
  memcpy(&bytes, map, 4);
#define UNIT(n) (memcpy(&unit, map + 4 + 4 * (size_t)(n), 4), unit)
#define OFFSET(unit) (((unit) >> 10) << (((unit) & 512) >> 6))
  node ^= OFFSET(UNIT(0));
  for (size_t n = 0; n < size; n++) {
    node ^= (byte)at[n];
    if (4 * (size_t)node >= bytes || (UNIT(node) & 0x800000ff) != (byte)at[n]) break;
    uint32_t has_value = (unit >> 8) & 1;
    node ^= OFFSET(unit);
    if (has_value) longest = n + 1, best = UNIT(node) & 0x7fffffff;
  }
  if (longest) *found = map + 4 + bytes + best;
  return longest;
}

/* Return the text in the form that pieces have (sentencepiece's normalizer.cc). */
static text normalised(arena *memory, const pieces *p, const text *line) {
  const subwords *about = p->about;
  const char *space = about->escapes ? "\xe2\x96\x81" : " ", *written;
  size_t space_size = strlen(space), read, size;
  text out = {memory, NULL, 0, 0};
  int began = 0, after_space = about->trims;
  for (size_t n = 0; n < line->size; n += read) {
    read = symbol_size(p, line->at + n, line->size - n), size = read, written = line->at + n;
    if (!read && (read = replaced(p, line->at + n, line->size - n, &written))) size = strlen(written);
    else if (!read) read = size = character_size(line->at + n);
    if (!began && about->trims && size == 1 && *written == ' ') continue;
    if (!began && about->prefix) append(&out, space, space_size);
    began = 1;
    while (after_space && size && *written == ' ') written++, size--;
    for (size_t k = 0; k < size; k++) {
      if (written[k] == ' ') append(&out, space, space_size);
      else append(&out, written + k, 1);
    }
    if (size) after_space = written[size - 1] == ' ';
    if (!about->trims) after_space = 0;
  }
  while (about->trims && out.size >= space_size && !memcmp(out.at + out.size - space_size, space, space_size))
    out.size -= space_size;
  return out;
}

/* Pieces of a text: where each ends. */
typedef struct {
  size_t *ends, count;
} ends;

/* The most probable segmentation (Kudo 2018), with the arithmetic of unigram_model.cc: float32 sums. */
static ends cut_unigram(arena *memory, const pieces *p, const text *t) {
  float *sums = zeros(memory, 4 * (t->size + 1));
  size_t *from = take(memory, (t->size + 1) * sizeof *from), width;
  for (size_t n = 0; n <= t->size; n++) from[n] = SIZE_MAX;
#define OFFER(end, score)                                                                 \
  do {                                                                                    \
    float total = (score) + sums[start];                                                  \
    if (from[end] == SIZE_MAX || total > sums[end]) sums[end] = total, from[end] = start; \
  } while (0)
  for (size_t start = 0; start < t->size; start += width) {
    int32_t low = 0, high = p->about->num_pieces;
    int is_known = 0;
    width = character_size(t->at + start);
    for (size_t end = start; end < t->size && low < high;) {
      narrow(p, &low, &high, end - start, (byte)t->at[end]);
      end++;
      int32_t n = ending(p, low, high, end - start);
      if (n < 0 || is_reserved(p, n)) continue;
      float score = p->scores[n];
      if (p->types[n] == USER) {
        int count = 0;
        for (size_t k = start; k < end; k++) count += (t->at[k] & 0xc0) != 0x80;
        score = (float)(count * (double)p->about->most - 0.1);
      }
      OFFER(end, score);
      if (end == start + width) is_known = 1;
    }
    if (!is_known) OFFER(start + width, p->about->least - 10);
  }
  ends found = {take(memory, (t->size + 1) * sizeof *found.ends), 0};
  for (size_t end = t->size; end > 0; end = from[end]) found.ends[found.count++] = end;
  for (size_t n = 0; n < found.count / 2; n++) {
    size_t other = found.ends[found.count - 1 - n];
    found.ends[found.count - 1 - n] = found.ends[n], found.ends[n] = other;
  }
  return found;
}

static ends cut_characters(arena *memory, const pieces *p, const text *t) {
  ends found = {take(memory, (t->size + 1) * sizeof *found.ends), 0};
  for (size_t n = 0, size; n < t->size; n += size) {
    size = symbol_size(p, t->at + n, t->size - n);
    if (!size) size = character_size(t->at + n);
    found.ends[found.count++] = n + size;
  }
  return found;
}

/* Possible merges: the best score first, then the leftmost. */
typedef struct { float score; size_t left, right, size; } merge;
typedef struct { merge *all; size_t count; } heap;
static int precedes(const merge *a, const merge *b) {
  return a->score > b->score || (a->score == b->score && a->left < b->left);
}
static void push(heap *h, merge one) {
  size_t n = h->count++;
  for (; n && precedes(&one, h->all + (n - 1) / 2); n = (n - 1) / 2) h->all[n] = h->all[(n - 1) / 2];
  h->all[n] = one;
}
static merge pop(heap *h) {
  merge first = h->all[0], last = h->all[--h->count];
  size_t n = 0, child;
  for (; (child = 2 * n + 1) < h->count; n = child) {
    if (child + 1 < h->count && precedes(h->all + child + 1, h->all + child)) child++;
    if (!precedes(h->all + child, &last)) break;
    h->all[n] = h->all[child];
  }
  h->all[n] = last;
  return first;
}

/* Parts of a text, by index: where each begins, its size (0 once it has been merged), and its neighbours. */
typedef struct { size_t start, size, before, after; int is_symbol; } segment;
typedef struct {
  const pieces *p;
  const text *t;
  segment *parts;
  size_t count;
  heap merges;
} merging;

static void offer(merging *m, size_t left, size_t right) {
  if (left >= m->count || right >= m->count || m->parts[left].is_symbol || m->parts[right].is_symbol) return;
  size_t size = m->parts[left].size + m->parts[right].size;
  int32_t n = plain_number(m->p, m->t->at + m->parts[left].start, size);
  if (n >= 0) push(&m->merges, (merge){m->p->scores[n], left, right, size});
}

/* Merge neighbours, always the pair with the best score, then the leftmost (Sennrich et al. 2016). */
static ends cut_bpe(arena *memory, const pieces *p, const text *t) {
  ends found = cut_characters(memory, p, t);
  merging m = {p, t, take(memory, found.count * sizeof *m.parts), found.count, {NULL, 0}};
  m.merges.all = take(memory, 3 * (found.count + 1) * sizeof *m.merges.all);
  for (size_t n = 0, start = 0; n < m.count; start = found.ends[n++])
    m.parts[n] = (segment){start, found.ends[n] - start, n - 1, n + 1, symbol_size(p, t->at + start, t->size - start) > 0};
  for (size_t n = 1; n < m.count; n++) offer(&m, n - 1, n);
  while (m.merges.count) {
    merge best = pop(&m.merges);
    segment *left = m.parts + best.left, *right = m.parts + best.right;
    if (!left->size || !right->size || left->size + right->size != best.size) continue;
    left->size = best.size, right->size = 0, left->after = right->after;
    if (left->after < m.count) m.parts[left->after].before = best.left;
    offer(&m, left->before, best.left);
    offer(&m, best.left, left->after);
  }
  found.count = 0;
  for (size_t n = 0; n < m.count; n++)
    if (m.parts[n].size) found.ends[found.count++] = m.parts[n].start + m.parts[n].size;
  return found;
}

int32_t *cut(arena *memory, const char *content, const subwords *model, const char *line, size_t size, int64_t *count, text **names) {
  pieces of = pieces_of(content, model), *p = &of;
  text clean = cleaned(memory, line, size), t = normalised(memory, p, &clean);
  ends found = model->is_bpe ? cut_bpe(memory, p, &t) : cut_unigram(memory, p, &t);
  int32_t *ids = take(memory, 4 * t.size + 4);
  text *named = names ? *names = take(memory, (t.size + 1) * sizeof *named) : NULL;
  int was_unknown = 0;
  *count = 0;
  for (size_t k = 0, start = 0; k < found.count; start = found.ends[k++]) {
    int32_t n = number_of(p, t.at + start, found.ends[k] - start);
    if (n < 0) n = model->unknown;
    int is_unknown = n == model->unknown;
    if (is_unknown && model->bytes) {
      static const char digits[] = "0123456789ABCDEF";
      for (size_t b = start; b < found.ends[k]; b++) {
        char name[] = {'<', '0', 'x', digits[(byte)t.at[b] >> 4], digits[(byte)t.at[b] & 15], '>'};
        int32_t own = number_of(p, name, sizeof name);
        if (named) named[*count] = name_of(content, model, p->ids[own < 0 ? model->unknown : own]);
        ids[(*count)++] = p->ids[own < 0 ? model->unknown : own];
      }
    } else if (!is_unknown || !was_unknown) {
      if (named) named[*count] = (text){NULL, t.at + start, found.ends[k] - start, 0};
      ids[(*count)++] = p->ids[n];
    } else if (named) named[*count - 1].size += found.ends[k] - start;
    was_unknown = is_unknown && !model->bytes;
  }
  return ids;
}

/* ------------------------------------------------------------ joining */

/* Append what bytes of pieces spell: characters, and U+FFFD for each other byte. */
static void append_bytes(text *target, const text *bytes) {
  for (size_t n = 0, size; n < bytes->size; n += size) {
    uint32_t c;
    size = decoded((const byte *)bytes->at + n, bytes->size - n, &c);
    if (c == REPLACEMENT && (size != 3 || memcmp(bytes->at + n, "\xef\xbf\xbd", 3))) size = 1;
    append_character(target, c);
  }
}

void join(text *target, const char *content, const subwords *model, const int32_t *ids, int64_t count) {
  pieces of = pieces_of(content, model), *p = &of;
  text raw = {target->memory, NULL, 0, 0}, bytes = raw;
  int begins = 1, seen = 0;
  for (int64_t k = 0; k < count; k++) {
    int32_t n = ids[k] > EOS_ID ? p->numbers[ids[k]] : -1;
    if (n < 0) continue;
    const char *piece = (const char *)p->texts + p->starts[n];
    size_t size = (size_t)(p->starts[n + 1] - p->starts[n]);
    if (p->types[n] == BYTE) {
      char digits[] = {piece[3], piece[4], 0}, value = (char)strtol(digits, NULL, 16);
      append(&bytes, &value, 1);
      continue;
    }
    append_bytes(&raw, &bytes);
    bytes.size = 0;
    if (seen || raw.size) begins = 0;
    seen = 0;
    if (begins && (model->prefix || model->trims) && size >= 3 && !memcmp(piece, "\xe2\x96\x81", 3))
      piece += 3, size -= 3, seen = !model->trims;
    for (size_t b = 0; b < size; b++) {
      int is_space = b + 3 <= size && !memcmp(piece + b, "\xe2\x96\x81", 3);
      append(&raw, is_space ? " " : piece + b, 1);
      b += 2 * (size_t)is_space;
    }
  }
  append_bytes(&raw, &bytes);
  for (size_t n = 0, size; n < raw.size; n += size) {
    uint32_t c;
    size = decoded((const byte *)raw.at + n, raw.size - n, &c);
    if (IS_IN(breaks, c)) append(target, " ", 1);
    else append(target, raw.at + n, size);
  }
}

/* Return the piece of an id as text. */
text name_of(const char *content, const subwords *model, int32_t id) {
  static char *const special[] = {"<pad>", "<unk>", "<s>", "</s>"};
  if (id <= EOS_ID) return (text){NULL, special[id], strlen(special[id]), 0};
  pieces of = pieces_of(content, model);
  int32_t n = of.numbers[id];
  return (text){NULL, (char *)of.texts + of.starts[n], (size_t)(of.starts[n + 1] - of.starts[n]), 0};
}

/* Return the next word of a text from `at` on, which is moved behind it; its size is 0 at the end. */
static text next_word(const text *of, size_t *at) {
  text found = {NULL, of->at, 0, 0};
  for (size_t size; *at < of->size; *at += size) {
    uint32_t c;
    size = decoded((const byte *)of->at + *at, of->size - *at, &c);
    if (IS_IN(spaces, c) && found.size) break;
    if (IS_IN(spaces, c)) continue;
    if (!found.size) found.at = of->at + *at;
    found.size += size;
  }
  return found;
}

/* Return whether two texts have the same words. */
int is_same(const text *a, const text *b) {
  for (size_t n = 0, k = 0;;) {
    text left = next_word(a, &n), right = next_word(b, &k);
    if (left.size != right.size || (left.size && memcmp(left.at, right.at, left.size))) return 0;
    if (!left.size) return 1;
  }
}
