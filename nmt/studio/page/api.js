// Requests to the studio. An error becomes one sentence: that of its code, else the message as it came.
import { has_words, t } from "./words.js";

async function ask(path, method, body) {
  const raw = body instanceof Blob, headers = raw ? { "Content-Type": "application/octet-stream" } : { "Content-Type": "application/json" };
  let answer;
  try {
    answer = await fetch(path, method === "GET" ? {} : { method, headers, body: raw ? body : JSON.stringify(body || {}) });
  } catch {
    throw Object.assign(new Error(t("gone")), { gone: true });
  }
  const found = await answer.json().catch(() => null);
  if (answer.ok && found !== null) return found;
  throw told((found && found.error) || { code: String(answer.status), message: t("error.any", { status: String(answer.status) }) });
}

export const told = ({ code, words, message }) =>
  Object.assign(new Error(has_words("error." + code) ? t("error." + code, words || {}) : message), { code });
export const get = path => ask(path, "GET");
export const post = (path, body) => ask(path, "POST", body);
export const remove = path => ask(path, "DELETE");
