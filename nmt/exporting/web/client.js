// The page's side of the worker: requests as promises.

export class Client {
  constructor(worker) {
    this.worker = worker;
    this.waiting = new Map();
    this.count = 0;
    worker.onmessage = ({ data }) => this.take(data);
    worker.onerror = e => this.fail(new Error(e.message || "the worker cannot be started"));
  }
  take({ id, done, of, found, error, kind }) {
    const one = this.waiting.get(id);
    if (!one) return;
    if (done !== undefined) {
      one.progress(done, of);
      return;
    }
    this.waiting.delete(id);
    one.forget();
    if (error === undefined) one.resolve(found);
    else one.reject(Object.assign(new ({ RangeError, TypeError }[kind] || Error)(error), { name: kind }));
  }
  fail(error) {
    for (const one of this.waiting.values()) one.reject(error);
    this.waiting.clear();
  }
  // Send a request; `signal` stops it.
  ask(ask, given = {}, { signal, progress = () => {}, moved = [] } = {}) {
    const id = ++this.count;
    return new Promise((resolve, reject) => {
      const stop = () => {
        this.worker.postMessage({ ask: "stop", of: id });
        if (this.waiting.delete(id)) reject(new DOMException("stopped", "AbortError"));
      };
      if (signal && signal.aborted) {
        reject(new DOMException("stopped", "AbortError"));
        return;
      }
      if (signal) signal.addEventListener("abort", stop, { once: true });
      this.waiting.set(id, { resolve, reject, progress, forget: () => signal && signal.removeEventListener("abort", stop) });
      this.worker.postMessage({ id, ask, ...given }, moved);
    });
  }
}

// Return the bytes of a compressed package. They are written directly: a stream of a Blob would take a detour through
// another process of the browser.
export async function unpacked(compressed) {
  const { readable, writable } = new DecompressionStream("gzip"), writer = writable.getWriter();
  const [found] = await Promise.all([new Response(readable).arrayBuffer(), writer.write(compressed), writer.close()]);
  return new Uint8Array(found);
}
