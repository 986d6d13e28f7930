// The worker's side: loads a package and answers requests {id, ask, ...} with {id, found}, {id, error} or {id, done, of}.

import { Translator } from "./translator.js";

const LOOK_EVERY = 20; // milliseconds between looks at new messages, such as those that stop a request

function serve(port) {
  let translator = null, last = Promise.resolve(), looked = 0;
  const stopped = new Set();

  // Let messages come in, and throw if this request is to stop.
  async function look(id) {
    if (performance.now() - looked > LOOK_EVERY) {
      await new Promise(resolve => {
        const channel = new MessageChannel();
        channel.port1.onmessage = () => { channel.port1.close(); resolve(); };
        channel.port2.postMessage(0);
      });
      looked = performance.now();
    }
    if (stopped.has(id)) throw Object.assign(new Error("stopped"), { name: "AbortError" });
  }

  async function answer({ id, ask, ...given }) {
    const step = () => look(id);
    if (ask === "load") {
      translator = await Translator.load(given.bytes);
      const { name, languages, decoding } = translator.facts;
      return { name, languages, decoding };
    }
    const progress = (done, of) => port.postMessage({ id, done, of });
    await step();
    if (ask === "sentences") return translator.sentences(given.text, given.alternatives, { step, progress });
    if (ask === "score") return translator.score(given.sources, given.targets, { step });
    return translator.translate(given.lines, given.options, { step, progress });
  }

  port.onmessage = ({ data }) => {
    if (data.ask === "stop") {
      stopped.add(data.of);
      return;
    }
    last = last.then(async () => {
      try {
        port.postMessage({ id: data.id, found: await answer(data) });
      } catch (e) {
        port.postMessage({ id: data.id, error: e.message, kind: e.name });
      }
      stopped.delete(data.id);
    });
  };
}

// A browser's worker is its own port; Node's is in a module.
if (typeof postMessage === "function") serve(self);
else {
  import("node:worker_threads").then(({ parentPort }) => {
    const port = { postMessage: message => parentPort.postMessage(message) };
    parentPort.on("message", data => port.onmessage({ data }));
    serve(port);
  });
}
