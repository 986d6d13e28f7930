"use strict";
const $ = id => document.getElementById(id);
function el(tag, text, cls) {
  const made = document.createElement(tag);
  if (text !== undefined) made.textContent = text;
  if (cls) made.className = cls;
  return made;
}
const DOUBT = 0.5, TABLES = 5, FILES_AT_ONCE = 2;
const number = n => n.toLocaleString();
const plural = (n, one, more) => number(n) + " " + (n === 1 ? one : more);

let models = [], about = { limits: {} };
let parts = [], translated = null, manner = null; // what is shown, what it is a translation of, and by which settings
let lit = null, picked = null, wait = 0, running = null, failures = 0;
const choices = new Map(); // of a sentence, what a person chose instead of the model's best

// ------------------------------------------------------------ messages

function say(text, bad) {
  $("status").textContent = text;
  $("status").className = bad ? "bad" : "";
}

// The server's errors are for programs: `field: must be ..., got ...`. People need advice instead.
function told(status, message, later) {
  const [, most, got] = message.match(/at most ([\d,]+) characters, got ([\d,]+)/) || [];
  if (most) return "This text is too long: " + got + " characters, and at most " + most + " are possible.";
  if (/^(api_key|key)\b/.test(message) || (status === 403 && !/^(Origin|learning)/.test(message)))
    return $("key").value ? "This server does not know your key." : "This server wants a key; enter yours above.";
  if (status === 413) return "This is too large for this server. " + sentence_of(message);
  if (status === 429) return "You have asked too often" + (later ? "; trying again in " + plural(later, "second.", "seconds.") : ".");
  if (status === 503) return "The server is busy; trying again.";
  if (status === 504) return "This took too long. Try a shorter text.";
  if (status >= 500) return "The server has a problem. Its operator finds it in the log.";
  if (/is not supported/.test(message)) return "This server does not translate between these languages.";
  if (/must end in one of/.test(message)) return "This kind of file is not supported. Possible are " + about.formats.join(", ") + ".";
  if (/surrogate/.test(message)) return "This text contains half a character. Type it again.";
  return sentence_of(message);
}
function sentence_of(message) {
  const bare = message.replace(/^[\w, .]+?: /, "");
  return bare.charAt(0).toUpperCase() + bare.slice(1) + (/[.!?]$/.test(bare) ? "" : ".");
}

// A page that translates by itself (nmt-export --to web) has a worker in place of the server.
async function ask(path, body, signal, progress) {
  if (window.translator) return window.translator.ask(path, body, signal, progress);
  const form = body instanceof FormData, m = model();
  const more = m ? { source: m.source, target: m.target, model: m.name } : {};
  if ($("key").value) more.api_key = $("key").value;
  if (form) for (const name in more) body.set(name, more[name]);
  const headers = form ? {} : { "Content-Type": "application/json" };
  const sent = body ? { method: "POST", headers, signal, body: form ? body : JSON.stringify({ ...more, ...body }) } : { signal };
  let answer;
  try {
    answer = await fetch(path, sent);
  } catch (e) {
    if (e.name === "AbortError") throw e;
    throw Object.assign(new Error("The server cannot be reached; trying again."), { gone: true });
  }
  const found = await answer.json().catch(() => ({}));
  if (answer.ok) {
    $("keynote").textContent = "";
    return found;
  }
  const later = +answer.headers.get("Retry-After"), raw = found.error || "";
  const error = Object.assign(new Error(told(answer.status, raw, later)), { later, raw, gone: answer.status === 503 });
  if (answer.status === 403) $("keynote").textContent = error.message;
  throw error;
}
const pause = e => Math.min(1000 * (e.later || 2 ** Math.min(failures++, 4)), 30000);

// ------------------------------------------------------------ languages and models

async function begin() {
  try {
    about = await ask("api/models");
  } catch (e) {
    say(e.message, true);
    setTimeout(begin, 2000);
    return;
  }
  models = about.models;
  $("keybox").hidden = !about.key_required;
  $("formats").textContent = about.formats.join(", ");
  const given = new URLSearchParams(location.hash.slice(1));
  if (given.get("text")) $("text").value = given.get("text");
  choose(models.find(m => m.name === given.get("model")) || models[0]);
  restore_files();
  renew_learning();
}

const model = () => models.find(m => m.name === $("model").value);

let display;
try { display = new Intl.DisplayNames([navigator.language, "en"], { type: "language" }); } catch (e) { display = null; }
function language(code, english) {
  if (code === "src" || code === "tgt") return english; // languages without a name
  try { return display ? display.of(code) : english; } catch (e) { return english; }
}

function options(select, pairs, chosen) {
  select.replaceChildren(...pairs.map(([value, text]) => Object.assign(el("option", text), { value })));
  select.value = chosen;
  select.disabled = pairs.length < 2;
}
const by_code = (list, side) => [...new Map(list.map(m => [m[side], language(m[side], m[side + "_name"])]))];

function choose(m) {
  const from = models.filter(o => o.source === m.source), pair = from.filter(o => o.target === m.target);
  options($("source"), by_code(models, "source"), m.source);
  options($("target"), by_code(from, "target"), m.target);
  options($("model"), pair.map(o => [o.name, o.name]), m.name);
  $("model").hidden = pair.length < 2;
  $("modelname").hidden = pair.length > 1;
  $("modelname").textContent = m.name;
  const back = models.some(o => o.source === m.target && o.target === m.source);
  $("swap").hidden = !back;
  $("arrow").toggleAttribute("hidden", back);
  $("text").lang = m.source;
  for (const id of ["result", "typed", "alternatives"]) $(id).lang = m.target;
  choices.clear();
  choose_project();
  soon(0);
}
$("source").addEventListener("change", () => choose(models.find(m => m.source === $("source").value &&
  m.target === $("target").value) || models.find(m => m.source === $("source").value)));
$("target").addEventListener("change", () =>
  choose(models.find(m => m.source === $("source").value && m.target === $("target").value)));
$("model").addEventListener("change", () => choose(model()));
$("swap").onclick = () => {
  const m = model();
  if (is_current() && $("result").textContent) $("text").value = $("result").textContent;
  choose(models.find(o => o.source === m.target && o.target === m.source));
};

// ------------------------------------------------------------ translating

const settings = () => JSON.stringify([$("model").value, terms()]);
const wish = () => $("text").value + settings();
const is_current = () => translated === wish();

function soon(ms) {
  clearTimeout(wait);
  wait = setTimeout(translate, ms);
  renew();
}

// What can be copied is what the page shows of the present text; all else is of a former one.
function renew() {
  const text = $("text").value, most = about.limits.characters, stale = !is_current() && parts.length > 0;
  const length = [...text].length;
  $("count").textContent = plural(length, "character", "characters") + (most ? " of " + number(most) : "");
  $("count").classList.toggle("bad", most > 0 && length > most);
  $("clear").disabled = !text;
  $("copy").disabled = !parts.length || stale;
  $("result").classList.toggle("stale", stale);
  $("result").setAttribute("aria-busy", stale);
  $("hint").hidden = Boolean(text.trim()) || parts.length > 0;
  if (stale && text.trim() && !$("status").classList.contains("bad")) say("Translating …");
  else if (text.trim() && models.length && !parts.length && !$("status").textContent) say("Translating …");
}

async function translate() {
  const q = $("text").value, glossary = terms(), now = wish(), most = about.limits.characters;
  if (running) running.abort();
  if (!models.length) return;
  if (!q.trim()) {
    parts = [];
    translated = now;
    say("");
    draw();
    return;
  }
  const length = [...q].length;
  if (most && length > most) {
    say("This text is too long: " + number(length) + " characters, and at most " + number(most) + " are possible.", true);
    renew();
    return;
  }
  const own = running = new AbortController(), began = performance.now();
  try {
    const progress = (done, of) => now === wish() && done < of && say("Translating … " + number(done) + " of " + plural(of, "sentence", "sentences"));
    const found = await ask("api/sentences", { q, glossary }, own.signal, progress);
    if (now !== wish()) return;
    // Others of a sentence stay while only the text around it changes.
    const kept = manner === settings() ? new Map(parts.filter(p => p.others).map(p => [p.source, p.others])) : new Map();
    parts = found.parts;
    for (const p of parts) {
      if (kept.has(p.source)) p.others = kept.get(p.source);
      if (choices.has(p.source)) take(p, choices.get(p.source));
    }
    translated = now;
    manner = settings();
    failures = 0;
    const missed = note_terms();
    const via = model().via, sure = confidence(), unseen = [...new Set(parts.flatMap(p => p.unseen || []))].slice(0, 5);
    say("Translated" + (via ? " through " + language(via, via) : "") + " in " + Math.round(performance.now() - began) + " ms" +
      (sure === null ? "" : ", " + Math.round(100 * sure) + "% sure") +
      (missed ? "; " + plural(missed, "glossary term was", "glossary terms were") + " not followed." : ".") +
      (unseen.length ? " Its training never had: " + unseen.join(", ") + "." : ""));
    draw();
    if (is_open("typing")) complete();
  } catch (e) {
    if (e.name === "AbortError") return;
    if (/^glossary/.test(e.raw || "")) {
      note_terms(e.message);
      say("The glossary has a mistake.", true);
      show("terms", false);
    } else say(e.message, true);
    renew();
    if (e.gone || e.later) soon(pause(e));
  }
}

// The mean over the words of all sentences, as the server has it over their subwords; null for a text without sentences.
function confidence() {
  let logs = 0, count = 0;
  for (const p of parts) {
    if (p.confidence === undefined) continue;
    const length = (p.words || p.translation.split(/\s+/)).length;
    logs += length * Math.log(p.confidence);
    count += length;
  }
  return count ? Math.exp(logs / count) : null;
}

const ASPECTS = ["translation", "confidence", "words", "source_words", "probabilities", "attention"];
const aspects = p => Object.fromEntries(ASPECTS.map(name => [name, p[name]]));
function take(p, other) {
  if (!p.first) p.first = aspects(p);
  Object.assign(p, aspects(other));
}

function draw() {
  const bits = [];
  parts.forEach((p, n) => {
    if (p.text !== undefined) {
      bits.push(document.createTextNode(p.text));
      return;
    }
    const sentence = el("span", undefined, "s");
    sentence.dataset.n = n;
    (p.words || p.translation.split(/\s+/).filter(Boolean)).forEach((word, t) => {
      if (t) sentence.append(" ");
      const span = el("span", word, "w" + (p.probabilities && p.probabilities[t] < DOUBT ? " doubt" : ""));
      span.dataset.t = t;
      sentence.append(span);
    });
    bits.push(document.createTextNode(p.before), sentence, document.createTextNode(p.after));
  });
  const box = $("result"), top = box.scrollTop;
  box.replaceChildren(...bits);
  box.scrollTop = top;
  light(null);
  if (picked && !parts.some(p => p.source === picked.source)) picked = null;
  pick(picked && parts.findIndex(p => p.source === picked.source));
  attention();
  correct();
  renew();
}

const place = span => ({ p: parts[span.parentNode.dataset.n], t: +span.dataset.t });

function light(span) {
  if (lit) lit.classList.remove("lit");
  lit = span;
  $("where").replaceChildren();
  $("sure").textContent = "";
  if (!span) return;
  span.classList.add("lit");
  const { p, t } = place(span);
  if (!p.attention) {
    $("sure").textContent = "Where this word comes from is not known.";
    return;
  }
  const row = p.attention[t], best = row.indexOf(Math.max(...row)), sure = Math.round(100 * p.probabilities[t]);
  p.source_words.forEach((word, s) => {
    if (s) $("where").append(" ");
    $("where").append(row[s] >= 0.25 || s === best ? el("span", word, "lit") : word);
  });
  $("sure").textContent = "– " + sure + "% sure" + (sure < 100 * DOUBT ? ", unsure" : "");
  const first = $("where").querySelector(".lit");
  if (first) $("shown").scrollTop = first.offsetTop - $("shown").offsetTop - 24;
}

const words = () => [...$("result").querySelectorAll(".w")];
$("result").addEventListener("mouseover", e => e.target.classList.contains("w") && light(e.target));
$("result").addEventListener("mouseleave", () => light(null));
$("result").addEventListener("click", e => {
  if (!e.target.classList.contains("w") || String(getSelection())) return;
  light(e.target);
  others_of(+e.target.parentNode.dataset.n);
});
$("result").addEventListener("keydown", e => {
  const all = words(), step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[e.key];
  if (e.key === "Enter" && lit) {
    others_of(+lit.parentNode.dataset.n);
    e.preventDefault();
  }
  if (!step || !all.length) return;
  const at = lit ? all.indexOf(lit) : step > 0 ? -1 : all.length;
  light(all[Math.min(Math.max(at + step, 0), all.length - 1)]);
  lit.scrollIntoView({ block: "nearest" });
  e.preventDefault();
});

// ------------------------------------------------------------ other translations of a sentence

function pick(n) {
  const p = n === null || n < 0 ? null : parts[n];
  for (const s of $("result").querySelectorAll(".s")) s.classList.toggle("picked", p !== null && +s.dataset.n === n);
  $("otherssource").textContent = p ? p.source : "";
  if (!p) {
    $("alternatives").replaceChildren();
    $("othersnote").textContent = parts.length ? "Click a word of the translation to see other translations of its sentence."
      : "Other translations of a sentence are shown here once there is a text.";
    return;
  }
  if (!picked || picked.p !== p) list_others(p, p.others || []);
  picked = { source: p.source, p };
}

let asking = null;
async function others_of(n) {
  const p = parts[n];
  if (is_open("learn")) {
    pick(n);
    correct();
    return;
  }
  show("others", false);
  pick(n);
  if (p.others) return;
  if (asking) asking.abort();
  asking = new AbortController();
  $("othersnote").textContent = "Looking for other translations …";
  try {
    const count = Math.min(4, about.limits.alternatives);
    const found = await ask("api/sentences", { q: p.source, glossary: terms(), alternatives: count }, asking.signal);
    const whole = found.parts.filter(one => one.source !== undefined);
    p.others = whole.length === 1 ? whole[0].alternatives : [];
    if (picked && picked.p === p) list_others(p, p.others);
  } catch (e) {
    if (e.name !== "AbortError") $("othersnote").textContent = e.message;
  }
}

function list_others(p, others) {
  const first = p.first || aspects(p), all = [first, ...others.filter(one => one.translation !== first.translation)];
  $("othersnote").textContent = !p.others ? "Click a word of the translation to see other translations of its sentence."
    : all.length > 1 ? "The first is the model's own choice. What you choose stays while you go on writing."
      : "The model knows no other translation of this sentence.";
  $("alternatives").replaceChildren(...all.map((one, rank) => {
    const button = el("button", one.translation), li = el("li");
    button.type = "button";
    button.dir = "auto";
    button.setAttribute("aria-pressed", one.translation === p.translation);
    button.onclick = () => {
      if (rank) choices.set(p.source, one);
      else choices.delete(p.source);
      for (const same of parts) if (same.source === p.source) take(same, one);
      draw();
      list_others(p, others);
      $("alternatives").children[rank].firstChild.focus();
    };
    li.append(button);
    return li;
  }));
}

// ------------------------------------------------------------ word by word

let tables = TABLES;
function attention() {
  const box = $("attention"), all = parts.filter(p => p.source), known = all.filter(p => p.attention);
  box.replaceChildren();
  if (!is_open("look")) return;
  const shown = known.slice(0, tables), rest = known.length - shown.length;
  $("looknote").textContent = !all.length ? "Where each word comes from is shown here once there is a text."
    : "Each row is a word of the translation; the darker a column, the more the model looked at that word of the text. " +
      (shown.length < all.length ? "Shown: " + number(shown.length) + " of " + plural(all.length, "sentence", "sentences") +
        (known.length < all.length ? "; sentences of more than 60 words have no table." : ".") : "");
  $("moretables").hidden = rest <= 0;
  $("moretables").textContent = "Show " + plural(Math.min(rest, 20), "more sentence", "more sentences");
  for (const p of shown) box.append(table_of(p));
}
$("moretables").onclick = () => { tables += 20; attention(); };

function table_of(p) {
  const table = el("table", undefined, "att"), head = el("tr"), thead = el("thead"), body = el("tbody");
  const caption = el("caption", p.source);
  table.dir = "auto"; // that of the caption: columns stand in the order in which the text is read
  head.append(el("td"));
  const heading = (word, scope) => {
    const th = el("th"), inner = el("bdi", word);
    th.scope = scope;
    th.title = word;
    th.append(inner);
    return th;
  };
  for (const word of [...p.source_words, "end"]) head.append(heading(word, "col"));
  thead.append(head);
  p.words.forEach((word, t) => {
    const row = el("tr");
    row.append(heading(word, "row"));
    for (const a of p.attention[t]) {
      const td = el("td");
      td.style.background = "color-mix(in srgb, var(--accent) " + Math.round(100 * a) + "%, transparent)";
      td.append(el("span", Math.round(100 * a) + "%", "hidden"));
      row.append(td);
    }
    body.append(row);
  });
  table.append(caption, thead, body);
  return table;
}

// ------------------------------------------------------------ help with writing

let completing = null, leave = false, typing_wait = 0;

function sentence_at_cursor() {
  const at = $("text").selectionStart;
  let upto = 0, last = null;
  for (const p of parts) {
    upto += p.text !== undefined ? p.text.length : p.before.length + p.source.length + p.after.length;
    if (p.source) {
      last = p;
      if (at <= upto) return p;
    }
  }
  return last;
}

async function complete() {
  const p = sentence_at_cursor();
  $("sentence").textContent = p ? p.source : "";
  if (completing) completing.abort();
  if (!p) {
    $("completion").textContent = "write a text first";
    return;
  }
  const typed = $("typed").value, own = completing = new AbortController();
  // The last word may be half written: the model goes on from the whole ones, and those that begin so come first.
  const cut = typed.search(/\S*$/), half = typed.slice(cut), whole = typed.slice(0, cut).trim();
  try {
    const tries = [ask("api/complete", { q: p.source, typed: half ? typed.trim() : whole, count: 1 }, own.signal)];
    if (half) tries.push(ask("api/complete", { q: p.source, typed: whole, count: 5 }, own.signal));
    const [exact, open] = await Promise.all(tries);
    const better = open && open.completions.find(c => c.startsWith((whole ? whole + " " : "") + half));
    $("completion").textContent = better || exact.completions[0] || "";
  } catch (e) {
    if (e.name !== "AbortError") say(e.message, true);
  }
}

$("typed").addEventListener("keydown", e => {
  const whole = $("completion").textContent, typed = $("typed").value;
  if (e.key === "Escape") {
    leave = true;
    return;
  }
  if (e.key === "Enter" && e.ctrlKey && whole && $("sentence").textContent) {
    $("typed").value = whole;
    complete();
    e.preventDefault();
  }
  if (e.key === "Tab" && !e.shiftKey && !leave && whole.startsWith(typed) && whole.length > typed.length) {
    const next = whole.slice(typed.length).match(/^\s*\S+/);
    $("typed").value = typed + (next ? next[0] : "");
    complete();
    e.preventDefault();
  }
  if (e.key !== "Tab") leave = false;
});
$("typed").addEventListener("input", () => { clearTimeout(typing_wait); typing_wait = setTimeout(complete, 150); });
for (const name of ["keyup", "click"]) $("text").addEventListener(name, () => is_open("typing") && complete());

// ------------------------------------------------------------ glossary

// Finished lines; a line that is still being written is not an error.
function glossary_lines() {
  const done = [], open = [];
  for (const line of $("glossary").value.split("\n")) {
    const at = line.indexOf(line.includes("\t") ? "\t" : "="), pair = [line.slice(0, at).trim(), line.slice(at + 1).trim()];
    if (at > 0 && pair[0] && pair[1]) done.push(pair);
    else if (line.trim()) open.push(line.trim());
  }
  return { done, open };
}
const terms = () => glossary_lines().done;

function note_terms(mistake) {
  const { done, open } = glossary_lines(), missed = new Map(), lines = [];
  for (const p of parts) for (const pair of p.not_followed || []) missed.set(pair.join(" = "), (missed.get(pair.join(" = ")) || 0) + 1);
  if (mistake) lines.push(el("p", mistake, "bad"));
  if (missed.size) {
    const list = el("ul");
    for (const [term, count] of missed) {
      const li = el("li");
      li.append(el("bdi", term), " (in " + plural(count, "sentence", "sentences") + ")");
      list.append(li);
    }
    lines.push(el("p", "Not followed, as the model is surer of other words:", "warn"), list);
  } else if (done.length) lines.push(el("p", plural(done.length, "term", "terms") + " in use.", "note"));
  if (open.length) {
    const p = el("p", "Not finished yet: ", "note");
    p.append(el("bdi", open.slice(0, 3).join(", ") + (open.length > 3 ? ", …" : "")));
    lines.push(p);
  }
  $("termsnote").replaceChildren(...lines);
  $("missed").hidden = !missed.size;
  $("missed").textContent = missed.size || "";
  if (missed.size) $("missed").append(el("span", " not followed", "hidden"));
  return missed.size;
}
$("glossary").addEventListener("input", () => {
  note_terms();
  if (is_current()) renew();
  else soon(600);
});

// ------------------------------------------------------------ tabs

const TABS = [...document.querySelectorAll("[role=tab]")];
const is_open = name => !$(name).hidden;
function show(name, focus) {
  for (const tab of TABS) {
    const own = tab.getAttribute("aria-controls"), is = own === name;
    tab.setAttribute("aria-selected", is);
    tab.tabIndex = is ? 0 : -1;
    $(own).hidden = !is;
    if (is && focus) tab.focus();
  }
  if (name === "look") attention();
  if (name === "typing") complete();
  if (name === "learn") renew_learning();
  if (name === "files") check_files();
}
TABS.forEach(tab => {
  tab.addEventListener("click", () => show(tab.getAttribute("aria-controls"), false));
  tab.addEventListener("keydown", e => {
    const seen = TABS.filter(one => !one.hidden), n = seen.indexOf(tab);
    const to = { ArrowRight: n + 1, ArrowLeft: n - 1, Home: 0, End: seen.length - 1 }[e.key];
    if (to === undefined) return;
    show(seen[(to + seen.length) % seen.length].getAttribute("aria-controls"), true);
    e.preventDefault();
  });
});

// ------------------------------------------------------------ files

const files = []; // each: name, and file, control, url, until, as far as it is
let at_work = 0;

function add_files(list) {
  for (const file of list) files.push(line_of({ name: file.name, file }));
  if (list.length) show("files", false);
  next_files();
}

function line_of(one) {
  one.row = el("li");
  one.title = el("bdi", one.name);
  one.note = el("span", "Waiting", "note");
  one.bar = el("progress");
  one.bar.max = 1;
  one.bar.value = 0;
  one.bar.setAttribute("aria-label", "Progress of " + one.name);
  const away = el("button", undefined, "icon");
  away.append($("clear").firstElementChild.cloneNode(true));
  away.type = "button";
  away.setAttribute("aria-label", "Remove " + one.name);
  away.title = "Remove";
  away.onclick = () => {
    files.splice(files.indexOf(one), 1);
    if (one.control) one.control.abort();
    one.row.remove();
    keep_files();
    $("file").focus();
  };
  one.row.append(one.title, away, one.note, one.bar);
  $("done").append(one.row);
  return one;
}

function next_files() {
  for (const one of files) {
    if (at_work >= FILES_AT_ONCE) return;
    if (!one.file || one.control) continue;
    at_work++;
    send(one).finally(() => { at_work--; next_files(); });
  }
}

async function send(one) {
  const ticket = Math.random().toString(36).slice(2) + Date.now().toString(36);
  one.control = new AbortController();
  one.bar.removeAttribute("value");
  one.note.textContent = "Translating …";
  const watch = setInterval(async () => {
    try {
      const p = await ask("api/progress?ticket=" + ticket, null, one.control.signal);
      if (!p.count || !one.file) return;
      one.bar.value = p.done / p.count;
      one.note.textContent = number(p.done) + " of " + plural(p.count, "sentence", "sentences");
    } catch (e) { /* the request itself says what is wrong */ }
  }, 500);
  try {
    for (let tries = 0; ; tries++) {
      const form = new FormData();
      form.set("file", one.file);
      form.set("ticket", ticket);
      form.set("glossary", terms().map(pair => pair.join("\t")).join("\n"));
      try {
        finish(one, await ask("api/file", form, one.control.signal));
        return;
      } catch (e) {
        if (!(e.gone || e.later) || tries > 4) throw e;
        one.note.textContent = e.message;
        await new Promise(done => setTimeout(done, 1000 * (e.later || 2 ** tries)));
        if (one.control.signal.aborted) return;
      }
    }
  } catch (e) {
    if (e.name === "AbortError") return;
    one.bar.hidden = true;
    one.note.textContent = e.message.replace("; trying again", "");
    one.note.classList.add("bad");
    $("filesnote").textContent = one.name + ": " + e.message;
  } finally {
    clearInterval(watch);
    one.file = null;
  }
}

function finish(one, found) {
  Object.assign(one, { name: found.name, url: found.url, until: found.until || Date.now() + 1000 * found.seconds });
  const a = el("a", one.name);
  a.href = one.url;
  a.download = one.name;
  a.dir = "auto";
  a.onclick = async e => {
    if (one.sure) {
      one.sure = false;
      return;
    }
    e.preventDefault(); // a link that has expired would save a file that holds an error
    if (await still_there(one)) {
      one.sure = true;
      a.click();
    }
  };
  one.title.replaceChildren(a);
  one.bar.hidden = true;
  one.note.textContent = "Translated; can be saved until " + new Date(one.until).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });
  if (!found.until) $("filesnote").textContent = one.name + " is translated.";
  setTimeout(() => still_there(one), Math.max(0, one.until - Date.now()) + 1000);
  keep_files();
}

async function still_there(one) {
  if (!one.url) return false;
  let is = one.until > Date.now();
  try {
    if (is) is = (await fetch(one.url, { method: "HEAD" })).ok;
  } catch (e) {
    one.note.textContent = "The server cannot be reached now.";
    return false;
  }
  if (!is) {
    one.url = null;
    one.title.textContent = one.name;
    one.note.textContent = "No longer on the server: files are kept for a short while. Translate it again.";
    keep_files();
  }
  return is;
}
function check_files() { for (const one of files) if (one.url) still_there(one); }
function keep_files() {
  const kept = files.filter(one => one.url).map(({ name, url, until }) => ({ name, url, until }));
  try { sessionStorage.setItem("files", JSON.stringify(kept)); } catch (e) { /* it may be switched off */ }
}
function restore_files() {
  let kept = [];
  try { kept = JSON.parse(sessionStorage.getItem("files")) || []; } catch (e) { /* nothing, or something else */ }
  for (const found of kept) {
    const one = line_of({ name: found.name });
    files.push(one);
    finish(one, found);
  }
  if (files.length) show("files", false);
}

$("file").addEventListener("change", () => { add_files([...$("file").files]); $("file").value = ""; });
const drag = is => document.body.classList.toggle("drag", is);
addEventListener("dragover", e => { if (!window.translator && [...e.dataTransfer.types].includes("Files")) { e.preventDefault(); drag(true); } });
addEventListener("dragleave", e => e.relatedTarget || drag(false));
addEventListener("drop", e => {
  drag(false);
  if (window.translator || !e.dataTransfer.files.length) return;
  e.preventDefault();
  add_files([...e.dataTransfer.files]);
});

// ------------------------------------------------------------ the rest

async function put(text, done) {
  try {
    await navigator.clipboard.writeText(text);
    say(done);
  } catch (e) {
    say("The browser does not allow copying here.", true);
  }
}
$("copy").onclick = () => is_current() && put($("result").textContent, "Translation copied.");
$("clear").onclick = () => {
  $("text").value = "";
  $("text").focus();
  soon(0);
};
$("link").onclick = () => {
  const given = new URLSearchParams({ model: $("model").value, text: $("text").value });
  history.replaceState(null, "", "#" + given);
  put(location.href, "Link copied; it contains the text.");
};
$("text").addEventListener("input", () => {
  if ($("status").classList.contains("bad")) say("");
  soon(250);
});
$("keybox").addEventListener("submit", e => { e.preventDefault(); translate(); });
$("key").addEventListener("change", () => soon(0));

addEventListener("DOMContentLoaded", () => { // when learn.js has run, too
  $("app").hidden = $("link").hidden = false;
  show("others", false);
  draw();
  begin();
});
