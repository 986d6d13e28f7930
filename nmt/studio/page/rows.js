// What was found in a text, with the rows and what can be done about them.
import { get, post } from "./api.js";
import { side_name } from "./report.js";
import { button, el, number, said, t, table } from "./words.js";

const ACTIONS = ["leave_out", "mend", "keep"];
const ROWS = 20; // at a time

// `send` does what a button asks and draws the text anew; rows that are shown are shown again then.
export function finding(found, one, at, page, send) {
  const { actions = [], count, level, message, name, rows = [], total } = found, key = "finding." + name;
  const decided = one.decided && one.decided[name], box = el("div");
  const words = t(key, { ...found.words, n: count, total });
  const kind = level === "done" || decided ? "done" : level === "error" ? "bad" : "warn";
  const opened = page.opened ||= new Set(), mark = `${one.id} ${name}`;
  const draw = () => {
    show.setAttribute("aria-expanded", opened.has(mark));
    box.replaceChildren();
    if (opened.has(mark)) more_rows(box, name, 0, one, at, page, send);
  };
  const show = button("text.show", () => {
    if (!opened.delete(mark)) opened.add(mark);
    draw();
  });
  draw();
  const decide = action => button("do." + action, event =>
    send(event.target, () => post(`${at}/decide`, { finding: name, do: action })),
  { "aria-pressed": String(decided === action) });
  const swap = button("asks.swap", event => send(event.target, () => post(at, { swap: true })));
  return el(`div.finding.${kind}`, el("p.tag", t(decided ? "decided." + decided : "level." + level)),
    el("p", words === key ? message : words),
    el("div.row", rows.length ? show : "", ACTIONS.filter(action => actions.includes(action)).map(decide),
      name === "swapped" ? swap : ""), box);
}

async function more_rows(box, name, from, one, at, page, send) {
  const found = await get(`${at}/rows?from=${from}&count=${ROWS}&finding=${name}`), { sides } = page.project;
  const heads = [t("text.row"), ...sides.map((side, n) => side_name(side) || t("text.side." + n)), ""];
  const change = (control, body) => send(control, () => post(`${at}/rows`, body));
  const title = `${t("text.show")}: ${one.name}, ${name}, ${from}`;
  box.append(table(title, heads, found.rows.map(row => one_row(row, sides, change))));
  const rest = found.total - from - found.rows.length;
  if (rest > 0 && found.rows.length) box.append(button("text.more", event => {
    event.target.remove();
    more_rows(box, name, from + ROWS, one, at, page, send);
  }, {}, rest));
}

// A row can be left out, put back, and changed in its place.
function one_row({ row, source, target, out }, sides, change) {
  const cells = [source, target].map((text, n) => said("td", text, sides[n].lang));
  const act = (key, work) => button(key, work, { "aria-label": `${t(key)}: ${row}` });
  const leave = act(out ? "text.back" : "do.leave_out", event => change(event.target, { row, out: !out }));
  const edit = act("text.change", () => {
    const label = `${t("text.row")} ${row}`;
    const fields = cells.map(cell => el("textarea", { rows: 2, dir: "auto", "aria-label": label }, cell.textContent));
    cells.forEach((cell, n) => cell.replaceChildren(fields[n]));
    buttons.replaceChildren(button("text.keep", event =>
      change(event.target, { row, source: fields[0].value, target: fields[1].value }), { strong: true }));
    fields[0].focus();
  });
  const buttons = el("div.row", leave, edit);
  return [el("td.n", number(row)), ...cells, el("td", buttons)];
}
