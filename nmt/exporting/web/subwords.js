// Text to subwords and back, as data/corpora/corpus.py cleans it and sentencepiece cuts it.

import { array_of } from "./engine.js";

const SPACE = "▁", UNKNOWN = 2, CONTROL = 3, USER = 4, UNUSED = 5, BYTE = 6, NORMAL = 1;

// ------------------------------------------------------------ cleaning

const NOT_TEXT = /[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff▁ ]+/gu, NOT_PIECES = /[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff ]+/gu;
const INVISIBLE = new RegExp("^[\\s\\x00-\\x1f\\x7f-\\x9f\\xad\\u034f\\u061c\\u115f\\u1160\\u17b4\\u17b5\\u180b-\\u180f\\u200b-\\u200f" +
  "\\u202a-\\u202e\\u2060-\\u206f\\u3164\\ufe00-\\ufe0f\\ufeff\\uffa0\\ufff0-\\ufff8\\u{1d173}-\\u{1d17a}\\u{e0000}-\\u{e0fff}]*$", "u");
// Everyday Cherokee has capitals alone, and everyday Georgian none (nmt/data/tokens/letter_case.py).
const CHEROKEE = "\\u13a0-\\u13ff\\uab70-\\uabbf", GEORGIAN = "\\u10a0-\\u10ff\\u1c90-\\u1cbf\\u2d00-\\u2d2f";
const NOT_CHEROKEE = new RegExp("[^" + CHEROKEE + "]+", "g"), TWO_CASES = new RegExp("[^" + CHEROKEE + GEORGIAN + "]+", "g");
export const is_cherokee = text => new RegExp("[" + CHEROKEE + "]").test(text);
export const lowered = text => text.replace(NOT_CHEROKEE, part => part.toLowerCase());
export const capitals_of = text => text.replace(TWO_CASES, part => part.toUpperCase());
const FORMS = { nfc: "NFC", nfkc: "NFKC" };

// Return a line as the model reads it: normalised, with runs of spaces and control characters replaced by one space, and
// empty if nothing in it is visible.
export function clean_line(text, lowercase, normalize) {
  const form = FORMS[normalize];
  if (form) text = text.normalize(form);
  if (lowercase) {
    text = lowered(text);
    if (form) text = text.normalize(form);
  }
  text = text.replace(normalize === "pieces" ? NOT_PIECES : NOT_TEXT, " ").replace(/^ +| +$/g, "");
  return INVISIBLE.test(text) ? "" : text;
}

// ------------------------------------------------------------ sentencepiece

const encoder = new TextEncoder();

// The normalisation of a model: a trie of byte strings (Yata's double array) and what replaces them.
class CharacterMap {
  constructor(bytes) {
    const size = new DataView(bytes.buffer, bytes.byteOffset).getUint32(0, true);
    this.units = new Uint32Array(bytes.slice(4, 4 + size).buffer);
    this.texts = bytes.subarray(4 + size);
  }
  // Return the length of the longest key at a position, and its replacement; null if there is none.
  longest(bytes, at) {
    let node = 0, found = null, unit = this.units[0];
    const offset = unit => (unit >>> 10) << ((unit & 512) >>> 6);
    node ^= offset(unit);
    for (let n = at; n < bytes.length; n++) {
      node ^= bytes[n];
      unit = this.units[node];
      if (((unit & 0x800000ff) >>> 0) !== bytes[n]) break;
      node ^= offset(unit);
      if ((unit >>> 8) & 1) found = [n + 1 - at, this.units[node] & 0x7fffffff];
    }
    if (!found) return null;
    let end = found[1];
    while (this.texts[end]) end++;
    return [found[0], new TextDecoder().decode(this.texts.subarray(found[1], end))];
  }
}

export class Subwords {
  constructor(made, facts) {
    const part = key => array_of(made, facts.name + "." + key), map = part("map");
    Object.assign(this, facts);
    this.scores = part("scores");
    this.types = part("types");
    this.ids = part("ids");
    this.map = map.length ? new CharacterMap(map) : null;
    this.numbers = new Map();
    this.reserved = new Map();
    this.symbols = [];
    this.longest = 1;
    let least = Infinity, most = -Infinity;
    facts.pieces.forEach((piece, n) => {
      const type = this.types[n];
      if (type === UNKNOWN) this.unknown = n;
      if ([UNKNOWN, CONTROL, BYTE].includes(type)) {
        this.reserved.set(piece, n);
        return;
      }
      this.numbers.set(piece, n);
      this.longest = Math.max(this.longest, [...piece].length);
      if (type === USER) this.symbols.push(piece);
      if (type === NORMAL) {
        least = Math.min(least, this.scores[n]);
        most = Math.max(most, this.scores[n]);
      }
    });
    this.symbols.sort((a, b) => b.length - a.length);
    this.unknown_score = Math.fround(least - 10);
    this.most = most;
    this.of_ours = new Map();
    this.ids.forEach((id, n) => { if (!this.of_ours.has(id) || this.reserved.get(facts.pieces[n]) === undefined) this.of_ours.set(id, n); });
  }

  number(piece) {
    const reserved = this.reserved.get(piece), found = reserved === undefined ? this.numbers.get(piece) : reserved;
    return found === undefined ? this.unknown : found;
  }
  symbol(text, at) { return this.symbols.length ? this.symbols.find(one => text.startsWith(one, at)) : undefined; }

  // Return the normalised text (sentencepiece's normalizer.cc): the model's replacements, and its rules for spaces.
  normalise(text) {
    const chars = [...text], bytes = this.map ? encoder.encode(text) : null, steps = [];
    let at = 0, place = 0, n = 0; // in the text, in its bytes, among its characters
    while (n < chars.length) {
      const symbol = this.symbol(text, at), mapped = symbol === undefined && bytes ? this.map.longest(bytes, place) : null;
      let read = symbol === undefined ? chars[n] : symbol, written = read;
      if (mapped) {
        read = new TextDecoder("utf-8", { ignoreBOM: true }).decode(bytes.subarray(place, place + mapped[0]));
        written = mapped[1];
      }
      steps.push(written);
      at += read.length;
      n += [...read].length;
      place += bytes ? encoder.encode(read).length : 0;
    }
    let first = 0;
    while (this.trims && first < steps.length && steps[first] === " ") first++;
    if (first === steps.length) return "";
    const space = this.escapes ? SPACE : " ";
    let out = this.prefix ? space : "", after_space = this.trims;
    for (let one of steps.slice(first)) {
      while (after_space && one.startsWith(" ")) one = one.slice(1);
      if (one) {
        out += this.escapes ? one.replaceAll(" ", SPACE) : one;
        after_space = one.endsWith(" ");
      }
      if (!this.trims) after_space = false;
    }
    while (this.trims && out.endsWith(space)) out = out.slice(0, -1);
    return out;
  }

  // Return the tokens of a cleaned line: their ids and, as text, their pieces; unknown ones as written.
  cut(line) {
    const text = this.normalise(line), pieces = text ? this[this.kind](text) : [], ids = [], found = [];
    let was_unknown = false;
    for (const piece of pieces) {
      const n = this.number(piece), is_unknown = n === this.unknown;
      if (is_unknown && this.bytes) {
        for (const byte of encoder.encode(piece)) {
          const name = "<0x" + byte.toString(16).toUpperCase().padStart(2, "0") + ">";
          found.push(name);
          ids.push(this.ids[this.number(name)]);
        }
      } else if (is_unknown && was_unknown) found[found.length - 1] += piece;
      else {
        found.push(piece);
        ids.push(this.ids[n]);
      }
      was_unknown = is_unknown && !this.bytes;
    }
    return { ids, pieces: found };
  }

  // The most probable segmentation (Kudo 2018), with the arithmetic of unigram_model.cc: float32 sums.
  unigram(text) {
    const chars = [...text], size = chars.length, sum = new Float32Array(size + 1), from = new Int32Array(size + 1).fill(-1);
    for (let start = 0; start < size; start++) {
      let piece = "", single = false;
      for (let end = start + 1; end <= Math.min(size, start + this.longest); end++) {
        piece += chars[end - 1];
        const n = this.numbers.get(piece);
        if (n === undefined || this.types[n] === UNUSED) continue;
        const score = this.types[n] === USER ? Math.fround((end - start) * this.most - 0.1) : this.scores[n], total = Math.fround(score + sum[start]);
        if (from[end] < 0 || total > sum[end]) {
          sum[end] = total;
          from[end] = start;
        }
        if (end === start + 1) single = true;
      }
      if (single) continue;
      const total = Math.fround(this.unknown_score + sum[start]);
      if (from[start + 1] < 0 || total > sum[start + 1]) {
        sum[start + 1] = total;
        from[start + 1] = start;
      }
    }
    const pieces = [];
    for (let end = size; end > 0; end = from[end]) pieces.push(chars.slice(from[end], end).join(""));
    return pieces.reverse();
  }

  char(text) {
    const found = [];
    for (let at = 0; at < text.length;) {
      const symbol = this.symbol(text, at), one = symbol === undefined ? String.fromCodePoint(text.codePointAt(at)) : symbol;
      found.push(one);
      at += one.length;
    }
    return found;
  }

  word(text) { return text.split(/(?=▁)/); }

  // Merge neighbours, always the pair with the best score, then the leftmost (Sennrich et al. 2016).
  bpe(text) {
    const parts = this.char(text), fixed = parts.map(one => this.symbols.includes(one));
    const before = parts.map((_, n) => n - 1), after = parts.map((_, n) => n + 1), heap = new Heap(), parents = new Map();
    const offer = (left, right) => {
      if (left < 0 || right >= parts.length || fixed[left] || fixed[right]) return;
      const piece = parts[left] + parts[right], n = this.numbers.get(piece);
      if (n === undefined) return;
      heap.push({ score: this.scores[n], left, right, piece });
      if (this.types[n] === UNUSED) parents.set(piece, [parts[left], parts[right]]);
    };
    for (let n = 1; n < parts.length; n++) offer(n - 1, n);
    for (let best; (best = heap.pop());) {
      const { left, right, piece } = best;
      if (parts[left] + parts[right] !== piece || parts[left] === "" || parts[right] === "") continue;
      parts[left] = piece;
      parts[right] = "";
      after[left] = after[right];
      if (after[right] < parts.length) before[after[right]] = left;
      offer(before[left], left);
      offer(left, after[left]);
    }
    const split = piece => {
      const n = this.numbers.get(piece), halves = parents.get(piece);
      return n !== undefined && this.types[n] === UNUSED && halves ? halves.flatMap(split) : [piece];
    };
    return parts.filter(Boolean).flatMap(split);
  }

  // Return the text of ids; special tokens are skipped, and the text has no line break.
  join(ids) {
    let text = "", bytes = [], begins = true, seen = false;
    const flush = () => {
      for (let at = 0; at < bytes.length;) {
        const size = [4, 3, 2, 1].find(n => at + n <= bytes.length && is_character(bytes.slice(at, at + n)));
        text += size ? new TextDecoder("utf-8", { ignoreBOM: true }).decode(Uint8Array.from(bytes.slice(at, at + size))) : "\ufffd";
        at += size || 1;
      }
      bytes = [];
    };
    for (const id of ids.filter(one => one > 3)) {
      const n = this.of_ours.get(id);
      let piece = this.pieces[n];
      if (this.types[n] === BYTE) {
        bytes.push(parseInt(piece.slice(3, 5), 16));
        continue;
      }
      flush();
      if (seen || text) begins = false;
      seen = false;
      if (begins && (this.prefix || this.trims) && piece.startsWith(SPACE)) {
        piece = piece.slice(1);
        seen = !this.trims;
      }
      text += piece.replaceAll(SPACE, " ");
    }
    flush();
    return text.replace(/[\x00-\x1f\x7f-\x9f\u2028\u2029]/g, " ");
  }

  // Return the pieces of ids as text.
  names(ids) { return ids.map(id => id <= 3 ? ["<pad>", "<unk>", "<s>", "</s>"][id] : this.pieces[this.of_ours.get(id)]); }
}

function is_character(bytes) {
  try {
    return [...new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(Uint8Array.from(bytes))].length === 1;
  } catch (e) {
    return false;
  }
}

// A queue of possible merges: the best score first, then the leftmost.
class Heap {
  constructor() { this.all = []; }
  precedes(a, b) { return a.score > b.score || (a.score === b.score && a.left < b.left); }
  push(one) {
    const all = this.all;
    let n = all.push(one) - 1;
    for (let up; n && this.precedes(all[n], all[up = (n - 1) >> 1]); n = up) [all[n], all[up]] = [all[up], all[n]];
  }
  pop() {
    const all = this.all, [first] = all, last = all.pop();
    if (!all.length) return first;
    all[0] = last;
    for (let n = 0; ;) {
      let best = n;
      for (const child of [2 * n + 1, 2 * n + 2]) if (child < all.length && this.precedes(all[child], all[best])) best = child;
      if (best === n) return first;
      [all[n], all[best]] = [all[best], all[n]];
      n = best;
    }
  }
}
