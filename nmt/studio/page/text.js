// Step 1: the files, the rows as they were understood, and what is wrong with them.
import { get, post, remove, told } from "./api.js";
import { side_name } from "./report.js";
import { button, card, el, number, said, t, table } from "./words.js";

const FORMATS = ".xlsx,.xls,.ods,.csv,.tsv,.txt,.docx,.odt,.md,.html,.tmx,.flextext,.lift,.db,.sfm,.usfm,.srt,.vtt,.eaf";
const ROWS = 20; // at a time

export function text(main, page) {
  const files = el("div"), enough = el("div"), cards = new Map();
  const input = el("input", { type: "file", multiple: true, hidden: true, accept: FORMATS, onchange: () => { add([...input.files]); input.value = ""; } });
  const area = el("textarea", { rows: 5, dir: "auto", "aria-label": t("text.paste.label") });
  const paste = el("form.paste", { hidden: true, onsubmit: event => { event.preventDefault(); pasted(area.value); } }, area,
    el("div.row", el("button.strong", t("text.paste.use"))));
  const drop = el("div.drop", el("p", el("b", t("text.drop"))), el("div.row", button("text.choose", () => input.click(), { strong: true }),
    button("text.paste", event => { paste.hidden = !paste.hidden; event.target.setAttribute("aria-expanded", !paste.hidden); if (!paste.hidden) area.focus(); }, { "aria-expanded": "false" })),
  input, paste, el("p.soft", t("text.formats")));
  main.append(el("h2", t("text.title")), drop, files, enough);

  const pasted = words => { if (words.trim()) add([new File([words], "pasted.tsv")]); area.value = ""; paste.hidden = true; };
  const listen = (name, work) => document.addEventListener(name, function heard(event) {
    if (!page.is_shown) document.removeEventListener(name, heard);
    else work(event);
  });
  listen("dragover", event => { if ([...event.dataTransfer.types].includes("Files")) { event.preventDefault(); drop.classList.add("lit"); } });
  listen("dragleave", event => { if (!event.relatedTarget) drop.classList.remove("lit"); });
  listen("drop", event => { drop.classList.remove("lit"); if (event.dataTransfer.files.length) { event.preventDefault(); add([...event.dataTransfer.files]); } });
  listen("paste", event => { if (!event.target.closest("input, textarea")) pasted(event.clipboardData.getData("text")); });

  async function add(list) {
    await page.act(drop.querySelector(".row"), async () => {
      for (const file of list) {
        page.tell(t("text.sending", { name: file.name }));
        if (!page.project) {
          const name = file.name.replace(/\.[^.]*$/, "") || t("home.unnamed");
          page.project = await post("/studio/projects", { name: name === "pasted" ? t("home.unnamed") : name });
          page.at = `/studio/projects/${page.project.id}`;
          history.replaceState(null, "", page.url("text"));
        }
        await post(`${page.at}/texts?name=${encodeURIComponent(file.name)}`, file);
      }
    });
    if (page.project) watch();
  }

  // Draw the texts that have changed; go on while one is being read.
  let watched = false;
  async function watch() {
    if (watched) return;
    watched = true;
    await page.every(async () => {
      const { texts: all, jobs, sides } = await page.renew(), texts = all.filter(one => !one.part_of);
      for (const [id, one] of cards) if (!texts.some(text => text.id === id)) { one.box.remove(); cards.delete(id); }
      for (const one of texts) {
        const now = JSON.stringify([one, sides]), old = cards.get(one.id);
        if (old && old.now === now) continue;
        const box = text_card(one, texts, page, watch);
        if (old) put_in_place(old.box, box);
        else files.prepend(box);
        if (old && one.state !== "reading") page.tell(t("text.state." + one.state, { name: one.name, n: one.read || 0 }));
        cards.set(one.id, { box, now });
      }
      draw_enough(texts);
      return texts.some(one => one.state === "reading") || jobs.some(job => job.kind === "read" && job.state === "running");
    });
    watched = false;
  }

  function draw_enough(texts) {
    const { pairs, held, enough: level } = page.project, open = texts.filter(one => one.state === "asks").length, reading = texts.some(one => one.state === "reading");
    enough.replaceChildren(texts.length && !reading && (pairs || open) ? card(t("text.enough"), open ? el("p.warn", t("text.open", open)) : null,
      el("p", t("pairs.learn", pairs), " ", level ? t("enough." + level) : ""), held.test ? el("p.soft", t("text.held", { n: held.test + held.dev, test: held.test })) : null,
      pairs ? el("div.row", el("a.button.strong", { href: page.url("train") }, t("text.go"))) : null, names(page)) : "");
  }
  if (page.project) watch();
}

// A card that is drawn anew keeps the focus on the control of the same name.
function put_in_place(old, box) {
  const name_of = one => one.getAttribute("aria-label") || one.textContent, focused = old.contains(document.activeElement) && document.activeElement;
  const place = focused && [...old.querySelectorAll(focused.tagName)].filter(one => name_of(one) === name_of(focused)).indexOf(focused);
  old.replaceWith(box);
  if (focused) ([...box.querySelectorAll(focused.tagName)].filter(one => name_of(one) === name_of(focused))[place] || box.querySelector("button")).focus();
}

// What a screen shows of one text: its state, its columns, its findings.
function text_card(one, texts, page, again) {
  const at = `${page.at}/texts/${one.id}`, send = (control, work) => page.act(control, async () => { await work(); again(); });
  const change = (control, body) => send(control, () => post(at, body));
  const box = el("section.card.text", el("div.row.apart", said("h3", one.other_name ? `${one.name} + ${one.other_name}` : one.name),
    el("span.soft", one.state === "ready" ? t("text.rows", { n: one.read, rows: one.rows }) : "")));
  if (one.state === "reading") box.append(el("p", t("text.reading")), el("progress", { "aria-label": t("text.reading") }));
  if (one.error) box.append(el("p.refused", told(one.error).message));
  if (one.state === "asks") box.append(el("p.warn", t("asks." + one.asks)), question(one, texts, change));
  if (one.preview && one.preview.length && one.columns) box.append(preview(one, page, change));
  if (one.findings && one.findings.length) box.append(el("h4", t("text.findings")), el("ul.findings", one.findings.map(found => el("li", finding(found, one, at, page, send)))));
  box.append(el("div.row", button("text.remove", event => send(event.target, () => remove(at)), { "aria-label": `${t("text.remove")}: ${one.name}` })));
  return box;
}

function question(one, texts, change) {
  const pick = (key, options) => {
    const select = el("select", options.map(([value, words]) => el("option", { value }, words)));
    return el("div.row", el("label", t(key), " ", select), button("asks.use", event => change(event.target, { [key.split(".")[1]]: select.value }), { strong: true }));
  };
  if (one.asks === "sheet") return pick("ask.sheet", one.sheets.map(name => [name, name]));
  if (one.asks === "kind") return pick("ask.kind", one.kinds.map(([a, b, n], k) => [String(k), `${a} – ${b} (${number(n)})`]));
  if (one.asks === "sides") return el("div.row", button("asks.swap", event => change(event.target, { swap: true }), { strong: true }));
  if (one.asks !== "other") return "";
  const others = texts.filter(other => other.id !== one.id && other.asks === "other");
  return others.length ? el("div.row", others.map(other => button("asks.with", event => change(event.target, { with: other.id }), {}, { name: other.name })))
    : el("p.soft", t("asks.other.add"));
}

// The first rows, with a choice of side above each column.
function preview(one, page, change) {
  const chosen = one.chosen ? [...one.chosen] : [null, null], names = page.project.sides.map(side_name);
  const sides = [0, 1].map(side => names[side] || t("text.side." + side));
  const heads = one.columns.map((column, n) => {
    const select = el("select", { "aria-label": t("text.column", { n: n + 1 }), onchange: () => {
      const side = +select.value, place = chosen.indexOf(column.column);
      if (side < 0) { chosen[place] = null; return; }
      if (place >= 0 && place !== side) chosen[place] = chosen[side];
      chosen[side] = column.column;
      if (chosen.every(Boolean)) change(select, { columns: chosen });
    } }, [["-1", t("text.unused")], ["0", sides[0]], ["1", sides[1]]].map(([value, words]) =>
      el("option", { value, selected: chosen.indexOf(column.column) === +value }, words)));
    return el("th", { scope: "col" }, select, column.heading ? said("small", column.heading) : "");
  });
  const row = one.preview.map(({ row, cells }) => [el("td.n", number(row)), ...cells.map((cell, n) =>
    said("td", cell, page.project.sides[chosen.indexOf(one.columns[n] && one.columns[n].column)]?.lang))]);
  const heading = el("input", { type: "checkbox", checked: Boolean(one.heading), onchange: () => change(heading, { header: heading.checked }) });
  return el("div", table(t("text.preview", { name: one.name }), [el("th.n", { scope: "col" }, t("text.row")), ...heads], row),
    /^(csv|tsv|xlsx?|ods|table)$/.test(one.form) ? el("p", el("label.check", heading, " ", t("text.heading"))) : "");
}

function finding(found, one, at, page, send) {
  const decided = (one.decided || {})[found.name], rows = el("div"), key = "finding." + found.name, words = t(key, { n: found.count, total: found.total });
  const level = found.level === "done" || decided ? "done" : found.level === "error" ? "bad" : "warn";
  const made = el(`div.finding.${level}`, el("p.tag", t(decided ? "decided." + decided : "level." + level)), el("p", words === key ? found.message : words));
  const opened = page.opened ||= new Set(), name = `${one.id} ${found.name}`;
  const draw = () => {
    show.setAttribute("aria-expanded", opened.has(name));
    rows.replaceChildren();
    if (opened.has(name)) more_rows(rows, found.name, 0, one, at, page, send);
  };
  const show = button("text.show", () => { if (!opened.delete(name)) opened.add(name); draw(); }, { "aria-expanded": "false" });
  draw();
  const all = ["leave_out", "mend", "keep"].filter(action => (found.actions || []).includes(action));
  made.append(el("div.row", found.rows && found.rows.length ? show : "", all.map(action => button("do." + action, event =>
    send(event.target, () => post(`${at}/decide`, { finding: found.name, do: action })), { "aria-pressed": String(decided === action) })),
    found.name === "swapped" ? button("asks.swap", event => send(event.target, () => post(at, { swap: true }))) : ""), rows);
  return made;
}

async function more_rows(box, name, from, one, at, page, send) {
  const found = await get(`${at}/rows?from=${from}&count=${ROWS}&finding=${name}`), [a, b] = page.project.sides;
  const line = row => {
    const cells = ["source", "target"].map((side, n) => said("td", row[side], (n ? b : a).lang));
    const act = el("td", el("div.row", button(row.out ? "text.back" : "do.leave_out", event => send(event.target, () => post(`${at}/rows`, { row: row.row, out: !row.out })), { "aria-label": `${t(row.out ? "text.back" : "do.leave_out")}: ${row.row}` }),
      button("text.change", () => {
        const fields = cells.map(cell => el("textarea", { rows: 2, dir: "auto", "aria-label": t("text.row") + " " + row.row }, cell.textContent));
        cells.forEach((cell, n) => cell.replaceChildren(fields[n]));
        act.replaceChildren(button("text.keep", event => send(event.target, () => post(`${at}/rows`, { row: row.row, source: fields[0].value, target: fields[1].value })), { strong: true }));
        fields[0].focus();
      }, { "aria-label": `${t("text.change")}: ${row.row}` })));
    return [el("td.n", number(row.row)), ...cells, act];
  };
  box.append(table(`${t("text.show")}: ${one.name}, ${name}`, [t("text.row"), ...page.project.sides.map((side, n) => side_name(side) || t("text.side." + n)), ""], found.rows.map(line)));
  const rest = found.total - from - found.rows.length;
  if (rest > 0 && found.rows.length) box.append(button("text.more", event => { event.target.remove(); more_rows(box, name, from + ROWS, one, at, page, send); }, {}, rest));
}

// The project's name and the names of its languages; none has to be typed.
function names(page) {
  const { project } = page, field = (key, value, given = {}) => [key, el("input", { type: "text", value: value || "", ...given, dir: "auto" })];
  const fields = [field("names.project", project.name), ...project.sides.flatMap((side, n) => [field(`names.side.${n}`, side_name(side)), field(`names.code.${n}`, side.lang, { maxlength: "30" })])];
  return el("details", el("summary", t("names.title")), el("form.fields", { onsubmit: event => {
    event.preventDefault();
    page.act(event.submitter, async () => {
      const [name, a, a_code, b, b_code] = fields.map(([, input]) => input.value.trim());
      await post(page.at, { name, sides: [{ lang: a_code || null, name: a }, { lang: b_code || null, name: b }] });
      page.go("text");
    });
  } }, fields.map(([key, input]) => el("label", t(key), input)), el("div.row", el("button", t("save")))));
}
