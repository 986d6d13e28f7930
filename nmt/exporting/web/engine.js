// Runs the compiled functions of a package: its memory, its tables, encoding, search and forced decoding.
// What is run, and with which arrays, comes from the package's facts (see description.py); every function takes a table
// of 8-byte words, numbers and addresses, which begins with the words of a barrier.

const LINE = 64, PAUSED = 5;
export const UNK_ID = 1, BOS_ID = 2, EOS_ID = 3;

// ------------------------------------------------------------ the package

export function read_package(bytes) {
  const view = new DataView(bytes.buffer, bytes.byteOffset), start = new TextDecoder().decode(bytes.subarray(0, 8));
  if (start !== "NMTWEB1\n") throw new Error("must be a package of nmt-export --to web, got something else");
  const size = view.getUint32(8, true), head = 12 + size;
  return { facts: JSON.parse(new TextDecoder().decode(bytes.subarray(12, head))), content: bytes.subarray(Math.ceil(head / LINE) * LINE) };
}

const BYTES = { f4: 4, i4: 4, i1: 1, u1: 1 };
export function array_of({ facts, content }, name) {
  const [at, type, count] = facts.arrays[name], part = content.slice(at, at + count * BYTES[type]);
  return type === "u1" ? part : new { f4: Float32Array, i4: Int32Array, i1: Int8Array }[type](part.buffer);
}

// Return the bytes of a matrix in 4 bits, as four_bits.py stores it: codes of two numbers a byte by channel, then a factor
// for each block of inputs.
function unpack(part, rows, columns, axis, block) {
  const channels = axis ? columns : rows, inputs = axis ? rows : columns, width = Math.ceil(inputs / 2);
  const factors = part.subarray(channels * width), blocks = Math.ceil(inputs / block), numbers = new Uint8Array(rows * columns);
  for (let c = 0; c < channels; c++)
    for (let i = 0; i < inputs; i++) {
      const code = part[c * width + (i >> 1)] >> (i & 1 ? 4 : 0) & 15;
      numbers[axis ? i * columns + c : c * columns + i] = (code - 8) * factors[c * blocks + Math.floor(i / block)];
    }
  return numbers;
}

// ------------------------------------------------------------ memory

// The module's memory, taken from the front: `mark` and `reset` free everything that was taken in between. Compiled code
// takes and frees memory of its own behind that, all of it during one call.
class Memory {
  constructor(exports) {
    this.memory = exports.memory;
    this.top = exports.heap.value;
    this.taken = 0;
    this.own = 0;
  }
  get imports() {
    return {
      nmt_allocate: (line, size) => {
        if (!this.own++) this.taken = this.top;
        const at = this.taken;
        this.taken += Number(size);
        this.reserve(this.taken);
        return at;
      },
      nmt_free: () => { this.own--; },
      nmt_clock: () => 0,
      nmt_sleep: () => 0,
      nmt_yield_processor: () => 0,
    };
  }
  reserve(end) {
    const more = end - this.memory.buffer.byteLength;
    if (more > 0) this.memory.grow(Math.max(Math.ceil(more / 65536), 64));
  }
  take(bytes) {
    const at = this.top;
    this.top = Math.ceil((at + bytes) / LINE) * LINE;
    this.reserve(this.top);
    return at;
  }
  zeros(bytes) {
    const at = this.take(bytes);
    this.bytes(at, bytes).fill(0);
    return at;
  }
  bytes(at, count) { return new Uint8Array(this.memory.buffer, at, count); }
  floats(at, count) { return new Float32Array(this.memory.buffer, at, count); }
  reals(at, count) { return new Float64Array(this.memory.buffer, at, count); }
  ints(at, count) { return new Int32Array(this.memory.buffer, at, count); }
  // int64 numbers, all of them from -2 ** 31 to 2 ** 31 - 1
  words(values) {
    const at = this.take(8 * values.length), ints = this.ints(at, 2 * values.length);
    values.forEach((value, n) => { ints[2 * n] = value; ints[2 * n + 1] = value < 0 ? -1 : 0; });
    return at;
  }
  word(at, n) { return this.ints(at, 2 * n + 1)[2 * n]; }
  copy(target, source, bytes) { this.bytes(target, bytes).set(this.bytes(source, bytes)); }
}

// A table with named fields; `places` has the place of each, negative for a real number.
class Table {
  constructor(memory, places, values) {
    this.memory = memory;
    this.places = places;
    this.address = memory.zeros(8 * (1 + Math.max(...Object.values(places).map(Math.abs))));
    this.set(values);
  }
  set(values) {
    for (const name in values) {
      const place = this.places[name];
      if (place === undefined) throw new Error("no field " + name);
      if (place < 0) this.memory.reals(this.address, 1 - place)[-place] = values[name];
      else {
        const ints = this.memory.ints(this.address, 2 * place + 2);
        ints[2 * place] = values[name];
        ints[2 * place + 1] = values[name] < 0 ? -1 : 0;
      }
    }
  }
  get(name) { return this.memory.word(this.address, this.places[name]); }
}

// ------------------------------------------------------------ the engine

export class Engine {
  static async load(bytes) {
    const made = read_package(bytes);
    let memory = null;
    const late = name => (...given) => memory.imports_of[name](...given);
    const env = Object.fromEntries(["nmt_allocate", "nmt_free", "nmt_clock", "nmt_sleep", "nmt_yield_processor"].map(name => [name, late(name)]));
    const { instance } = await WebAssembly.instantiate(array_of(made, "module"), { env });
    memory = new Memory(instance.exports);
    memory.imports_of = memory.imports;
    return new Engine(made, memory, instance.exports.table);
  }

  constructor(made, memory, table) {
    this.made = made;
    this.facts = made.facts;
    this.memory = memory;
    this.code = this.facts.functions;
    this.call_at = this.code.map(address => table.get(address));
    this.arrays = {};
    for (const name in this.facts.arrays) {
      if (name === "module" || name.startsWith("subwords")) continue;
      const [at, type, count, ...packed] = this.facts.arrays[name], size = count * BYTES[type];
      this.arrays[name] = memory.take(size);
      const part = made.content.subarray(at, packed.length ? undefined : at + size);
      memory.bytes(this.arrays[name], size).set(packed.length ? unpack(part, ...packed) : part);
    }
    this.packed = this.facts.packed.map(one => this.pack(one));
    this.none = memory.words([0]);
  }

  call(code, table) { this.call_at[code](0n, 1n, table); }

  // Arguments of a kernel: a number as it is, an array as [address, extents ...].
  kernel(code, ...given) {
    const mark = this.memory.top;
    this.call(code, this.memory.words([...Array(this.facts.first).fill(0), ...given.flat()]));
    this.memory.top = mark;
  }

  pack({ code, numbers, scales, start, stop, size, shape, transposed }) {
    const out = this.memory.take(4 * size), given = [[this.arrays[numbers], ...shape]];
    if (scales) given.push([this.arrays[scales], this.facts.arrays[scales][2]]);
    this.kernel(code, ...given, start, stop, [out, size]);
    return out;
  }

  // ---------------------------------------------------------- plans

  // Run a plan over `rows` {T, B, S, reverse} of whole rows. `given` are addresses by name, to which those of the plan
  // are added.
  run(plan, given, rows) {
    const memory = this.memory, { T, B, S, reverse } = rows;
    for (const [name, [width, wide]] of Object.entries(plan.arrays)) {
      if (!(name in given)) given[name] = memory.take(4 * T * (wide ? S : 1) * B * width);
    }
    for (const step of plan.steps) {
      if (step.product === undefined) this.call(step.code, this.table(plan, step, given, rows));
      else {
        const count = (step.wide ? S : T) * B;
        const slot = step.after < 0 ? 0 : ((step.after === 1) !== Boolean(reverse) ? 1 : 0);
        const source = given[step.source] + 4 * slot * B * step.width;
        const segments = memory.words([0, count]);
        this.call(this.facts.product, memory.words([...Array(this.facts.first).fill(0),
          step.offset, step.width, 0, step.target_width, step.K, step.N, 1, 0, source, this.packed[step.product], given[step.target], segments]));
      }
    }
  }

  // Return the address of the table of a generated function. `rows` may have the addresses of the integers `owner`,
  // `lengths` and `source_lengths`, and by_name, those of other indices.
  table(plan, step, given, rows) {
    const memory = this.memory, { T, B, S, reverse } = rows, flag = reverse ? 1 : 0;
    const numbers = { units: 0, start: 0, stop: T, T, B, C: rows.C === undefined ? B : rows.C, S, backwards: flag, flip: flag };
    const ones = (count, value) => memory.words(Array(count).fill(value));
    const owner = rows.owner || memory.words(Array.from({ length: B }, (_, n) => n));
    const integers = {
      bounds: memory.words([0, B]),
      dims: memory.words(plan.dims),
      lengths: ones(B, T),
      source_lengths: rows.source_lengths || ones(B, S),
      owner,
    };
    const place = name => {
      if (name in given) return given[name];
      if (name in step.parameters) return this.arrays[step.parameters[name]];
      if (name.startsWith("I_")) return (rows.by_name && rows.by_name[name]) || owner;
      throw new Error("no memory for " + name);
    };
    const scratch = Object.values(step.scratch).map(([width, wide]) => memory.take(4 * (wide ? S : 1) * B * width));
    return memory.words([
      ...Array(this.facts.first).fill(0),
      ...this.facts.numbers.map(name => numbers[name]),
      ...this.facts.integers.map(name => integers[name]),
      ...step.arrays.map(place),
      ...scratch,
      ...step.weights.map(n => this.packed[n]),
    ]);
  }

  // Run a scan over x of T steps of one row; `given` are captured arrays and initial states, by the names of arrays.
  // Returns the addresses of y and of the final states.
  scan(scan, x, T, { reverse = false, S = 1, given = {}, initial = {} } = {}) {
    const memory = this.memory, arrays = { x, ...given };
    for (const [name, width] of Object.entries(scan.states)) {
      const stack = arrays["S_" + name] = memory.take(4 * (T + 1) * width), first = stack + 4 * (reverse ? T : 0) * width;
      const from = initial[name] !== undefined ? initial[name] : name in scan.learned ? this.arrays[scan.learned[name]] : null;
      if (from === null) memory.bytes(first, 4 * width).fill(0);
      else memory.copy(first, from, 4 * width);
    }
    this.run(scan.plan, arrays, { T, B: 1, S, reverse });
    const [place, width, , is_stack] = scan.plan.outputs.y;
    const final = {};
    for (const [name, n] of Object.entries(scan.states)) final[name] = arrays["S_" + name] + 4 * (reverse ? 0 : T) * n;
    return { y: arrays[place] + (is_stack && !reverse ? 4 * width : 0), final };
  }

  // ---------------------------------------------------------- encoding

  // Fill memory with the embeddings of ids, which come as numbers, or as the address of `most` int64.
  embedding(side, ids, out, most) {
    const table = this.facts[side], memory = this.memory, count = most || ids.length;
    const values = { rows: count, width: table.size[1], vocab_size: table.size[0], scale: table.scale,
      ids: most ? ids : memory.words(ids), out, numbers: this.arrays[table.numbers] };
    if (table.scales) values.scales = this.arrays[table.scales];
    return new Table(memory, table.table, values);
  }
  embed(side, ids) {
    const out = this.memory.take(4 * ids.length * this.facts[side].size[1]);
    this.call(this.facts[side].code, this.embedding(side, ids, out).address);
    return out;
  }

  // Return the addresses of the memory [S, M] of a sentence and of the decoder's initial states, and S and M.
  encode(ids) {
    const { facts, memory } = this, source = [...facts.before, ...ids, ...facts.after], S = source.length;
    let x = this.embed("source", source), width = facts.source.size[1];
    const final = [], words = { at: x, size: width };
    facts.encoder.layers.forEach((scans, layer) => {
      const found = scans.map((scan, n) => this.scan(scan, x, S, { reverse: n === 1 })), sizes = scans.map(scan => scan.size);
      let y = found[0].y;
      if (found.length > 1) y = this.beside(found.map(one => one.y), sizes, S);
      const M = sizes.reduce((a, b) => a + b);
      if (layer && facts.encoder.residual) y = this.sum(y, x, S * M);
      const states = {};
      for (const [name, n] of Object.entries(scans[0].states)) {
        states[name] = { at: this.beside(found.map(one => one.final[name]), scans.map(() => n), 1), size: n * scans.length };
      }
      final.push(states);
      x = y;
      width = M;
    });
    if (facts.bridge.mean) final.push({ mean: { at: this.mean(x, S, width), size: width } });
    const states = {};
    for (const [name, { layer, state, scan }] of Object.entries(facts.bridge.routes)) {
      const from = final[layer][state];
      states[name] = scan ? this.scan(scan, from.at, 1).y : from.at;
    }
    if (!facts.lexical) return { memory: x, states, S, M: width };
    return { memory: this.beside([x, words.at], [width, words.size], S), states, S, M: width + words.size };
  }

  beside(parts, sizes, rows) {
    if (parts.length === 1) return parts[0];
    const width = sizes.reduce((a, b) => a + b), out = this.memory.take(4 * rows * width);
    let first = 0;
    parts.forEach((part, n) => {
      for (let r = 0; r < rows; r++) this.memory.copy(out + 4 * (r * width + first), part + 4 * r * sizes[n], 4 * sizes[n]);
      first += sizes[n];
    });
    return out;
  }
  sum(a, b, count) {
    const out = this.memory.take(4 * count), [to, x, y] = [out, a, b].map(at => this.memory.floats(at, count));
    for (let n = 0; n < count; n++) to[n] = x[n] + y[n];
    return out;
  }
  mean(at, rows, width) {
    const out = this.memory.zeros(4 * width), to = this.memory.floats(out, width), from = this.memory.floats(at, rows * width);
    const share = Math.fround(1 / rows);
    for (let r = 0; r < rows; r++) for (let n = 0; n < width; n++) to[n] += Math.fround(from[r * width + n] * share);
    return out;
  }

  // Return the captured arrays of the decoder for an encoded sentence, and what is computed of them alone.
  captured(encoded, plan, more = {}) {
    const found = { C_memory: encoded.memory, ...more };
    if (plan) {
      const own = { ...found };
      this.run(plan, own, { T: 1, B: 1, S: encoded.S });
      for (const name in plan.outputs) found[name] = own[plan.outputs[name][0]];
    }
    return found;
  }

  // ---------------------------------------------------------- search

  // Translate sentences (ids) together; `limits` are the most tokens of each. `step` is called now and then, and may
  // throw. Returns the hypotheses of each sentence in the order in which they ended: ids with EOS, sum, score, finished.
  async search(sentences, limits, options, step = async () => {}) {
    const mark = this.memory.top;
    try {
      const search = new Search(this, sentences, limits, options);
      await search.admit(step);
      while (search.run()) await step();
      return search.read();
    } finally {
      this.memory.top = mark;
      this.memory.own = 0;
    }
  }

  // Return the log-probability of each target token, and the attention [T, S] with which it was predicted, as arrays of
  // arrays; no attention if the model has none.
  forced(ids, target) {
    const { facts, memory } = this, mark = memory.top, probe = facts.probe, T = target.length;
    if (!probe || !T) return null;
    const encoded = this.encode(ids), { S } = encoded, n = probe.positions;
    const positions = memory.zeros(4 * S * n), unit = memory.floats(positions, S * n);
    for (let s = 0; s < S; s++) unit[s * n + s] = 1;
    const given = this.captured(encoded, probe.constant, { C_positions: positions });
    const x = this.embed("target", [BOS_ID, ...target.slice(0, -1)]);
    const { y } = this.scan(probe, x, T, { S, given, initial: encoded.states });
    const H = probe.size - n, outputs = memory.take(4 * T * H), rows = memory.floats(y, T * probe.size);
    for (let t = 0; t < T; t++) memory.copy(outputs + 4 * t * H, y + 4 * t * probe.size, 4 * H);
    const attention = Array.from({ length: T }, (_, t) => Array.from(memory.floats(y + 4 * (t * probe.size + H), S)));
    const log_probs = this.log_probs(outputs, T, H, target);
    memory.top = mark;
    return { log_probs, attention: attention.map(row => this.to_words(row)) };
  }

  // The attention of the source's own tokens, followed by that of all boundary tokens together.
  to_words(row) {
    const { before, after } = this.facts, words = row.slice(before.length, row.length - after.length);
    const outer = [...row.slice(0, before.length), ...row.slice(row.length - after.length)];
    return [...words, outer.reduce((a, b) => a + b, 0)];
  }

  log_probs(outputs, T, H, target) {
    const { memory } = this, output = this.facts.output, V = this.facts.arrays[output.bias][2], weight = this.packed[output.weight];
    const chunks = Math.ceil(V / output.chunk), size = this.facts.packed[output.weight].size, out = memory.take(4 * T * V);
    let rows = [outputs, T, H];
    if (this.facts.quads) {
      rows = [memory.take(4 * T * output.words), T, output.words];
      this.kernel(output.round, [outputs, T, H], [weight, size], rows);
    }
    const tops = [memory.take(4 * T * chunks), T, chunks], totals = [memory.take(4 * T * chunks), T, chunks];
    this.kernel(output.store, rows, [weight, size], [this.arrays[output.bias], V], [out, T, V], tops, totals);
    this.kernel(output.normalise, [out, T, V], tops, totals);
    return target.map((token, t) => memory.floats(out + 4 * (t * V + token), 1)[0]);
  }
}

// One search, with its memory (see rnn/stepping/compiled_beam.py, which does the same). `options`: beam_size, n_best,
// first_token, word_reward, divisor(length).
class Search {
  constructor(engine, sentences, limits, options) {
    Object.assign(this, { engine, sentences, limits, options, memory: engine.memory });
    const { facts, memory } = engine, B = sentences.length, K = options.beam_size, C = B * K, slots = 2 * B;
    const decoder = facts.decoder, V = facts.arrays[facts.output.bias][2], width = Math.max(...limits) + 1;
    Object.assign(this, { B, K, C, slots, width });
    const places = Math.min(K + 1, V), free = Array.from({ length: slots }, (_, n) => n);
    this.x = memory.zeros(4 * C * decoder.input);
    this.continued = Object.fromEntries(Object.entries(decoder.states).map(([name, n]) => ["S_" + name, memory.zeros(4 * C * n)]));
    this.lengths = sentences.map(one => facts.before.length + one.length + facts.after.length);
    this.starts = [];
    this.positions = 0;
    for (const length of this.lengths) {
      this.starts.push(this.positions);
      this.positions += Math.max(1, length);
    }
    const values = {
      room: C, num_slots: slots, width, beam_size: K, vocab_size: V, size: B, n_best: options.n_best, eos_id: EOS_ID, never: BOS_ID,
      first_token: options.first_token, word_reward: options.word_reward, more: 0, num_free: slots, free: memory.words(free),
      divisors: memory.take(8 * (Math.max(...limits) + 2)), tokens: memory.zeros(4 * C * (K + 1)), scores: memory.zeros(4 * C * (K + 1)),
      numbering: memory.words(Array(V).fill(-1)), history: memory.take(8 * C * width),
      "live.first_row": memory.zeros(8 * (C + 1)), ended: memory.zeros(8 * slots), distinct: memory.zeros(8 * C), moments: memory.zeros(24),
    };
    for (const name of Object.keys(facts.search.table)) {
      if (/^(rows|live|chosen)\./.test(name) && !(name in values)) values[name] = memory.zeros(8 * C);
      if (/^slots\./.test(name)) values[name] = memory.zeros(8 * slots);
      if (/^hypotheses\./.test(name)) values[name] = memory.zeros(name.endsWith("history") ? 4 * slots * K * width : 8 * slots * K);
    }
    memory.reals(values.divisors, Math.max(...limits) + 2).forEach((_, n, all) => { all[n] = options.divisor(n); });
    this.table = new Table(memory, facts.search.table, values);
    this.values = values;
    this.stored = Object.fromEntries(Object.entries(decoder.stored).map(([name, [n]]) => [name, memory.take(4 * this.positions * n)]));
    this.waiting = Object.fromEntries(Object.entries(decoder.states).map(([name, n]) => ["S_" + name, memory.zeros(4 * B * n)]));
    this.source_lengths = memory.zeros(8 * this.positions);
    this.connect(places);
  }

  // Encode all sentences and let them wait.
  async admit(step) {
    const { engine, memory } = this, decoder = engine.facts.decoder;
    for (let b = 0; b < this.B; b++) {
      const mark = memory.top, encoded = engine.encode(this.sentences[b]);
      const captured = engine.captured(encoded, decoder.constant), start = this.starts[b];
      for (const [name, [n, narrow]] of Object.entries(decoder.stored)) {
        memory.copy(this.stored[name] + 4 * start * n, captured[name], 4 * n * (narrow ? 1 : encoded.S));
      }
      for (const name in encoded.states) {
        const n = decoder.states[name];
        memory.copy(this.waiting["S_" + name] + 4 * b * n, encoded.states[name], 4 * n);
      }
      memory.ints(this.source_lengths + 8 * start, 1)[0] = encoded.S;
      memory.top = mark;
      if (b % 8 === 7) await step();
    }
    const numbers = Array.from({ length: this.B }, (_, n) => n);
    this.table.set({
      "waiting.sentence": memory.words(numbers), "waiting.sentence_id": memory.words(numbers), "waiting.list": memory.zeros(8 * this.B),
      "waiting.limit": memory.words(this.limits), "waiting.token": memory.words(Array(this.B).fill(BOS_ID)),
      taken: 0, num_waiting: this.B,
    });
  }

  // Make the tables of the parts of a step, and of the embedding and the output layer.
  connect(places) {
    const { engine, memory, C, values } = this, { facts } = engine, { decoder, output } = facts;
    const S = Math.max(...this.lengths), V = values.vocab_size, calls = {}, shared = {}, by_name = {};
    for (const [kind, index] of [["inputs", values["rows.word"]], ["states", values["rows.parent"]]]) {
      const plan = decoder.parts[kind];
      if (!plan) continue;
      const arrays = {};
      for (const name of plan.inputs) arrays[name] = name === "x" ? this.x : this.continued[name];
      calls[kind] = this.call(plan, arrays, { T: 1, B: C, S: 1 });
      for (const [name, [place]] of Object.entries(plan.outputs)) {
        shared[name] = arrays[place];
        by_name["I_" + name] = index;
      }
    }
    const arrays = { ...this.stored, ...shared };
    for (const [name, n] of Object.entries(decoder.states)) arrays["S_" + name] = memory.zeros(8 * C * n);
    const sizes = { x: decoder.input };
    for (const name of decoder.gathered) if (!(name in arrays)) arrays[name] = memory.zeros(4 * C * sizes[name]);
    calls.step = this.call(decoder.parts.step, arrays, { T: 1, B: C, S, C: 1, owner: values["rows.source"], source_lengths: this.source_lengths, by_name });
    const bounds = memory.words(Array.from({ length: C + 1 }, (_, n) => [0, n]).flat());
    const divisions = memory.words(Array.from({ length: C + 1 }, (_, n) => [0, 1, bounds + 16 * n]).flat());
    const parts = {};
    for (const kind of ["inputs", "states", "step"]) {
      parts[kind] = new Table(memory, facts.part, { code: 0, table: 0, divisions, ...calls[kind] }).address;
    }
    const gathered = decoder.gathered.map(name => {
      const size = name === "x" ? decoder.input : decoder.states[name.slice(2)];
      return [name === "x" ? this.x : this.continued[name], arrays[name], 4 * size, name === "x" ? 1 : 0];
    });
    const column = (rows, n) => memory.words(rows.length ? rows.map(row => row[n]) : [0]);
    const states = Object.entries(decoder.states).map(([name, n]) => ["S_" + name, 4 * n]);
    const stepped = states.map(([name, size]) => [arrays[name], this.waiting[name], this.continued[name], size]);
    const [place, width, , is_stack] = decoder.parts.step.outputs.y;
    this.table.set({
      ...parts,
      num_ids: decoder.captured.length ? this.B : 0, first_id: 0, starts: memory.words(this.starts),
      num_states: states.length, num_gathered: gathered.length,
      "continued.stepped": column(stepped, 0), "continued.waiting": column(stepped, 1), "continued.target": column(stepped, 2), "continued.num_bytes": column(stepped, 3),
      "gathered.source": column(gathered, 0), "gathered.target": column(gathered, 1), "gathered.num_bytes": column(gathered, 2), "gathered.by_word": column(gathered, 3),
      embedding_code: engine.code[facts.target.code], embedding_table: engine.embedding("target", values.distinct, this.x, C).address,
      output_code: engine.code[output.code], output_parts: 1, outputs: arrays[place], output_step: is_stack ? 4 * width : 0,
      output_table: this.output(places, V).address,
    });
  }
  call(plan, arrays, rows) {
    for (const [name, [width, wide]] of Object.entries(plan.arrays)) {
      if (!(name in arrays)) arrays[name] = this.memory.zeros(4 * (wide ? rows.S : 1) * rows.B * width);
    }
    const [step] = plan.steps;
    return { code: this.engine.code[step.code], table: this.engine.table(plan, step, arrays, rows) };
  }
  output(places, V) {
    const { engine, memory, C, values } = this, output = engine.facts.output, chunks = Math.ceil(V / output.chunk);
    const words = engine.facts.quads ? output.words : 0;
    return new Table(memory, output.table, {
      rows: C, inputs: engine.facts.decoder.size, columns: V, places, parts: 1, words, chunks, first_token: this.options.first_token,
      y: this.x, weights: engine.packed[output.weight], bias: engine.arrays[output.bias], tokens: values.tokens, scores: values.scores,
      rounded: memory.take(4 * C * words), part_tokens: memory.take(4 * C * places), part_logits: memory.take(4 * C * places),
      counts: memory.take(8 * C), tops: memory.take(4 * C * chunks), totals: memory.take(4 * C * chunks),
    });
  }

  // Search for some steps; return whether sentences are in progress.
  run() {
    this.table.set({ budget: Math.max(1, Math.floor(2000 / this.C)) });
    this.engine.call(this.engine.facts.search.code, this.table.address);
    return this.table.get("status") === PAUSED;
  }

  read() {
    const { memory, values, K, width } = this, found = Array(this.B), numbers = name => at => memory.word(values[name], at);
    const [sentence, count, steps, finished] = ["slots.sentence", "slots.num_ended", "hypotheses.steps", "hypotheses.finished"].map(numbers);
    const sums = memory.reals(values["hypotheses.sum"], this.slots * K), scores = memory.reals(values["hypotheses.score"], this.slots * K);
    for (let n = 0; n < this.table.get("num_ended"); n++) {
      const s = memory.word(values.ended, n);
      found[sentence(s)] = Array.from({ length: count(s) }, (_, k) => {
        const at = s * K + k;
        return {
          ids: Array.from(memory.ints(values["hypotheses.history"] + 4 * at * width, steps(at))),
          log_prob: sums[at], score: scores[at], finished: finished(at) !== 0,
        };
      });
    }
    return found;
  }
}
