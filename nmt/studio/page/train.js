// Step 2: how long it may take, and what can be seen while it learns.
import { get, post, told } from "./api.js";
import { chart } from "./chart.js";
import { side_name } from "./report.js";
import { button, card, clock, el, number, said, t, table } from "./words.js";

const PHASES = [["reading", "checking"], ["pieces"], ["timing"], ["training", "validating", "saving"], ["testing"]];
const BUSY = ["starting", "training", "stopping", "testing"], OVER = ["done", "failed"];
const BUTTONS = { // of each state: words, path, body
  starting: [["train.pause", "pause"]],
  training: [["train.stop", "stop"], ["train.pause", "pause"], ["train.longer", "longer", { minutes: 10 }]],
  paused: [["train.resume", "resume"], ["train.stop", "stop"]],
  failed: [["train.retry", "resume"]],
};
const HEADS = { paused: "train.paused", failed: "train.failed", done: "train.done" };
const MANY_PAIRS = 15_000; // from which going on is quicker than beginning anew
const A_NIGHT = 400; // minutes

export async function train(main, page) {
  const last = page.project.rounds.at(-1), head = el("h2", t("time.title"));
  main.append(head);
  if (last) live(main, page, last, head);
  if (!last || OVER.includes(last.state)) plan(main, page, last);
}

// ------------------------------------------------------------ before

export function choices(legend, name, options, chosen, ...more) {
  const one = ([value, words, note]) => el("label.choice",
    el("input", { type: "radio", name, value: String(value), checked: value === chosen }),
    el("b", words), note ? el("small", note) : "");
  return el("fieldset.card", el("legend", legend), el(`div.choices.${name}`, options.map(one)), more);
}

async function plan(main, page, last) {
  const box = el("div", el("p.soft", t("time.wait")));
  main.append(last ? el("details.card", el("summary", el("b", t("time.again"))), box) : box);
  let forecast;
  try {
    forecast = await get(`${page.at}/forecast`);
  } catch (error) {
    box.replaceChildren(el("p.refused", error.message));
    return;
  }
  const { best, direction, pairs, purpose, sides } = page.project, { expect } = forecast;
  const [a, b] = sides.map((side, n) => side_name(side) || t("text.side." + n));
  const advised = (forecast.choices.find(one => one.recommended) || forecast.choices[0]).minutes;
  const time = ({ minutes }) => [minutes, minutes < A_NIGHT ? t("minutes", minutes) : t("time.night", minutes / 60),
    minutes === advised ? t("time.best") : null];
  const purposes = page.state.purposes.map(one => [one, t("purpose." + one), t(`purpose.${one}.more`)]);
  const from = [["", t("time.on.new")], [String(best), t("time.on.old", { round: best }), t("time.on.more")]];
  const form = el("form",
    el("div.two", choices(t("time.purpose"), "purpose", purposes, purpose),
      choices(t("time.minutes"), "minutes", forecast.choices.map(time), advised)),
    choices(t("time.direction"), "direction", [["0", `${a} → ${b}`], ["1", `${b} → ${a}`]], String(direction[0])),
    best && pairs >= MANY_PAIRS ? choices(t("time.on"), "on", from, "") : "",
    card(t("time.expect"), el("p", t("pairs.learn", pairs), " ", forecast.enough && t("enough." + forecast.enough)),
      expect ? el("p", t("time.measured", { ...expect, here: expect.chrf, there: expect.chrf_elsewhere })) : "",
      forecast.warnings.map(one => el("p.warn", t("warning." + one.code, one.words))),
      el("p.soft", t("time.awake")),
      el("div.row", el("button.strong", { disabled: forecast.stops }, t("time.start")))));
  form.onsubmit = event => {
    event.preventDefault();
    const given = Object.fromEntries(new FormData(form)), side = +given.direction;
    page.act(event.submitter, async () => {
      await post(page.at, { purpose: given.purpose, direction: [side, 1 - side] });
      await post(`${page.at}/rounds`, { minutes: +given.minutes, on: given.on ? +given.on : null });
      page.go("train");
    });
  };
  box.replaceChildren(form);
}

// ------------------------------------------------------------ meanwhile

function live(main, page, first, head) {
  const at = `${page.at}/rounds/${first.n}`, points = [], samples = [], was_over = OVER.includes(first.state);
  const says = el("p.big"), wrong = el("p.refused"), bar = el("progress", { max: "1", "aria-label": t("train.bar") });
  const phases = el("ol.phases"), buttons = el("div.row"), alive = el("p.soft"), passes = el("p.soft");
  const shown = el("div"), curve = el("div"), rows = el("div");
  const as_table = el("details", el("summary", t("table")), rows);
  const view = el("div.two", { hidden: true }, card(t("train.samples"), el("p.soft", t("train.samples.what")), shown),
    card(t("train.curve"), el("p.soft", t("train.curve.what")), curve, as_table));
  const close = el("p.soft", t("train.close"));
  main.append(card(null, says, wrong, bar, phases, buttons, alive, passes, close), view);
  let from = 0, state = "", round = first;

  function draw_buttons(can_try) {
    const ask = ([key, path, body], n) => button(key, event => page.act(event.target, async () => {
      await post(`${at}/${path}`, body);
      tick();
    }), { strong: !n && path === "resume" });
    buttons.replaceChildren(...(BUTTONS[round.state] || []).map(ask));
    if (round.state === "done") buttons.append(el("a.button.strong", { href: page.url("use") }, t("train.try")),
      el("a.button", { href: page.url("look") }, t("train.look")));
    else if (can_try) buttons.append(el("a.button", { href: page.url("use") }, t("train.try.now")));
  }

  function draw() {
    const { left, elapsed, minutes, phase } = round, busy = BUSY.includes(round.state), done = round.state === "done";
    bar.hidden = done;
    const whole = left === null ? 60 * minutes : elapsed + left;
    bar.value = round.state === "testing" ? 1 : Math.min(1, elapsed / (whole || 1));
    const counts = round.state === "training" && left !== null;
    const end = counts && { n: Math.max(1, Math.ceil(left / 60)), time: clock(Date.now() / 1000 + left) };
    const words = counts ? t("train.left", end)
      : t("round." + round.state, { n: Math.round(elapsed / 60) });
    if (says.textContent !== words) says.textContent = words;
    wrong.textContent = round.error ? told(round.error).message : "";
    const now = round.state === "testing" ? 4 : PHASES.findIndex(names => names.includes(phase));
    phases.replaceChildren(...PHASES.map((names, n) => el("li", { "aria-current": busy && n === now ? "step" : null },
      el("span", { "aria-hidden": "true" }, done || n < now ? "✓ " : n === now ? "● " : "○ "),
      t("phase." + (n === now && busy ? phase || names[0] : names[0])))));
    phases.hidden = round.state === "paused";
    const can_try = round.model && samples.at(-1)?.lines.some(one => one.translation), shown = round.state + can_try;
    if (state === shown) return;
    head.textContent = t(HEADS[round.state] || "train.title");
    close.hidden = !busy;
    state = shown;
    page.tell(words);
    draw_buttons(can_try);
  }

  function draw_learning() {
    view.hidden = !points.length && !samples.length;
    const lines = samples.length ? samples[0].lines : [];
    const said_of = n => samples.map(one => [one.seconds, one.lines[n] ? one.lines[n].translation : ""]);
    shown.replaceChildren(...lines.map((line, n) => sample(line, said_of(n), page)));
    if (!points.length) return;
    const minutes = points.map(one => [one.seconds / 60, one.chrf]), last = minutes.at(-1)[0];
    const best = Math.max(...minutes.map(one => one[1]));
    curve.replaceChildren(chart({ label: t("train.curve.label", { score: best, n: Math.round(last) }),
      unit: t("unit.minutes"), curves: [{ points: [[0, 0], ...minutes] }], span: [0, Math.max(round.minutes, last)],
      low: 0, high: 10 * Math.max(1, Math.ceil(best / 10)) }));
    rows.replaceChildren(table(t("train.curve"), [t("unit.minutes"), t("train.score")],
      minutes.map(one => one.map(value => number(value, 1)))));
  }

  async function tick() {
    const found = await get(`${at}/progress?from=${from}`);
    if (!page.is_shown) return false;
    ({ next: from, round } = found);
    if (found.samples.length) page.tell(t("train.new"));
    points.push(...found.points);
    samples.push(...found.samples);
    draw();
    if (found.points.length || found.samples.length) draw_learning();
    passes.textContent = found.passes >= 1 ? t("train.passes", Math.floor(found.passes)) : "";
    const since = Math.max(0, Math.round(Date.now() / 1000 - found.alive)), time = clock(found.alive, "2-digit");
    alive.textContent = BUSY.includes(round.state) && found.alive ? t("train.alive", { n: since, time }) : "";
    if (!OVER.includes(round.state)) return true;
    if (!was_over) page.go("train");
    return false;
  }
  draw();
  page.every(tick);
}

// One sentence with its translations from first to last: the words that the one before has not are marked.
function sample(line, all, page) {
  const [from, into] = page.project.direction.map(n => page.project.sides[n].lang);
  const changed = all.filter(([, text], n) => !n || text !== all[n - 1][1]);
  const some = changed.length > 4 ? [changed[0], ...changed.slice(-3)] : changed;
  const made = el("dl.sample", el("dt", t("sample.source")), said("dd", line.source, from),
    el("dt", t("sample.yours")), said("dd", line.reference, into));
  some.forEach(([seconds, text], n) => {
    const had = new Set(some[Math.max(0, n - 1)][1].split(/\s+/)), is_last = n === some.length - 1;
    const when = is_last ? el("b", t("sample.now")) : seconds < 60
      ? t("seconds.short", Math.round(seconds)) : t("minutes.short", Math.round(seconds / 60));
    const words = text.split(/(\s+)/).map(word => had.has(word) || !word.trim() ? word : el("ins", word));
    made.append(el("dt", when), el(is_last ? "dd" : "dd.soft", { dir: "auto", lang: into }, !text ? t("sample.none") : is_last ? words : text));
  });
  return made;
}
