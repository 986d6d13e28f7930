// The report: in the studio's step "Look", and in the one file that it saves and nmt-report writes.
import { chart, shown } from "./chart.js";
import { card, day, el, name_of, number, said, t, table } from "./words.js";

const BUCKETS = ["near", "partly", "different"], SIDE_BY_SIDE = 5;
export const side_name = side => side.name || (side.lang ? name_of(side.lang) : "");
const list = (tag, items) => el(tag, items.map(one => el("li", one)));
const share = one => Math.round(one);

export function bars(quality) {
  const label = BUCKETS.map(name => t("bucket.count", { n: quality[name], what: t(bucket(name, quality.words)) })).join(", ");
  return el("div", el("div.bars", { role: "img", "aria-label": label }, BUCKETS.filter(name => quality[name]).map(name => {
    const part = el(`span.${name}`, number(quality[name]));
    part.style.flexGrow = quality[name];
    return part;
  })), el("ul.key", BUCKETS.filter(name => quality[name]).map(name => el("li", el(`i.${name}`), " ", label_of(name, quality)))));
}
const bucket = (name, words) => words && name !== "partly" ? `bucket.word.${name}` : `bucket.${name}`;
const label_of = (name, quality) => `${number(quality[name])} ${t(bucket(name, quality.words))}`;

// What is known of one round. `act`: what a click on "do" leads to, none in a saved page; `between`: what stands before details.
export function report({ project, round, report: found }, act, between) {
  const { quality, judged, before } = found, [a, b] = project.direction.map(n => project.sides[n]), words = quality.words ? "words" : "sentences";
  const letters = t(`head.${words}`, { n: quality.near }), person = judged && found.headline === "person";
  const sure = t("head.sure", { n: quality.count, low: quality.low, high: quality.high });
  const useful = quality.near < 5 && quality.partly < 20 ? ["nothing"] : found.useful, first = found.sentences[0], sentence = one => [el("p", t("why." + one.code, one.words || {})), act && act(one.do)];
  const facts = [["fact.languages", `${side_name(a)} → ${side_name(b)}`], ["fact.pairs", number(round.pairs)], ["fact.round", `${round.n}, ${day(round.began)}`],
    ["fact.origin", project.origin], ["fact.permission", project.permission && t("permission." + project.permission)], ["fact.contact", project.contact]];
  return [
    el("dl.facts.printed", facts.filter(one => one[1]).map(([key, value]) => [el("dt", t(key)), said("dd", value)])),
    el("div.two", card(null, el("p.big", person ? t("head.person", { n: judged.count, good: judged.right + judged.usable, low: judged.low, high: judged.high }) : letters),
      first ? sentence(first) : "", person ? el("p", letters) : "", bars(quality), el("p", sure, found.few ? " " + t("head.few") : ""), el("p.soft", t("head.letters"))),
    card(t("use.title"), el("div.finding.done", el("p.tag", t("use.may")), list("ul.plain", useful.map(one => t("may." + one, { from: side_name(a), into: side_name(b) })))),
      el("div.finding.bad", el("p.tag", t("use.not")), list("ul.plain", found.not_for.map(one => t("not." + one)))))),
    before ? card(t("before.title"), el("p", t("before." + before.better, { n: before.n, was: before.quality.near, is: quality.near, low: before.low, high: before.high }))) : "",
    between || "",
    el("div.grid", card(t("groups.title"), el("p.soft", t("groups.what")), table(t("groups.title"), [], found.groups.map(one => [t("group." + one.code, { n: one.count }), number(one.near)]))),
      card(t("help.title"), list("ol", [...found.sentences.slice(1).map(sentence), ...found.help.map(one => t("help." + one.code, one.words || {}))]))),
    found.unseen.length ? el("details.card.noprint", el("summary", el("b", t("unseen.title", found.unseen.length))), el("p.soft", t("unseen.what")),
      table(t("unseen.title", found.unseen.length), [t("unseen.word"), t("unseen.count"), t("unseen.example")], found.unseen.map(one => [said("td", one.word, a.lang), number(one.count), said("td", one.examples[0] || "", a.lang)]))) : "",
    side_by_side(found.lines, a, b),
    found.calibration.length ? el("details.card.noprint", el("summary", el("b", t("sure.title"))), el("p.soft", t("sure.what")),
      table(t("sure.title"), [t("sure.says"), t("sure.is"), t("sure.count")], found.calibration.map(one => [share(100 * one.confidence), share(100 * one.near), one.count].map(n => number(n))))) : "",
    found.experts ? el("details.card.noprint", el("summary", el("b", t("experts.title"))), el("div.experts", round.command ? el("p", el("code", round.command)) : "", experts(found.experts))) : "",
  ];
}

function side_by_side(lines, a, b) {
  const sorted = [...lines].sort((one, other) => one.chrf - other.chrf), marked = line => line.source.split(/(\s+)/).map(word => line.unseen.includes(word.replace(/^[^\p{L}\p{N}]+|[^\p{L}\p{N}]+$/gu, "")) ? el("mark", word) : word);
  const rows = some => some.map(line => [el("td", { dir: "auto", lang: a.lang }, marked(line)), said("td", line.translation, b.lang), said("td", line.reference, b.lang)]);
  const heads = ["sample.source", "sample.its", "sample.yours"].map(key => t(key)), some = Math.min(SIDE_BY_SIDE, Math.ceil(lines.length / 2));
  return some ? [card(t("worst.title"), table(t("worst.title"), heads, rows(sorted.slice(0, some)), ".even"), el("p.soft", t("worst.what"))),
    el("section.card.noprint", el("h3", t("best.title")), table(t("best.title"), heads, rows(sorted.slice(-some).reverse()), ".even"))] : "";
}

// ------------------------------------------------------------ numbers for experts, of one run or several

const named = key => { const words = t("expert." + key); return words === "expert." + key ? key : words; };

export function experts(data) {
  const shape = el("select", { "aria-label": t("axis") }, [["0", "axis.updates"], ["1", "axis.minutes"]].map(([value, key]) => el("option", { value }, t(key))));
  const log = el("input", { type: "checkbox" }), box = el("div.grid"), key = name => data.runs.length > 1 ? el(`i.key.c${data.runs.indexOf(name) % 8}`) : "";
  let span = null;
  const draw = () => {
    const x = +shape.value;
    box.replaceChildren(...data.charts.map(one => el("figure", el("figcaption", named(one.title)), chart({
      label: named(one.title), span, log: log.checked, unit: x ? t("unit.minutes") : "", on_zoom: to => { span = to; draw(); },
      curves: one.curves.map((points, run) => { const widths = new Map(one.bands[run] || []); return { points: points.map(point => [point[x], point[2], widths.get(point[0])]) }; }) }))));
  };
  shape.onchange = () => { span = null; draw(); };
  log.onchange = draw;
  draw();
  const cell = value => typeof value === "number" ? shown(value) : String(value);
  const rows = one => table(named(one.title), one.heads.map(named), one.rows.map(row => row.map((value, n) => n || !data.runs.includes(value) ? cell(value) : [key(value), " ", value])));
  const open = one => [el("h3", named(one.title), one.run && data.runs.length > 1 ? `: ${one.run}` : ""), rows(one)];
  const closed = one => el("details", el("summary", named(one.title), one.run ? `: ${one.run}` : "", ` (${number(one.rows.length)})`), rows(one));
  const images = Object.entries(data.pictures || {}).flatMap(([name, all]) => all.map(one => el("img", { alt: `${t("expert.attention")}: ${name}`, src: "data:image/svg+xml," + encodeURIComponent(one) })));
  const scores = ["chrf", "bleu"].filter(name => name in data).map(name => [name, number(data[name], 2), data[`${name}_interval`] ? `± ${number(data[`${name}_interval`], 2)}` : "", data[`${name}_signature`]]);
  return [data.warnings.map(one => el("p.warn", one)), scores.length ? [el("h3", named("Scores")), table(named("Scores"), [], scores)] : "", data.tables.filter(one => !one.closed).map(open), data.charts.length ? [el("h3", t("curves.title")),
    el("p.row.noprint", el("label", t("axis"), " ", shape), el("label.check", log, " ", t("axis.log")), el("span.soft", t("axis.zoom"))), box] : "",
  data.tables.filter(one => one.closed).map(closed), images.length ? [el("h3", t("expert.attention")), el("div.wide", { tabindex: "0", role: "region", "aria-label": t("expert.attention") }, images)] : ""];
}
