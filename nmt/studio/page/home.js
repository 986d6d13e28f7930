// All translators of this computer.
import { post } from "./api.js";
import { side_name } from "./report.js";
import { button, card, day, el, t } from "./words.js";


export function home(main, page) {
  const { projects, running, cloud } = page.state;
  main.append(el("h2", t("home.title")),
    projects.length ? "" : el("p.big", t("home.empty")), cloud ? el("p.warn", t("warning.cloud", { name: cloud })) : "",
    el("div.row", el("a.button.strong", { href: "#/new" }, t("home.new")),
      button("home.example", event => page.act(event.target, async () => {
        page.go("text", (await post("/studio/projects", { name: t("home.example.name"), example: true })).id);
      }))),
    el("ul.grid", projects.map(one => el("li", one_card(one, running, page)))));
}

function one_card(one, running, page) {
  const to = (step, key, strong) => el(strong ? "a.button.strong" : "a.button", { href: page.url(step, one.id) }, t(key));
  const links = { training: [to("train", "home.watch", true)], paused: [to("train", "home.continue", true)], empty: [to("text", "home.add", true)],
    text: [to("text", "home.add"), to("train", "step.train", true)], trained: [to("use", "step.use", true), to("look", "step.look"), to("text", "home.add"), to("share", "step.share")] };
  const names = one.sides ? one.sides.map(side_name).filter(Boolean).join(" – ") : "";
  const facts = [names !== one.name && names, one.pairs && t("pairs", one.pairs), one.rounds && t("rounds", one.rounds), day(one.changed)];
  const made = card(null, el("h3", { dir: "auto" }, one.name), el("p.soft", facts.filter(Boolean).join(" · ")));
  if (one.broken) made.append(el("p.refused", one.broken));
  else made.append(el("p", t("state." + (running && running.project === one.id ? "training" : one.state))), el("div.row", links[one.state]));
  return made;
}
