// Step 3: how good it is, honestly; and what a person says about it.
import { get, post } from "./api.js";
import { report } from "./report.js";
import { button, card, el, said, t } from "./words.js";

const ENOUGH = 20; // judgements
const LEADS = { train: "train", add: "text", see: "text", swap: "text", try: "use" };

export const nothing_yet = page => [el("p", t("look.none")),
  el("div.row", el("a.button.strong", { href: page.url("train") }, t("step.train")))];

export function look(main, page) {
  const { project } = page, { best } = project, done = project.rounds.filter(one => one.state === "done");
  main.append(el("h2", t("look.title")));
  if (!done.length) {
    main.append(...nothing_yet(page));
    return;
  }
  const box = el("div.stack"), save = el("a.button", t("look.save"));
  const which = el("select", { onchange: () => draw(+which.value) }, done.map(({ n, pairs }) =>
    el("option", { value: String(n), selected: n === (best || done.at(-1).n) }, t("look.round", { round: n, pairs }))));
  main.append(el("div.row.noprint", done.length > 1 ? el("label", t("look.which"), " ", which) : "",
    button("look.print", () => print()), save), box);

  async function draw(number) {
    const at = `${page.at}/rounds/${number}`, round = done.find(one => one.n === number);
    save.href = `${at}/report.html?language=${document.documentElement.lang}`;
    box.replaceChildren(el("p", t("look.wait")), el("progress", { "aria-label": t("look.wait") }));
    await page.every(async () => {
      const found = await get(`${at}/report`);
      if (found.state === "waiting" || !page.is_shown) return true;
      const act = what => LEADS[what] && el("p", el("a", { href: page.url(LEADS[what]) }, t("act." + what)));
      const judging = judge(found, at, page, () => draw(number));
      box.replaceChildren(...report({ project, round, report: found }, act, judging).flat(9).filter(Boolean));
      return false;
    });
  }
  draw(+which.value);
}

// One sentence after another, with three buttons: what a person says counts more than letters.
function judge(found, at, page, again) {
  const open = found.lines.filter(one => !one.verdict), done = [];
  const [from, into] = page.project.direction.map(n => page.project.sides[n].lang);
  if (!open.length) return "";
  let count = found.lines.length - open.length;
  const shown = el("dl.sample"), says = el("p.soft");
  const back = button("judge.back", () => {
    count--;
    open.unshift(done.pop());
    next();
  }, { hidden: true });
  const verdict = name => button("judge." + name, event => page.act(event.target, async () => {
    await post(`${at}/judge`, { line: open[0].line, verdict: name });
    done.push(open.shift());
    if (++count === ENOUGH || !open.length) again();
    else next();
    page.tell(open.length ? `${open[0].source} – ${open[0].translation}` : t("judge.end"), true);
  }));
  function next() {
    const { source, translation, reference } = open[0];
    back.hidden = !done.length;
    says.textContent = t("judge.what", { n: count, all: Math.min(ENOUGH, found.lines.length) });
    const part = (name, text, lang) => [el("dt", t("sample." + name)), said("dd", text, lang)];
    shown.replaceChildren(...part("source", source, from), ...part("its", translation, into),
      ...part("yours", reference, into));
  }
  next();
  const made = card(t("judge.title"), says, shown, el("div.row", ["right", "usable", "wrong"].map(verdict), back));
  made.classList.add("noprint");
  return made;
}
