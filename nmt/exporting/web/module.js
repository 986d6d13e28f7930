// Translate in a browser or in Node, in a worker:
//
//     import { load } from "./translator.mjs";
//     const translator = await load();
//     await translator.translate(["the first line", "the second line"], { beam_size: 5 });

import { Client, unpacked } from "./client.js";

const IN_NODE = typeof process === "object" && process.versions && process.versions.node;

async function read(place) {
  if (place instanceof Uint8Array) return place;
  const url = new URL(place, import.meta.url);
  if (IN_NODE && url.protocol === "file:") {
    const { readFile } = await import("node:fs/promises");
    return new Uint8Array(await readFile(url));
  }
  const answer = await fetch(url);
  if (!answer.ok) throw new Error(url + ": must be a package, cannot be read: " + answer.status);
  return new Uint8Array(await answer.arrayBuffer());
}

async function new_worker() {
  const url = new URL("./worker.mjs", import.meta.url);
  if (!IN_NODE) return new Worker(url, { type: "module" });
  const { Worker: Thread } = await import("node:worker_threads"), thread = new Thread(url);
  thread.on("message", data => thread.onmessage({ data }));
  thread.on("error", e => thread.onerror(e));
  thread.unref();
  return thread;
}

class ModuleTranslator {
  constructor(client, about) {
    this.client = client;
    this.about = about;
  }
  async translate_nbest(lines, { signal, progress, ...options } = {}) {
    this.client.worker.ref?.();
    try {
      return await this.client.ask("translate", { lines, options }, { signal, progress });
    } finally {
      this.client.worker.unref?.();
    }
  }
  async translate(lines, options = {}) {
    const found = await this.translate_nbest(typeof lines === "string" ? [lines] : lines, { ...options, n_best: 1 });
    return typeof lines === "string" ? found[0][0].text : found.map(one => one[0].text);
  }
  score(sources, targets) { return this.client.ask("score", { sources, targets }); }
  close() { this.client.worker.terminate(); }
}

export async function load(place = "./model.nmtweb") {
  const made = await unpacked(await read(place)), worker = await new_worker(), client = new Client(worker);
  worker.ref?.();
  const about = await client.ask("load", { bytes: made }, { moved: [made.buffer] });
  worker.unref?.();
  return new ModuleTranslator(client, about);
}

let first = null;
export async function translate(lines, options) {
  first = first || load();
  return (await first).translate(lines, options);
}
