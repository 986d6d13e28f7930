// Runs the program of a package: packing, encoding, search and forced decoding (see model/translation_program.py). A
// program reads and writes the words of one table, which has 8-byte numbers and addresses.

const LINE = 64;
export const UNK_ID = 1, BOS_ID = 2, EOS_ID = 3;

// ------------------------------------------------------------ the package

export function read_package(bytes) {
  const view = new DataView(bytes.buffer, bytes.byteOffset), start = new TextDecoder().decode(bytes.subarray(0, 8));
  if (start !== "NMTWEB1\n") throw new Error("must be a package of nmt-export --to web, got something else");
  const size = view.getUint32(8, true), head = 12 + size;
  return { facts: JSON.parse(new TextDecoder().decode(bytes.subarray(12, head))), content: bytes.subarray(Math.ceil(head / LINE) * LINE) };
}

const BYTES = { f8: 8, i8: 8, f4: 4, i4: 4, u4: 4, i1: 1, u1: 1 };
export function array_of({ facts, content }, name) {
  const [at, type, count] = facts.arrays[name], part = content.slice(at, at + count * BYTES[type]);
  return type === "u1" ? part : new { f8: Float64Array, f4: Float32Array, i4: Int32Array, u4: Uint32Array, i1: Int8Array }[type](part.buffer);
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

// The module's memory, taken from the front. A compiled function takes memory of its own from a part that its program has
// planned, and frees all of it before it returns.
class Memory {
  constructor(exports) {
    this.memory = exports.memory;
    this.top = exports.heap.value;
    this.temporary = this.end = this.taken = this.used = 0;
  }
  get imports() {
    return {
      nmt_allocate: (line, size) => {
        if (!this.used++) this.taken = this.temporary;
        this.taken += Number(size);
        if (this.taken > this.end) throw new Error("a function takes more memory than its program has planned");
        return this.taken - Number(size);
      },
      nmt_free: () => { this.used--; },
      nmt_sleep: () => 0,
      nmt_yield_processor: () => 0,
    };
  }
  take(bytes) {
    const at = this.top, end = Math.ceil((at + bytes) / LINE) * LINE, more = end - this.memory.buffer.byteLength;
    if (more > 0) {
      try {
        this.memory.grow(Math.max(Math.ceil(more / 65536), 64));
      } catch (e) {
        throw new Error("no memory for " + Math.ceil(bytes / 1e6) + " MB more; give fewer lines at a time, a smaller beam_size or a smaller batch_size");
      }
    }
    this.top = end;
    return at;
  }
  bytes(at, count) { return new Uint8Array(this.memory.buffer, at, count); }
  floats(at, count) { return new Float32Array(this.memory.buffer, at, count); }
  reals(at, count) { return new Float64Array(this.memory.buffer, at, count); }
  ints(at, count) { return new Int32Array(this.memory.buffer, at, count); }
  words(at, count) { return new BigInt64Array(this.memory.buffer, at, count); }
  // Take memory for int64, or with another view for other numbers, and return its address.
  with(values, view = "words") {
    const at = this.take(8 * values.length);
    this[view](at, values.length).set(view === "words" ? values.map(BigInt) : values);
    return at;
  }
}

// A table with named fields at an address; `places` has the place of each.
class Table {
  constructor(memory, places, address) {
    Object.assign(this, { memory, places, address });
  }
  set(values) {
    for (const name in values) this.put(this.places[name], values[name]);
  }
  put(place, value) { this.memory.words(this.address, place + 1)[place] = BigInt(value); }
  get(name) { return Number(this.memory.words(this.address, this.places[name] + 1)[this.places[name]]); }
}

// ------------------------------------------------------------ the engine

export class Engine {
  static async load(bytes) {
    const made = read_package(bytes);
    let imports = null;
    const late = name => (...given) => imports[name](...given);
    const env = { exp: Math.exp };
    for (const name of ["nmt_allocate", "nmt_free", "nmt_sleep", "nmt_yield_processor"]) env[name] = late(name);
    const { instance } = await WebAssembly.instantiate(array_of(made, "module"), { env }), memory = new Memory(instance.exports);
    imports = memory.imports;
    return new Engine(made, memory, instance.exports.table);
  }

  constructor(made, memory, table) {
    const { facts, content } = made, { program } = facts;
    Object.assign(this, { made, facts, memory, program, code: table.get(program.run) });
    const load = name => {
      const [at, type, count, ...packed] = facts.arrays[name], size = count * BYTES[type], found = memory.take(size);
      const part = content.subarray(at, packed.length ? undefined : at + size);
      memory.bytes(found, size).set(packed.length ? unpack(part, ...packed) : part);
      return found;
    };
    this.table = new Table(memory, program.places, memory.with(Array(program.size).fill(0)));
    this.table.set({ code: load("program") });
    for (const [place, address] of program.functions) this.table.put(place, address);
    const loaded = {};
    for (const [place, name] of program.arrays) this.table.put(place, loaded[name] = loaded[name] || load(name));
    this.begin("PACK");
  }

  run() { this.code(0n, 1n, this.table.address); }

  // Begin a phase, with the memory that it needs.
  begin(phase) {
    const { table, memory, program } = this;
    table.set({ phase: program.phases[phase], room: -1, temporary_room: -1 });
    this.run();
    const room = table.get("most"), temporary_room = table.get("temporary");
    memory.temporary = memory.take(temporary_room);
    memory.end = memory.temporary + temporary_room;
    table.set({ memory: memory.take(room), room, temporary_room });
    this.run();
  }

  // Set what a search reads: sentences (ids), the most tokens of each translation, settings and rules by the names of the
  // program; `prefixes` are ids with which translations begin.
  give(sentences, limits, { beam_size, divisor, prefixes = [], word_reward = 0, rules = {}, ...numbers }) {
    const { memory, table, program } = this, count = sentences.length, divisors = Array.from({ length: Math.max(...limits) + 2 }, (_, n) => divisor(n));
    table.set({
      sentences: count, size: count, sizes: memory.with(sentences.map(ids => ids.length)), limits: memory.with(limits),
      ids: memory.with(sentences.flat(), "ints"), beam_size, ...numbers, divisors: memory.with(divisors, "reals"),
      budget: Math.max(1, Math.floor(2000 / (count * beam_size))),
    });
    memory.reals(table.address + 8 * table.places.word_reward, 1)[0] = word_reward;
    const values = names => names.map(name => rules[name] || 0);
    table.set({ rule_numbers: memory.with(values(program.rules.numbers)), rule_reals: memory.with(values(program.rules.reals), "reals") });
    const starts = [0], given = prefixes.some(ids => ids.length);
    for (const ids of prefixes) starts.push(starts[starts.length - 1] + ids.length);
    table.set({ prefix_starts: given ? memory.with(starts) : 0, prefixes: given ? memory.with(prefixes.flat(), "ints") : 0 });
  }

  // Call a function, and free the memory that it takes.
  freeing(f) {
    const mark = this.memory.top, free = () => { this.memory.top = mark; this.memory.used = 0; };
    let found;
    try { found = f(); } catch (e) { free(); throw e; }
    if (found instanceof Promise) return found.finally(free);
    free();
    return found;
  }

  // Translate sentences (ids) together; `limits` are the most tokens of each. `step` is called now and then, and may
  // throw. Returns the hypotheses of each sentence in the order in which they ended: ids with EOS, sum, score, finished.
  search(sentences, limits, options, step = async () => {}) {
    return this.freeing(async () => {
      const { table, program } = this, { DONE } = program.statuses;
      this.give(sentences, limits, options);
      this.begin("BEGIN");
      table.set({ phase: program.phases.ADVANCE });
      for (this.run(); table.get("status") !== DONE; this.run()) await step();
      return this.read(sentences.length, options.beam_size);
    });
  }

  read(count, K) {
    const { memory, program, table } = this, search = new Table(memory, program.search, table.get("search")), found = Array(count);
    const numbers = (name, size) => Array.from(memory.words(search.get(name), size), Number);
    const [sentence, ended] = ["slots.sentence", "slots.num_ended"].map(name => numbers(name, count));
    const [steps, finished] = ["hypotheses.steps", "hypotheses.finished"].map(name => numbers(name, count * K));
    const [sums, scores] = ["hypotheses.sum", "hypotheses.score"].map(name => memory.reals(search.get(name), count * K));
    const history = search.get("hypotheses.history"), width = search.get("width");
    for (let slot = 0; slot < count; slot++) {
      found[sentence[slot]] = Array.from({ length: ended[slot] }, (_, k) => {
        const at = slot * K + k, ids = Array.from(memory.ints(history + 4 * at * width, steps[at]));
        return { ids, log_prob: sums[at], score: scores[at], finished: finished[at] !== 0 };
      });
    }
    return found;
  }

  // Return the log-probability of each target token, and the attention with which it was predicted to the source's own
  // tokens, followed by that to all boundary tokens together, if the model has attention.
  forced(ids, target) {
    const { memory, table } = this, { forced, before, after } = this.program, T = target.length;
    if (!T) return { log_probs: [], attention: [] };
    return this.freeing(() => {
      this.give([ids], [T], { beam_size: 1, divisor: () => 1 });
      table.set({ targets: T, target_ids: memory.with([BOS_ID, ...target]) });
      this.begin("FORCED");
      const { inputs, width, columns } = forced, S = before + ids.length + after, outputs = table.get("outputs"), logs = table.get("log_probs");
      const log_probs = target.map((token, t) => memory.floats(logs + 4 * (t * columns + token), 1)[0]);
      if (width === inputs) return { log_probs };
      const attention = target.map((_, t) => {
        const row = Array.from(memory.floats(outputs + 4 * (t * width + inputs), S)), own = row.slice(before, S - after);
        return [...own, [...row.slice(0, before), ...row.slice(S - after)].reduce((a, b) => a + b, 0)];
      });
      return { log_probs, attention };
    });
  }
}
