// Translates lines and texts with a package: what inference/translator.py and the server's page do, in JavaScript.

import { Calibration } from "./confidence.js";
import { Engine, EOS_ID, UNK_ID, BOS_ID } from "./engine.js";
import { Subwords, capitals_of, clean_line, is_cherokee, lowered } from "./subwords.js";

const TOKENS_PER_SENTENCE = 200, LONGEST_SENTENCE = 1000, MOST_WORDS = 60, LEAST_CAPITALS = 4;
const CUT = most => "a source of more than " + most + " subwords is truncated to that length";
const UNKNOWN_TEXT = "text has characters or words that the model does not know";
const BROKEN = "a line break in the text is a space to the model; give each sentence by itself";
const EMPTY = "the translation is empty", UNSAYABLE = "no continuation is possible: all tokens are forbidden, or probabilities are not finite";

// ------------------------------------------------------------ options

// Return all options, those of the package where none is given. Throws a RangeError for one that is none. `bounds` has
// the least and the greatest value of each number, and whether it is a whole one.
export function checked(given, defaults, bounds) {
  const found = { ...defaults, n_best: 1, batch_size: 32, details: false, prefixes: [] };
  for (const [name, value] of Object.entries(given)) {
    if (value === undefined || value === null) continue;
    if (!(name in found)) throw new RangeError("options: must be of " + Object.keys(found).join(", ") + ", got " + name);
    const got = JSON.stringify(value);
    if (name === "prefixes") {
      if (!Array.isArray(value) || value.some(one => typeof one !== "string")) throw new RangeError("prefixes: must be an array of strings, got " + got);
    } else if (!bounds[name]) {
      if (typeof value !== "boolean") throw new RangeError(name + ": must be true or false, got " + got);
    } else if (!(name === "length_penalty" && ["none", "average"].includes(value))) {
      const [least, most, whole] = bounds[name];
      if (typeof value !== "number" || !(value >= least && value <= most) || (whole && !Number.isInteger(value))) {
        throw new RangeError(name + ": must be a " + (whole ? "whole " : "") + "number from " + least + " to " + most + ", got " + got);
      }
    }
    found[name] = value;
  }
  return found;
}

// Numbers with 128 bits behind the point.
const BITS = 128n, ONE = 1n << BITS, times = (a, b) => a * b >> BITS;
const fixed = x => BigInt(Math.trunc(x * 2 ** 110)) << BITS - 110n;
function logarithm(x) {
  let s = (x - ONE) * ONE / (x + ONE), sum = 0n;
  for (let term = s, n = 1n; term; term = times(times(term, s), s), n += 2n) sum += 2n * term / n;
  return sum;
}
const LN2 = logarithm(2n * ONE);

// base to the power of a number, base from 5 / 6 on, rounded as in C libraries: Math.pow has other last bits in each browser.
export function power(base, exponent) {
  if (exponent === 1) return base;
  let twos = 0, sum = 0n;
  while (base / 2 ** twos > 1.5) twos++;
  const y = times(fixed(exponent), logarithm(fixed(base / 2 ** twos)) + BigInt(twos) * LN2), k = (2n * y + LN2) / (2n * LN2), r = y - k * LN2;
  for (let term = ONE, n = 1n; term; term = times(term, r) / n, n++) sum += term;
  return Number(sum) * 2 ** (Number(k) - 128);
}

const powers = new Map(); // by penalty, by length
function divisor(penalty) {
  if (penalty === "none") return () => 1;
  if (penalty === "average") return length => Math.max(length, 1);
  if (!powers.has(penalty)) powers.set(penalty, []);
  const known = powers.get(penalty);
  return length => known[length] || (known[length] = power((5 + length) / 6, penalty));
}

// ------------------------------------------------------------ words

// The word of each piece: a piece that starts with `▁` begins one (see word_alignment.py).
export function words_of(pieces) {
  const found = [];
  let word = -1, pending = true;
  for (const piece of pieces) {
    pending = pending || piece.startsWith("▁");
    if (piece.replace(/^▁+|▁+$/g, "")) {
      word += pending ? 1 : 0;
      pending = false;
      found.push(word);
    } else found.push(word + 1);
  }
  return found.map(number => Math.max(0, Math.min(number, word)));
}
const count_of = words => Math.max(-1, ...words) + 1;

// Pairs (source word, target word): each piece goes to the source piece that it attends to most.
function alignment(attention, source, target) {
  const pairs = new Map();
  target.forEach((word, t) => {
    const row = attention[t], best = row.indexOf(Math.max(...row));
    if (best < source.length) pairs.set(source[best] * 1e6 + word, [source[best], word]);
  });
  return [...pairs.values()].sort((a, b) => a[0] - b[0] || a[1] - b[1]);
}

// Attention between words: averaged over a target word's pieces, summed over a source word's; the end comes last.
function soft(attention, source, target) {
  const from = count_of(source), found = Array.from({ length: count_of(target) }, () => Array(from + 1).fill(0)), sizes = Array(found.length).fill(0);
  target.forEach((word, t) => {
    sizes[word]++;
    attention[t].forEach((weight, s) => { found[word][s < source.length ? source[s] : from] += weight; });
  });
  return found.map((row, word) => row.map(weight => weight / sizes[word]));
}

// ------------------------------------------------------------ sentences

// Split a line into sentences, which together are the line, none of them longer than the model would read.
export function sentences_of(line, language) {
  let parts = [line];
  if (typeof Intl !== "undefined" && Intl.Segmenter) {
    let splitter;
    try { splitter = new Intl.Segmenter(language, { granularity: "sentence" }); } catch (e) { splitter = new Intl.Segmenter("en", { granularity: "sentence" }); }
    parts = Array.from(splitter.segment(line), one => one.segment);
  }
  return parts.flatMap(part => {
    const found = [];
    while (part.length > LONGEST_SENTENCE) {
      const space = part.lastIndexOf(" ", LONGEST_SENTENCE - 1);
      const end = space >= LONGEST_SENTENCE / 2 ? space + 1 : LONGEST_SENTENCE;
      found.push(part.slice(0, end));
      part = part.slice(end);
    }
    return part ? [...found, part] : found;
  });
}

// A text as lines and what ends them.
const lines_of = text => text.split(/(\r\n|[\n\r\v\f\x1c-\x1e\x85\u2028\u2029])/);

// Whether line breaks are between the first and the last character that Python calls no white space.
const is_broken = text => lines_of(text).filter(line => /[^\s\x1c-\x1f\x85]|\ufeff/.test(line)).length > 1;

// A text as white space ({text}) and sentences ({source, before, after}).
export function passage_of(text, language) {
  const parts = [];
  for (const line of lines_of(text)) {
    if (!line.trim()) {
      if (line) parts.push({ text: line });
      continue;
    }
    for (const piece of sentences_of(line, language)) {
      const source = piece.trim(), start = piece.indexOf(source);
      if (source) parts.push({ source, before: piece.slice(0, start), after: piece.slice(start + source.length) });
      else parts.push({ text: piece });
    }
  }
  return parts;
}

// A sentence in capitals is translated in lower case, and its translation is written in capitals.
export function is_capitals(text) {
  const letters = text.match(/[\p{Lu}\p{Ll}\p{Lt}\p{Lo}]/gu) || [];
  return letters.length >= LEAST_CAPITALS && letters.every(one => /\p{Uppercase}/u.test(one)) && !is_cherokee(text);
}
export function asked(text) {
  if (!is_capitals(text)) return text;
  const lower = lowered(text), at = lower.search(/\p{L}/u);
  return lower.slice(0, at) + lower.slice(at).replace(/^./u, capitals_of);
}

// ------------------------------------------------------------ the translator

export class Translator {
  static async load(bytes) { return new Translator(await Engine.load(bytes)); }

  constructor(engine) {
    this.engine = engine;
    this.facts = engine.facts;
    const { src, tgt } = this.facts.subwords;
    this.source = new Subwords(engine.made, src);
    this.target = tgt ? new Subwords(engine.made, tgt) : this.source;
    this.calibration = Calibration.of(engine.made);
  }

  // Return the subwords of a line as the model reads them.
  cut(line) { return this.source.cut(clean_line(line, ...this.facts.clean.src)); }
  cut_target(line) { return this.target.cut(clean_line(line, ...this.facts.clean.tgt)).ids; }

  // Return the translations of each line, the best first: text, score, log_prob, length, confidence, warnings, and with
  // `details` tokens, log_probs, source_tokens, attention and alignment. `progress` is called with the numbers of lines
  // done and of all; `step` is awaited now and then, and may throw to stop.
  async translate(lines, given = {}, { progress = () => {}, step = async () => {} } = {}) {
    if (!Array.isArray(lines) || lines.some(line => typeof line !== "string")) throw new TypeError("lines: must be an array of strings, got something else");
    const options = checked(given, this.facts.decoding, this.facts.bounds), most = this.facts.most_source;
    if (options.prefixes.length && options.prefixes.length !== lines.length) throw new RangeError("prefixes: must have an entry for each line, " + lines.length + ", got " + options.prefixes.length);
    const prefixes = options.prefixes.map(one => this.cut_target(one));
    const cuts = lines.map(line => this.cut(line)), results = lines.map(() => [this.blank()]);
    const order = cuts.map((_, n) => n).filter(n => cuts[n].ids.length).sort((a, b) => cuts[b].ids.length - cuts[a].ids.length || a - b);
    let done = lines.length - order.length;
    progress(done, lines.length);
    for (let at = 0; at < order.length;) {
      const longest = Math.min(most, cuts[order[at]].ids.length);
      const size = Math.max(1, Math.min(options.batch_size, Math.floor(options.batch_size * TOKENS_PER_SENTENCE / longest)));
      const block = order.slice(at, at + size), sources = block.map(n => cuts[n].ids.slice(0, most));
      const found = await this.search(sources, options, block.map(n => prefixes[n] || []), step);
      for (let b = 0; b < block.length; b++) {
        const n = block[b], pieces = cuts[n].pieces.slice(0, most);
        const unknown = cuts[n].ids.slice(0, most).includes(UNK_ID) ? [UNKNOWN_TEXT] : [];
        const about = [...(cuts[n].ids.length > most ? [CUT(most)] : []), ...unknown, ...(is_broken(lines[n]) ? [BROKEN] : [])];
        results[n] = found[b].map(one => this.translation(one, about, sources[b], pieces));
        if (!found[b].length) results[n] = [{ ...this.blank(), confidence: 0, warnings: [UNSAYABLE], unseen: this.unseen(sources[b], pieces) }];
        if (!options.details) continue;
        for (let k = 0; k < found[b].length; k++) Object.assign(results[n][k], this.detail(sources[b], pieces, found[b][k]));
        await step();
      }
      at += size;
      done += block.length;
      progress(done, lines.length);
    }
    return results;
  }

  blank() { return { text: "", score: 0, log_prob: 0, length: 0, confidence: 1, warnings: [], unseen: [] }; }

  async search(sources, options, prefixes, step) {
    const least = options.min_length ? options.min_length + 1 : 0, limit = ids => Math.trunc(options.max_length_ratio * ids.length) + options.max_length_extra;
    const limits = sources.map((ids, n) => Math.max(limit(ids), least) + prefixes[n].length), there = sources.map((_, n) => n).filter(n => limits[n] > 0);
    const n_best = options.sampling || options.n_best === 1 ? options.n_best : options.beam_size;
    const found = sources.map(() => [{ ids: [], log_prob: 0, score: 0, finished: false }]);
    if (!there.length) return found;
    const settings = {
      beam_size: options.sampling ? n_best : options.beam_size, n_best, divisor: divisor(options.length_penalty),
      first_token: options.generate_unk ? UNK_ID : BOS_ID, word_reward: options.word_reward, rules: options, prefixes: there.map(n => prefixes[n]),
    };
    const searched = await this.engine.search(there.map(n => sources[n]), there.map(n => limits[n]), settings, step);
    searched.forEach((hypotheses, b) => {
      const best = hypotheses.sort((a, b) => (a.finished ? 0 : 1) - (b.finished ? 0 : 1) || b.score - a.score).slice(0, n_best);
      found[there[b]] = options.n_best > 1 && !options.sampling ? this.distinct(best, options.n_best) : best;
    });
    return found;
  }
  distinct(hypotheses, count) {
    const first = new Map();
    for (const one of hypotheses) {
      const key = this.target.join(one.ids).split(/\s+/).filter(Boolean).join(" ");
      if (!first.has(key)) first.set(key, one);
    }
    return [...first.values()].slice(0, count);
  }
  translation({ ids, log_prob, score }, warnings, source, pieces) {
    const text = this.target.join(ids), length = ids.length, known = this.calibration;
    const sure = () => known ? known.chance(source, log_prob, length) : Math.exp(Math.min(0, log_prob / Math.max(1, length)));
    const confidence = Number.isFinite(log_prob) ? sure() : 0, unseen = this.unseen(source, pieces);
    return { text, score, log_prob, length, confidence, warnings: text ? warnings : [...warnings, EMPTY], unseen };
  }
  // Return the words of a source that training never had.
  unseen(source, pieces) {
    const found = this.calibration ? this.calibration.words_of(source).filter(one => one.is_new) : [];
    return [...new Set(found.map(({ from, to }) => pieces.slice(from, to).join("").replaceAll("▁", "")))];
  }
  detail(source, pieces, { ids }) {
    const found = this.engine.forced(source, ids), tokens = this.target.names(ids);
    if (!found.attention) return { tokens, source_tokens: pieces, ...found };
    const own = tokens.slice(0, ids.length - (ids[ids.length - 1] === EOS_ID ? 1 : 0)), from = words_of(pieces), into = words_of(own);
    return { tokens, source_tokens: pieces, ...found, alignment: alignment(found.attention, from, into) };
  }

  // Return given translations with details: log_prob and score are the sum over their tokens.
  async score(sources, targets, { step = async () => {} } = {}) {
    const found = [];
    for (let n = 0; n < sources.length; n++) {
      const { ids, pieces } = this.cut(sources[n]), own = [...this.cut_target(targets[n]), EOS_ID], most = this.facts.most_source;
      const read = [ids.slice(0, most), pieces.slice(0, most)], detail = this.detail(...read, { ids: own });
      const log_prob = detail.log_probs.reduce((a, b) => a + b, 0), warnings = ids.length > most ? [CUT(most)] : [];
      found.push({ ...this.translation({ ids: own, log_prob, score: log_prob }, warnings, ...read), ...detail });
      await step();
    }
    return found;
  }

  // Return a text's translation, sentence by sentence, in the form of the server's route /api/sentences.
  async sentences(text, alternatives, { step, progress }) {
    const parts = passage_of(text, this.facts.languages.src), own = parts.filter(part => part.source !== undefined);
    const count = alternatives + 1, beam_size = Math.max(this.facts.decoding.beam_size, count);
    const found = await this.translate(own.map(part => asked(part.source)), { n_best: count, beam_size, details: true }, { step, progress });
    own.forEach((part, n) => {
      const shown = found[n].map(one => this.shown(part.source, one)), [best, ...others] = shown;
      Object.assign(part, best, { warnings: found[n][0].warnings, unseen: found[n][0].unseen });
      part.alternatives = others.filter((one, k) => one.translation.trim() && !shown.slice(0, k + 1).some(other => other.translation === one.translation));
    });
    return { parts };
  }
  shown(source, one) {
    const capitals = is_capitals(source), translation = capitals ? capitals_of(one.text) : one.text;
    const found = { translation, confidence: Math.round(one.confidence * 1e4) / 1e4 };
    const words = translation.split(/\s+/).filter(Boolean), source_words = source.split(/\s+/).filter(Boolean);
    if (!one.attention || !words.length || Math.max(words.length, source_words.length) > MOST_WORDS) return found;
    const own = one.tokens.filter((token, t) => t < one.tokens.length - 1 || token !== "</s>"), from = words_of(one.source_tokens), into = words_of(own);
    if (count_of(into) !== words.length || count_of(from) !== source_words.length) return found;
    const totals = Array(words.length).fill(0), round = (x, n) => Math.round(x * 10 ** n) / 10 ** n;
    into.forEach((word, t) => { totals[word] += one.log_probs[t]; });
    const attention = soft(one.attention, from, into).map(row => row.map(weight => round(weight, 2)));
    return { ...found, words, source_words, probabilities: totals.map(x => round(Math.exp(x), 3)), attention };
  }
}
