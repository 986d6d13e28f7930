// Requests to the studio. An error becomes one sentence: that of its code, else the message as it came.
import { has_words, t } from "./words.js";

async function ask(path, method, body) {
  const is_file = body instanceof Blob, kind = is_file ? "application/octet-stream" : "application/json";
  const sent = { method, headers: { "Content-Type": kind }, body: is_file ? body : JSON.stringify(body || {}) };
  let answer;
  try {
    answer = await fetch(path, method === "GET" ? {} : sent);
  } catch {
    throw Object.assign(new Error(t("gone")), { gone: true });
  }
  const found = await answer.json().catch(() => null);
  if (answer.ok && found !== null) return found;
  const status = String(answer.status);
  throw told(found && found.error || { code: status, message: t("error.any", { status }) });
}

export const told = ({ code, words, message }) =>
  Object.assign(new Error(has_words("error." + code) ? t("error." + code, words || {}) : message), { code });
export const get = path => ask(path, "GET");
export const post = (path, body) => ask(path, "POST", body);
export const remove = path => ask(path, "DELETE");
