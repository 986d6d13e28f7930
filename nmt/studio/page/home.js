// All translators of this computer.
import { post } from "./api.js";
import { side_name } from "./report.js";
import { button, card, day, el, t } from "./words.js";

const LINKS = { // of each state, the first is what comes next: step, words
  empty: [["text", "home.add"]],
  text: [["train", "step.train"], ["text", "home.add"]],
  training: [["train", "home.watch"]],
  paused: [["train", "home.continue"]],
  trained: [["use", "step.use"], ["look", "step.look"], ["text", "home.add"], ["share", "step.share"]],
};

export function home(main, page) {
  const { projects, running, cloud } = page.state;
  const example = button("home.example", event => page.act(event.target, async () => {
    page.go("text", (await post("/studio/projects", { name: t("home.example.name"), example: true })).id);
  }));
  main.append(el("h2", t("home.title")), projects.length ? "" : el("p.big", t("home.empty")),
    cloud ? el("p.warn", t("warning.cloud", { name: cloud })) : "",
    el("div.row", el("a.button.strong", { href: "#/new" }, t("home.new")), example),
    el("ul.grid", projects.map(one => el("li", one_card(one, running, page)))));
}

function one_card(one, running, page) {
  const to = ([step, key], n) => el(n ? "a.button" : "a.button.strong", { href: page.url(step, one.id) }, t(key));
  const names = one.sides ? one.sides.map(side_name).filter(Boolean).join(" – ") : "";
  const facts = [names !== one.name && names, one.pairs && t("pairs", one.pairs), one.rounds && t("rounds", one.rounds),
    day(one.changed)];
  const made = card(null, el("h3", { dir: "auto" }, one.name), el("p.soft", facts.filter(Boolean).join(" · ")));
  if (one.broken) made.append(el("p.refused", one.broken));
  else made.append(el("p", t("state." + (running && running.project === one.id ? "training" : one.state))),
    el("div.row", LINKS[one.state].map(to)));
  return made;
}
