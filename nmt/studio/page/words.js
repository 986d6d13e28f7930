// The words of the page, and elements made of them. Texts of users become text nodes, never markup.

let words = {}, fallback = {}, plurals = new Intl.PluralRules("en"), language = "en";

// Tables of strings: flat keys; `{n}` slots; `key.one`, `key.other` by the plural rules of {n}. English fills gaps.
export function use_words(own, english, code) {
  [words, fallback, language] = [own, english, code];
  plurals = new Intl.PluralRules(code);
  document.documentElement.lang = code;
  document.documentElement.dir = own.direction || "ltr";
}

export const has_words = key => key in words || key in fallback || key + ".other" in fallback;
export const number = (n, digits = 0) => (+n).toLocaleString(language, { maximumFractionDigits: digits });
export const clock = (seconds, second) => new Date(1000 * seconds).toLocaleTimeString(language,
  { hour: "2-digit", minute: "2-digit", second });
export const day = seconds => new Date(1000 * seconds).toLocaleDateString(language,
  { day: "numeric", month: "long", year: "numeric" });

export function t(key, slots = {}) {
  const n = typeof slots === "number" ? slots : slots.n, given = typeof slots === "number" ? { n } : slots;
  const keys = n === undefined ? [key] : [`${key}.${plurals.select(n)}`, `${key}.other`, key];
  const own = keys.map(one => words[one]).find(Boolean), english = keys.map(one => fallback[one]).find(Boolean) ?? key;
  const text = own ?? (words.direction === "rtl" && english !== key ? `\u2066${english}\u2069` : english); // set apart
  return text.replace(/\{(\w+)(:size)?\}/g, (whole, name, size) => {
    const value = given[name];
    return value === undefined ? whole : typeof value !== "number" ? value : size ? size_of(value) : number(value, 1);
  });
}
export const size_of = bytes => bytes < 1e6 ? t("unit.kb", { n: Math.max(1, Math.round(bytes / 1000)) }) : bytes < 1e9
  ? t("unit.mb", { n: bytes / 1e6 }) : t("unit.gb", { n: bytes / 1e9 });

// The words of a page that has only English: a function of its sentences, which leaves what it does not know.
export function words_by_english(prefix) {
  const known = Object.keys(fallback).filter(key => key.startsWith(prefix)).map(key => [key, new RegExp("^" +
    key.slice(prefix.length).replace(/[.*+?^$()|[\]\\]/g, "\\$&").replace(/\{(\w)\}/g, "(?<$1>.+)") + "$")]);
  return english => {
    for (const [key, pattern] of known) {
      const found = english.replace(/\s+/g, " ").trim().match(pattern);
      if (found) return english.replace(/\S[^]*\S|\S/, () => t(key, found.groups));
    }
    return english;
  };
}

// The name of a language in the words of the page, else as its code or as it was typed.
export function name_of(code, typed, into = language) {
  if (typed) return typed;
  try {
    return new Intl.DisplayNames([into, "en"], { type: "language" }).of(code);
  } catch { // no code of a language
    return code;
  }
}

// el("p.soft", { hidden: true, onclick }, "text", node, null): an element with properties or attributes, and children.
export function el(what, given = {}, ...children) {
  const [tag, ...classes] = what.split("."), made = document.createElement(tag);
  if (classes.length) made.className = classes.join(" ");
  if (typeof given !== "object" || given === null || given instanceof Node || Array.isArray(given)) [given,
    children] = [{}, [given, ...children]];
  for (const [name, value] of Object.entries(given)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on") || name in made && typeof value !== "string") made[name] = value;
    else made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.flat(9).filter(child => child !== null && child !== undefined && child !== false));
  return made;
}

// A text of the user: its own direction, and its language where that is known.
export const said = (tag, text, lang) => el(tag, { dir: "auto", lang }, text);
export const button = (key, onclick, given = {}, slots = {}) => el(given.strong ? "button.strong" : "button",
  { type: "button", onclick, ...given, strong: null }, t(key, slots));
export const card = (title, ...children) => el("section.card", title && el("h3", title), ...children);

// What scrolls by itself, with a name for readers of the screen; and a table that does.
export const scrolling = (name, inner, kind = "") =>
  el("div.wide" + kind, { tabindex: "0", role: "region", "aria-label": name }, inner);
export function table(name, heads, rows, kind) {
  const is_cell = one => one instanceof Node && /^T[DH]$/.test(one.tagName);
  const line = (cells, tag, given) => el("tr", cells.map(one => is_cell(one) ? one : el(tag, given, one)));
  return scrolling(name, el("table", heads.length ? el("thead", line(heads, "th", { scope: "col" })) : null,
    el("tbody", rows.map(row => line(row, "td")))), kind);
}
