/** Settings of a translation; those left out are the model's own. The names are those of the section `decoding`. */
export interface Options {
  /** Hypotheses kept at each step; 1 is greedy search. */
  beam_size?: number;
  /** Divisor of the log-probability when lengths differ: none, the length, or ((5 + length) / 6) to this power. */
  length_penalty?: "none" | "average" | number;
  /** The most subwords of a translation, for each subword of the line ... */
  max_length_ratio?: number;
  /** ... plus this many. */
  max_length_extra?: number;
  /** Bonus for each subword. */
  word_reward?: number;
  /** The least subwords of a translation, its end not counted. */
  min_length?: number;
  /** Never repeat so many subwords; 0 allows repeats. */
  no_repeat_ngram_size?: number;
  /** Factor for the log-probabilities of subwords that a translation has already. */
  repetition_penalty?: number;
  /** With what the translation of each line begins, in whole words. */
  prefixes?: string[];
  /** Whether translations are drawn at random: `n_best` samples of each line. */
  sampling?: boolean;
  /** Draw from probabilities to the power 1 / this ... */
  sampling_temperature?: number;
  /** ... among this many best subwords, 0 for all ... */
  sampling_topk?: number;
  /** ... and among the fewest that together have this probability. */
  sampling_topp?: number;
  /** The same line and seed give the same samples. */
  sampling_seed?: number;
  /** Whether the unknown subword may be produced. */
  generate_unk?: boolean;
  /** Lines translated together; affects speed and memory, not results. */
  batch_size?: number;
  /** Stops the translation; the promise is then rejected with an AbortError. */
  signal?: AbortSignal;
  /** Called with the number of lines that are done. */
  progress?: (done: number) => void;
}

export interface NBestOptions extends Options {
  /** The most translations of each line, at most `beam_size`. */
  n_best?: number;
  /** Whether translations have tokens, attention and an alignment, which takes one more pass of the model. */
  details?: boolean;
}

export interface Translation {
  text: string;
  /** What the search ranked by: the log-probability after the length penalty. */
  score: number;
  /** Sum of the subwords' natural log-probabilities, the end of the sentence included. */
  log_prob: number;
  /** The number of subwords that `log_prob` is the sum of. */
  length: number;
  /** The probability that a person would keep it, 0 to 1; of a model without calibration the mean probability of its
   * subwords. */
  confidence: number;
  warnings: string[];
  /** Words of the source that training never had; empty without calibration. */
  unseen: string[];
  /** With `details`: the subwords, the end `</s>` among them. */
  tokens?: string[];
  log_probs?: number[];
  source_tokens?: string[];
  /** For each token its attention to the source's tokens and their end. */
  attention?: number[][];
  /** Pairs of words, source and target, counted from 0. */
  alignment?: [number, number][];
}

export interface Translator {
  readonly about: { name: string; languages: { src: string; tgt: string }; decoding: Record<string, unknown> };
  translate(line: string, options?: Options): Promise<string>;
  translate(lines: string[], options?: Options): Promise<string[]>;
  translate_nbest(lines: string[], options?: NBestOptions): Promise<Translation[][]>;
  /** Put given translations through the model: `log_prob` and `score` are the sum over their subwords. */
  score(sources: string[], targets: string[]): Promise<Translation[]>;
  /** End the worker. */
  close(): void;
}

/** Load a package in a worker: its address, from this module's if relative, or its bytes. */
export function load(place?: string | URL | Uint8Array): Promise<Translator>;

/** Translate with the model next to this module, which is loaded at the first call. */
export function translate(line: string, options?: Options): Promise<string>;
export function translate(lines: string[], options?: Options): Promise<string[]>;
