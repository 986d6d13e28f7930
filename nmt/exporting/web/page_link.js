// In translator.html: answers the requests of the server's page (serve/protocols/page.js) by the worker, and offers
// scripts `translator.translate(lines, options)`.

import { Client, unpacked } from "./client.js";

const read = id => document.getElementById(id).textContent;
const MOST_ALTERNATIVES = 4;

// Return the bytes of a text in base64; browsers before 2025 do not have the fast way.
function decoded(text) {
  if (Uint8Array.fromBase64) return Uint8Array.fromBase64(text);
  const coded = atob(text), bytes = new Uint8Array(coded.length);
  for (let n = 0; n < coded.length; n++) bytes[n] = coded.charCodeAt(n);
  return bytes;
}

async function start() {
  const bytes = decoded(read("package"));
  document.getElementById("package").remove();
  const made = await unpacked(bytes), code = URL.createObjectURL(new Blob([read("worker")], { type: "text/javascript" }));
  const client = new Client(new Worker(code)), about = await client.ask("load", { bytes: made }, { moved: [made.buffer] });
  return { client, about };
}

const started = start();
const english = new Intl.DisplayNames(["en"], { type: "language", fallback: "code" });
function name_of(code) {
  try { return english.of(code); } catch (e) { return code; }
}

window.translator = {
  async translate(lines, options = {}, how = {}) {
    return (await started).client.ask("translate", { lines, options }, how);
  },
  async ask(path, body, signal, progress) {
    const { client, about } = await started, { src, tgt } = about.languages;
    if (path === "api/models") {
      const model = { name: about.name, source: src, target: tgt, source_name: name_of(src), target_name: name_of(tgt) };
      return { models: [model], key_required: false, limits: { alternatives: MOST_ALTERNATIVES }, formats: [] };
    }
    return client.ask("sentences", { text: body.q, alternatives: body.alternatives || 0 }, { signal, progress });
  },
};
