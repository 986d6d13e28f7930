// The report: in the studio's step "Look", and in the one file that it saves and nmt-report writes.
import { chart } from "./chart.js";
import { card, day, el, name_of, number, said, scrolling, t, table } from "./words.js";

const BUCKETS = ["near", "partly", "different"], SIDE_BY_SIDE = 5;
const SAME = { time: ["few-passes", "rising"], words: ["unseen"] }; // help that a sentence has said already
const NOT_FOR = ["unchecked", "health", "unlike"];
const POOR = { near: 5, partly: 20 }; // of 100, below both of which it is of no use yet
export const side_name = side => side.name || (side.lang ? name_of(side.lang) : "");
const list = (tag, items) => el(tag, items.map(one => el("li", one)));

export function bars(quality) {
  const label = BUCKETS.map(name => t("bucket.count",
    { n: quality[name], what: t(bucket(name, quality.words)) })).join(", ");
  return el("div", el("div.bars", { role: "img", "aria-label": label },
    BUCKETS.filter(name => quality[name]).map(name => {
    const part = el(`span.${name}`, number(quality[name]));
    part.style.flexGrow = quality[name];
    return part;
  })), el("ul.key", BUCKETS.filter(name => quality[name]).map(name => el("li", el(`i.${name}`), " ",
    label_of(name, quality)))));
}
const bucket = (name, words) => words && name !== "partly" ? `bucket.word.${name}` : `bucket.${name}`;
const label_of = (name, quality) => `${number(quality[name])} ${t(bucket(name, quality.words))}`;

// What is known of one round, for a person. `act`: an element that leads to what is to be done, none in a saved page;
// `between`: what stands before the details.
export function report({ project, round, report: found }, act, between = "") {
  const [a, b] = project.direction.map(n => project.sides[n]), { before, quality } = found;
  const better = before && { n: before.n, was: before.quality.near, is: quality.near };
  const advice = one => [el("p", t("why." + one.code, one.words)), act && act(one.do)];
  const groups = found.groups.map(one => [t("group." + one.code, one.count), number(one.near)]);
  const is_said = ({ code }) => found.sentences.some(one => (SAME[code] || []).includes(one.code));
  const help = found.help.filter(one => !is_said(one)).map(one => t("help." + one.code, one.words));
  return [
    act ? el("p.big.printed", { dir: "auto" }, project.name) : "", // the saved page has it as its heading
    facts(project, round, a, b),
    el("div.two", headline(found, advice), uses(found, a, b)),
    before ? el("section.card.noprint", el("h3", t("before.title")), el("p", t("before." + before.better, better)))
      : "",
    between,
    el("div.grid",
      groups.length ? card(t("groups.title"), el("p.soft", t("groups.what")), table(t("groups.title"), [], groups)) : "",
      el("section.card.noprint", el("h3", t("help.title")),
        list("ol", [...found.sentences.slice(1).map(advice), ...help]))),
    unseen(found.unseen, a.lang),
    side_by_side(found.lines, a.lang, b.lang),
    details(t("sure.title"), found.calibration.length && [el("p.soft", t("sure.what")), table(t("sure.title"),
      [t("sure.says"), t("sure.is"), t("sure.count")],
      found.calibration.map(one => [100 * one.confidence, 100 * one.kept, one.lines].map(n => number(n))))]),
    details(t("experts.title"), found.experts && el("div.experts",
      round.command ? el("p", el("code", round.command)) : "", experts(found.experts))),
  ];
}

const details = (title, inner) => inner ? el("details.card.noprint", el("summary", el("b", title)), inner) : "";

// What stands above the printed card.
function facts(project, round, a, b) {
  const all = { languages: `${side_name(a)} → ${side_name(b)}`, pairs: number(round.pairs), origin: project.origin,
    round: `${round.n}, ${day(round.began)}`, permission: project.permission && t("permission." + project.permission),
    contact: project.contact };
  return el("dl.facts.printed", Object.entries(all).map(([key, value]) =>
    value && [el("dt", t("fact." + key)), said("dd", value)]));
}

// The judgement of a person stands first where there is one, else letters.
function headline({ few, headline, judged, quality, sentences }, advice) {
  const letters = t(quality.words ? "head.words" : "head.sentences", { n: quality.near });
  const person = judged && headline === "person"
    && t("head.person", { ...judged, n: judged.count, good: judged.right + judged.usable });
  const sure = t(quality.words ? "head.sure.words" : "head.sure", { ...quality, n: quality.count });
  return card(null, el("p.big", person || letters), sentences.slice(0, 1).map(advice), person ? el("p", letters) : "",
    bars(quality), el("p", sure, few ? " " + t("head.few") : ""), quality.words ? "" : el("p.soft", t("head.letters")));
}

function uses({ quality, useful }, a, b) {
  const known = quality.near < POOR.near && quality.partly < POOR.partly ? ["nothing"] : useful;
  const part = (kind, title, items) => el(`div.finding.${kind}`, el("p.tag", t(title)), list("ul.plain", items));
  return card(t("use.title"),
    part("done", "use.may", known.map(one => t("may." + one, { from: side_name(a), into: side_name(b) }))),
    part("bad", "use.not", NOT_FOR.map(one => t("not." + one))));
}

function unseen(words, lang) {
  const title = t("unseen.title", words.length), heads = [t("unseen.word"), t("unseen.count"), t("unseen.example")];
  return details(title, words.length && [el("p.soft", t("unseen.what")), table(title, heads, words.map(one =>
    [said("td", one.word, lang), number(one.count), said("td", one.examples[0] || "", lang)]))]);
}

function side_by_side(lines, from, into) {
  const sorted = [...lines].sort((one, other) => one.chrf - other.chrf);
  const low = word => word.toLowerCase().replaceAll("ß", "ss"); // the words are folded: of Cherokee to capitals
  const bare = word => low(word.replace(/^[^\p{L}\p{N}]+|[^\p{L}\p{N}]+$/gu, ""));
  const marked = ({ source, unseen }) => el("td", { dir: "auto", lang: from },
    source.split(/(\s+)/).map(word => unseen.map(low).includes(bare(word)) ? el("mark", word) : word));
  const heads = ["sample.source", "sample.its", "sample.yours"].map(key => t(key));
  const rows = some => some.map(line =>
    [marked(line), said("td", line.translation, into), said("td", line.reference, into)]);
  const part = (title, some) => card(t(title), table(t(title), heads, rows(some), ".even"));
  const count = Math.min(SIDE_BY_SIDE, Math.ceil(lines.length / 2));
  if (!count) return "";
  const worst = part("worst.title", sorted.slice(0, count)), best = part("best.title", sorted.slice(-count).reverse());
  worst.append(el("p.soft.noprint", t("worst.what")));
  best.classList.add("noprint");
  return [worst, best];
}

// ------------------------------------------------------------ numbers for experts, of one run or several

const named = key => {
  const words = t("expert." + key);
  return words === "expert." + key ? key : words;
};

export function experts(data) {
  const several = data.runs.length > 1, title = one => named(one.title) + (one.run && several ? `: ${one.run}` : "");
  const marked = value => several && data.runs.includes(value)
    ? [el(`i.key.c${data.runs.indexOf(value) % 8}`), " ", value] : value;
  const rows = one => table(title(one), one.heads.map(named), one.rows.map(row => row.map(marked)));
  const open = one => [el("h3", title(one)), rows(one)];
  const closed = one => el("details", el("summary", `${title(one)} (${number(one.rows.length)})`), rows(one));
  const plus = (name, value) => value ? `± ${number(value, 2)}` : "";
  const scores = ["chrf", "bleu"].filter(name => name in data).map(name =>
    [name, number(data[name], 2), plus(name, data[`${name}_interval`]), data[`${name}_signature`]]);
  const images = Object.entries(data.pictures).flatMap(([name, all]) => all.map(one =>
    el("img", { alt: `${t("expert.attention")}: ${name}`, src: "data:image/svg+xml," + encodeURIComponent(one) })));
  return [data.warnings.map(one => el("p.warn", one)),
    scores.length ? [el("h3", named("Scores")), table(named("Scores"), [], scores)] : "",
    data.tables.filter(one => !one.closed).map(open),
    data.charts.length ? charts(data.charts) : "",
    data.tables.filter(one => one.closed).map(closed),
    images.length ? [el("h3", t("expert.attention")), scrolling(t("expert.attention"), images)] : ""];
}

// All curves against one axis, with one zoom.
function charts(all) {
  const axis = el("select", { "aria-label": t("axis"), onchange: () => zoom(null) },
    ["axis.updates", "axis.minutes"].map((key, n) => el("option", { value: String(n) }, t(key))));
  const log = el("input", { type: "checkbox", onchange: () => draw() }), box = el("div.grid");
  let span = null;
  const zoom = to => {
    span = to;
    draw();
  };
  const draw = () => box.replaceChildren(...all.map(one => {
    const x = +axis.value, curves = one.curves.map((points, run) => {
      const widths = new Map(one.bands[run] || []);
      return { points: points.map(point => [point[x], point[2], widths.get(point[0])]) };
    });
    const label = named(one.title), unit = x ? t("unit.minutes") : "";
    return el("figure", el("figcaption", label), chart({ label, span, log: log.checked, unit, on_zoom: zoom, curves }));
  }));
  draw();
  return [el("h3", t("curves.title")), el("p.row.noprint", el("label", t("axis"), " ", axis),
    el("label.check", log, " ", t("axis.log")), el("span.soft", t("axis.zoom"))), box];
}
