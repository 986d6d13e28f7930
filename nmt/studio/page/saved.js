// A saved report: one page whose data stands in it.
import { experts, report } from "./report.js";
import { button, el, t, use_words } from "./words.js";

const given = JSON.parse(document.getElementById("data").textContent);
use_words(given.words, given.english, given.language);
document.title = given.title;
document.body.append(el("main", el("div.row.apart", el("h1", { dir: "auto" }, given.title),
  given.studio ? button("look.print", () => print(), { class: "noprint" }) : ""),
  el("h2", t(given.studio ? "look.title" : "experts.title")),
  given.studio ? report({ ...given.studio, report: { ...given.studio.report, experts: given.experts } })
    : experts(given.experts)));
