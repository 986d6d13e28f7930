// Step 2: how long it may take, and what can be seen while it learns.
import { get, post, told } from "./api.js";
import { chart } from "./chart.js";
import { side_name } from "./report.js";
import { button, card, clock, el, number, said, t, table } from "./words.js";

const PHASES = [["reading", "checking"], ["pieces"], ["timing"], ["training", "validating", "saving"], ["testing"]];
const BUSY = ["starting", "training", "stopping", "testing"], OVER = ["done", "failed"];

export async function train(main, page) {
  const last = page.project.rounds.at(-1), is_open = last && !OVER.includes(last.state);
  main.append(el("h2", t(!last ? "time.title" : is_open ? "train.title" : last.state === "failed" ? "train.failed" : "train.done")));
  if (last) live(main, page, last);
  if (!is_open) plan(main, page, last);
}

// ------------------------------------------------------------ before

function choices(legend, name, options, chosen) {
  return el("fieldset.card", el("legend", legend), el(`div.choices.${name}`, options.map(([value, words, more]) => el("label.choice",
    el("input", { type: "radio", name, value: String(value), checked: value === chosen }), el("b", words), more ? el("small", more) : ""))));
}

async function plan(main, page, last) {
  const box = el("div", el("p.soft", { role: "status" }, t("time.wait")));
  main.append(last ? el("details.card", el("summary", el("b", t("time.again"))), box) : box);
  const forecast = await get(`${page.at}/forecast`).catch(error => ({ error }));
  if (forecast.error) { box.replaceChildren(el("p.refused", forecast.error.message)); return; }
  const { project, state } = page, [a, b] = project.sides.map((side, n) => side_name(side) || t("text.side." + n)), { expect } = forecast;
  const minutes = forecast.choices.map(one => one.minutes), best = (forecast.choices.find(one => one.recommended) || forecast.choices[0]).minutes;
  const form = el("form", { onsubmit: event => { event.preventDefault(); start(event.submitter); } },
    el("div.two", choices(t("time.purpose"), "purpose", state.purposes.map(one => [one, t("purpose." + one), t(`purpose.${one}.more`)]), project.purpose),
      choices(t("time.minutes"), "minutes", minutes.map(n => [n, n < 400 ? t("minutes", n) : t("time.night", { n: n / 60 }), n === best ? t("time.best") : null]), best)),
    choices(t("time.direction"), "direction", [["0", `${a} → ${b}`], ["1", `${b} → ${a}`]], String(project.direction[0])),
    project.best && project.pairs >= 15000 ? choices(t("time.on"), "on", [["", t("time.on.new")], [String(project.best), t("time.on.old", { round: project.best }), t("time.on.more")]], "") : "",
    card(t("time.expect"), el("p", t("pairs.learn", project.pairs), " ", t("enough." + forecast.enough)),
      expect ? el("p", t("time.measured", { pairs: expect.pairs, minutes: expect.minutes, here: expect.chrf, there: expect.chrf_elsewhere })) : "",
      forecast.warnings.map(one => el("p.warn", t("warning." + one.code, one.words || {}))), el("p.soft", t("time.awake")),
      el("div.row", el("button.strong", { disabled: forecast.stops }, t("time.start")))));
  box.replaceChildren(form);
  async function start(control) {
    const given = new FormData(form), from = +given.get("direction");
    await page.act(control, async () => {
      await post(page.at, { purpose: given.get("purpose"), direction: [from, 1 - from] });
      await post(`${page.at}/rounds`, { minutes: +given.get("minutes"), on: given.get("on") ? +given.get("on") : null });
      page.go("train");
    });
  }
}

// ------------------------------------------------------------ meanwhile

function live(main, page, first) {
  const at = `${page.at}/rounds/${first.n}`, points = [], samples = [], was_over = OVER.includes(first.state);
  const says = el("p.big"), bar = el("progress", { max: "1", "aria-label": t("train.bar") }), phases = el("ol.phases"), buttons = el("div.row");
  const wrong = el("p.refused"), alive = el("p.soft"), passes = el("span"), shown = el("div"), curve = el("div");
  const view = el("div.two", card(t("train.samples"), el("p.soft", t("train.samples.what")), shown), card(t("train.curve"), el("p.soft", t("train.curve.what")), curve));
  main.append(card(null, says, wrong, bar, phases, buttons, alive, el("p.soft", passes, " ", was_over ? "" : t("train.close"))), view);
  view.hidden = true;
  let from = 0, state = "", round = first;
  const ask = (key, path, body, strong) => button(key, event => page.act(event.target, async () => { await post(`${at}/${path}`, body); tick(); }), { strong });
  function draw_buttons() {
    const all = { training: [["train.stop", "stop"], ["train.pause", "pause"], ["train.longer", "longer", { minutes: 10 }]], starting: [["train.pause", "pause"]],
      paused: [["train.resume", "resume", {}, true], ["train.stop", "stop"]], failed: [["train.retry", "resume", {}, true]] }[round.state] || [];
    buttons.replaceChildren(...all.map(one => ask(...one)), ...(round.state === "done" ? [
      el("a.button.strong", { href: page.url("use") }, t("train.try")), el("a.button", { href: page.url("look") }, t("train.look"))] : []));
  }
  function draw() {
    const { left, elapsed, minutes } = round, busy = BUSY.includes(round.state), total = left === null ? 60 * minutes : elapsed + left;
    bar.hidden = round.state === "done";
    bar.value = round.state === "testing" ? 1 : Math.min(1, elapsed / (total || 1));
    const words = round.state === "training" && round.phase === "training" && left !== null ? t("train.left", { n: Math.max(1, Math.ceil(left / 60)), time: clock(Date.now() / 1000 + left) })
      : t("round." + round.state, { n: Math.round(elapsed / 60), time: clock(round.began + elapsed) });
    if (says.textContent !== words) says.textContent = words;
    wrong.textContent = round.error ? told(round.error).message : "";
    const now = round.state === "testing" ? 4 : PHASES.findIndex(names => names.includes(round.phase));
    phases.replaceChildren(...PHASES.map((names, n) => el("li", { "aria-current": busy && n === now ? "step" : null },
      el("span", { "aria-hidden": "true" }, round.state === "done" || n < now ? "✓ " : n === now ? "● " : "○ "), t("phase." + (n === now && busy ? round.phase || names[0] : names[0])))));
    if (state !== round.state) { page.tell(words); state = round.state; draw_buttons(); }
  }
  function draw_learning() {
    view.hidden = !points.length && !samples.length;
    const places = samples.length ? samples[0].lines.map((line, n) => [line, samples.map(one => [one.seconds, one.lines[n] ? one.lines[n].translation : ""])]) : [];
    shown.replaceChildren(...places.map(([line, all]) => sample(line, all, page)));
    const curved = points.map(one => [one.seconds / 60, one.chrf]), highest = Math.max(10, ...curved.map(one => one[1]));
    curve.replaceChildren(...(curved.length ? [chart({ label: t("train.curve.label", { score: highest === 10 ? 0 : highest, n: Math.round(curved.at(-1)[0]) }), unit: t("unit.minutes"),
      curves: [{ points: [[0, 0], ...curved] }], span: [0, Math.max(round.minutes, curved.at(-1)[0])], low: 0, high: Math.ceil(highest / 10) * 10 }),
    el("details", el("summary", t("table")), table(t("train.curve"), [t("unit.minutes"), t("train.score")], curved.map(([x, y]) => [number(x, 1), number(y, 1)])))] : []));
  }
  async function tick() {
    const found = await get(`${at}/progress?from=${from}`);
    if (!page.is_shown) return false;
    from = found.next;
    round = found.round;
    if (found.samples.length) page.tell(t("train.new"));
    points.push(...found.points);
    samples.push(...found.samples);
    draw();
    if (found.points.length || found.samples.length) draw_learning();
    passes.textContent = found.passes >= 1 ? t("train.passes", { n: Math.floor(found.passes) }) : "";
    alive.textContent = BUSY.includes(round.state) && found.alive ? t("train.alive", { n: Math.max(0, Math.round(Date.now() / 1000 - found.alive)), time: clock(found.alive, "2-digit") }) : "";
    if (OVER.includes(round.state) && !was_over) { await page.renew(); if (page.is_shown) page.go("train"); }
    return !OVER.includes(round.state);
  }
  draw();
  page.every(tick);
}

// One sentence with its translations from first to last: the words that the one before has not are marked.
export function sample(line, all, page) {
  const [from, into] = page.project.direction.map(n => page.project.sides[n].lang), kept = all.filter(([, text], n) => !n || text !== all[n - 1][1]);
  const few = kept.length > 4 ? [kept[0], ...kept.slice(-3)] : kept;
  const made = el("dl.sample", el("dt", t("sample.source")), said("dd", line.source, from), el("dt", t("sample.yours")), said("dd", line.reference, into));
  few.forEach(([seconds, text], n) => {
    const had = new Set(n ? few[n - 1][1].split(/\s+/) : text.split(/\s+/)), last = n === few.length - 1;
    made.append(el("dt", last ? el("b", t("sample.now")) : t("minutes.short", { n: Math.max(1, Math.round(seconds / 60)) })),
      el(last ? "dd" : "dd.soft", { dir: "auto", lang: into }, last ? text.split(/(\s+)/).map(word => had.has(word) || !word.trim() ? word : el("ins", word)) : text));
  });
  return made;
}
