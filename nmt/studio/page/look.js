// Step 3: how good it is, honestly; and what a person says about it.
import { get, post } from "./api.js";
import { report } from "./report.js";
import { button, card, el, said, t } from "./words.js";

const ENOUGH = 20; // judgements
const LEADS = { train: "train", add: "text", see: "text", swap: "text", try: "use" };

export async function look(main, page) {
  const { rounds, best } = page.project, done = rounds.filter(one => one.state === "done");
  main.append(el("h2", t("look.title")));
  if (!done.length) { main.append(el("p", t("look.none")), el("div.row", el("a.button.strong", { href: page.url("train") }, t("step.train")))); return; }
  const box = el("div.stack"), which = el("select", { onchange: () => draw(+which.value) }, done.map(one => el("option", { value: String(one.n), selected: one.n === (best || done.at(-1).n) }, t("look.round", { round: one.n, pairs: one.pairs }))));
  const save = el("a.button", {}, t("look.save"));
  main.append(el("div.row.noprint", done.length > 1 ? el("label", t("look.which"), " ", which) : "", button("look.print", () => print()), save), box);

  async function draw(n) {
    const at = `${page.at}/rounds/${n}`, round = done.find(one => one.n === n);
    save.href = `${at}/report.html`;
    box.replaceChildren(el("p", { role: "status" }, t("look.wait")), el("progress", { "aria-label": t("look.wait") }));
    await page.every(async () => {
      const found = await get(`${at}/report`);
      if (found.state === "waiting" || !page.is_shown) return true;
      const act = what => LEADS[what] ? el("p", el("a", { href: page.url(LEADS[what]) }, t("act." + what))) : "";
      box.replaceChildren(...report({ project: page.project, round, report: found }, act, judge(found, at, page, () => draw(n))).flat(9).filter(Boolean));
      return false;
    });
  }
  draw(+which.value);
}

// One sentence after another, with three buttons: what a person says counts more than letters.
function judge(found, at, page, again) {
  const open = found.lines.filter(one => !one.verdict), done = [], [from, into] = page.project.direction.map(n => page.project.sides[n].lang);
  if (!open.length) return "";
  let count = found.lines.length - open.length;
  const shown = el("dl.sample"), says = el("p.soft"), back = button("judge.back", () => { count--; open.unshift(done.pop()); next(); }, { hidden: true });
  const buttons = el("div.row", ["right", "usable", "wrong"].map(verdict => button("judge." + verdict, event => page.act(event.target, async () => {
    await post(`${at}/judge`, { line: open[0].line, verdict });
    done.push(open.shift());
    if (++count === ENOUGH || !open.length) again();
    else next();
    page.tell(open.length ? `${open[0].source} – ${open[0].translation}` : t("judge.end"), true);
  }))), back);
  function next() {
    const one = open[0];
    back.hidden = !done.length;
    says.textContent = t("judge.what", { n: count, all: Math.min(ENOUGH, found.lines.length) });
    shown.replaceChildren(el("dt", t("sample.source")), said("dd", one.source, from), el("dt", t("sample.its")), said("dd", one.translation, into), el("dt", t("sample.yours")), said("dd", one.reference, into));
  }
  next();
  const made = card(t("judge.title"), says, shown, buttons);
  made.classList.add("noprint");
  return made;
}
