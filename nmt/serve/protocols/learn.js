"use strict";
// Corrections that the model learns: the tab "Correct", on a server with --learn. It uses what page.js defines.

let corrected = null, waits = false; // the sentence that is shown, and whether a pair is being learnt

const project_of = m => m ? m.name.split("@").slice(1).join("@") : "";
function choose_project() {
  $("project").value = project_of(model());
  corrected = null;
  $("learnt").replaceChildren();
  if (is_open("learn")) renew_learning();
}

// The model to ask for a project: that of the project, or the plain one, which a new project begins from.
const about_project = body => ({ ...body, project: $("project").value.trim(), model: $("model").value.split("@")[0] });
async function asked(path, body) {
  const m = model();
  return ask(path, { source: m.source, target: m.target, ...about_project(body) });
}

function learning_sentence() {
  return picked ? picked.p : sentence_at_cursor();
}

// ------------------------------------------------------------ what is corrected

async function correct() {
  const p = learning_sentence();
  if (!is_open("learn")) return;
  const is_same = p && corrected && corrected.source === p.source;
  if (!is_same || $("correction").value === corrected.translation) $("correction").value = p ? p.translation : "";
  $("learnsource").textContent = p ? p.source : "";
  $("confirm").disabled = !p || waits;
  if (!is_same && p) list_matches(p);
  if (!p) $("matches").replaceChildren();
  corrected = p && { source: p.source, translation: p.translation };
}

async function list_matches(p) {
  try {
    const found = (await asked("api/matches", { q: p.source })).matches;
    if (!corrected || corrected.source !== p.source) return;
    $("matches").replaceChildren(...(found.length ? [el("h3", "In the memory")] : []), list_of(found, one => {
      const take_it = el("button", Math.floor(100 * one.similarity) + "%: take it");
      take_it.type = "button";
      take_it.onclick = () => { $("correction").value = one.target; $("correction").focus(); };
      return take_it;
    }));
  } catch (e) {
    say(e.message, true);
  }
}

function list_of(pairs, button) {
  const list = el("ul", undefined, "list pairs");
  for (const one of pairs) {
    const li = el("li"), texts = el("div"), source = el("p", one.source, "note"), target = el("p", one.target);
    source.dir = target.dir = "auto";
    texts.append(source, target);
    li.append(texts, button(one));
    list.append(li);
  }
  return list;
}

// ------------------------------------------------------------ learning

async function confirm_pair() {
  const p = learning_sentence(), text = $("correction").value.trim();
  if (!p || waits) return;
  if (!text) {
    note("Write a translation first.", true);
    return;
  }
  waits = $("confirm").disabled = true;
  note("Learning …");
  const before = p.translation, source = p.source;
  try {
    const found = await asked("api/learn", { q: source, translation: text, who: $("who").value.trim() });
    try { localStorage.setItem("who", $("who").value); } catch (e) { /* it may be switched off */ }
    choices.delete(source);
    await show_model(found.model);
    if (found.state === "learnt") {
      note("Learnt in " + number(Math.round(1000 * found.seconds)) + " ms. Translating again …");
      await translate_again();
      const now = parts.find(one => one.source === source);
      if (now && is_current()) show_change(now, { before, wanted: text, ms: Math.round(1000 * found.seconds) });
    } else note("Remembered, but not learnt: " + found.note + ".", true);
    renew_learning();
  } catch (e) {
    note(e.message, true);
  }
  waits = false;
  $("confirm").disabled = !learning_sentence();
}

async function translate_again() {
  clearTimeout(wait);
  translated = null;
  await translate();
}

// A project that is new is a new model of the server.
async function show_model(name) {
  if (!models.some(m => m.name === name)) {
    about = await ask("api/models");
    models = about.models;
  }
  if ($("model").value === name) return;
  const m = models.find(one => one.name === name);
  if (m) choose(m);
}

function note(text, bad) {
  $("learnt").replaceChildren(el("p", text, bad ? "bad" : "note"));
}

// The words of the new translation that the former one has not.
function show_change(p, { before, wanted, ms }) {
  const had = new Set(before.split(/\s+/)), now = el("p");
  now.dir = "auto";
  now.append("Now: ");
  for (const word of p.translation.split(/\s+/)) now.append(had.has(word) ? word : el("ins", word), " ");
  const was = el("p", "Before: " + before, "note");
  was.dir = "auto";
  const same = p.translation === wanted ? "The model now says what you confirmed."
    : p.translation === before ? "The model is not sure enough yet to say it; confirm it again, or go on."
      : "The translation has changed, but is not yet what you confirmed; confirm it again, or go on.";
  $("learnt").replaceChildren(el("p", "Learnt in " + number(ms) + " ms. " + same), was, now);
  if (!corrected || corrected.source !== p.source) return;
  $("correction").value = wanted; // to confirm it again
  corrected.translation = p.translation;
}

// ------------------------------------------------------------ what was learnt

const WORDS = {
  learning: "learning",
  slowed: "learning more slowly, since other texts have become worse",
  stopped: "not learning any more, since other texts have become worse; it went back to where they were not",
};

async function renew_learning() {
  $("tab-learn").hidden = !about.learns;
  if (!about.learns || !is_open("learn") || !model()) return;
  correct();
  const m = model(), query = new URLSearchParams({ source: m.source, target: m.target, ...about_project({}) });
  if ($("key").value) query.set("api_key", $("key").value);
  try {
    const found = await ask("api/learning?" + query), last = found.checks[0];
    const rise = last ? last.rise.toFixed(2).replace("-0.00", "0.00") : "";
    const warns = found.state === "learning" ? undefined : "warn";
    $("learnstate").replaceChildren(el("strong", "The model is " + WORDS[found.state] + ".", warns), " " +
      plural(found.learnt, "pair", "pairs") + " learnt of " + number(found.pairs) + " in the memory. " +
      (last ? "Other texts: loss " + (rise.startsWith("-") ? "" : "+") + rise + " per word piece" +
        (last.action ? " (" + last.action + ")" : "") + "." : "Other texts are scored after the first ten pairs."));
    $("resume").hidden = found.state === "learning";
    $("projects").replaceChildren(...found.projects.filter(Boolean).map(name => Object.assign(el("option"), { value: name })));
    $("memory").replaceChildren(...(found.recent.length ? [el("h3", "Confirmed last")] : []), list_of(found.recent, one => {
      const away = el("button", one.state === "learnt" ? "Undo" : "Remove");
      away.type = "button";
      away.setAttribute("aria-label", away.textContent + ": " + one.source);
      away.title = (one.who ? one.who + ", " : "") + new Date(one.at).toLocaleString();
      away.onclick = () => undo(one, away);
      return away;
    }));
  } catch (e) {
    $("learnstate").textContent = e.message;
  }
}

async function undo(one, button) {
  button.disabled = true;
  try {
    await asked("api/undo", { number: one.number });
    corrected = null; // its matches are others now
    note("Taken back: the model is that of the other pairs.");
    await translate_again();
  } catch (e) {
    note(e.message, true);
  }
  renew_learning();
}

$("resume").onclick = async () => {
  try {
    await asked("api/resume", {});
  } catch (e) {
    note(e.message, true);
  }
  renew_learning();
};
$("confirm").onclick = confirm_pair;
$("correction").addEventListener("keydown", e => {
  if (e.key !== "Enter" || !e.ctrlKey) return;
  e.preventDefault();
  confirm_pair();
});
$("project").addEventListener("change", () => {
  corrected = null;
  const name = $("project").value.trim(), base = $("model").value.split("@")[0];
  const m = models.find(one => one.name === (name ? base + "@" + name : base));
  if (m) choose(m);
  else renew_learning();
});
for (const name of ["keyup", "click"]) $("text").addEventListener(name, () => {
  if (!is_open("learn")) return;
  picked = null;
  correct();
});
try { $("who").value = localStorage.getItem("who") || ""; } catch (e) { /* it may be switched off */ }
