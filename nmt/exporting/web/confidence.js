// The probability that a person would keep a translation, as nmt/data/calibration.py has it.

import { array_of, EOS_ID, UNK_ID } from "./engine.js";

const PAD_ID = 0, BEGINS = 128, MOST_LOSS = 20, FACTOR = 0x9e3779b1;
const NAMES = ["units", "sizes", "words", "pairs", "weights"];

export class Calibration {
  // Return what a package knows of it, null if nothing.
  static of(made) {
    return made.facts.arrays["confidence/weights"] ? new Calibration(made) : null;
  }
  constructor(made) {
    for (const name of NAMES) this[name] = array_of(made, "confidence/" + name);
    this.words = new Set(this.words);
    this.pairs = new Set(this.pairs);
  }

  // Return the probability of a translation of the source `ids`, whose log-probability is the sum over `length` units.
  chance(ids, log_prob, length) {
    const written = Math.max(1, length), words = this.words_of(ids);
    const features = [
      1, -Math.sqrt(Math.min(Math.max(-log_prob / written, 0), MOST_LOSS)), Math.log(written), Math.log(written / ids.length),
      words.filter(one => one.is_new).length / Math.max(1, words.length), this.strange(ids) / (ids.length + 1),
    ];
    const sum = features.reduce((sum, value, n) => sum + value * this.weights[n], 0);
    return 1 / (1 + Math.exp(-Math.min(30, Math.max(-30, sum))));
  }

  // Return where words begin and end, and whether training never had them.
  words_of(ids) {
    const found = [];
    let open = null;
    ids.forEach((id, at) => {
      const size = this.sizes[id] % BEGINS;
      if (!size || this.sizes[id] >= BEGINS) open = null;
      if (!size) return;
      if (!open) found.push(open = { from: at, hash: 0, unknown: false });
      for (let n = 0; n < size; n++) open.hash = Math.imul(open.hash, FACTOR);
      open.hash = (open.hash + this.units[id]) >>> 0;
      open.unknown ||= id === UNK_ID;
      open.to = at + 1;
    });
    for (const one of found) one.is_new = one.unknown || !this.words.has(one.hash);
    return found;
  }

  // Return the number of neighbouring units that training never had.
  strange(ids) {
    const after = [...ids, EOS_ID], before = [PAD_ID, ...ids];
    return after.filter((id, n) => !this.pairs.has((Math.imul(before[n] + 1, FACTOR) + id) >>> 0)).length;
  }
}
