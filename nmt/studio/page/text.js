// Step 1: the files, the rows as they were understood, and what is wrong with them.
import { get, post, remove, told } from "./api.js";
import { side_name } from "./report.js";
import { finding } from "./rows.js";
import { button, card, el, number, said, t, table } from "./words.js";

const FORMATS = ".xlsx,.xls,.ods,.csv,.tsv,.txt,.docx,.odt,.md,.html,.tmx,.flextext,.lift,.db,.sfm,.usfm,.srt,.vtt";

const is_read_now = one => one.state === "reading";

export function text(main, page) {
  const files = el("div"), enough = el("div"), cards = new Map();
  const input = el("input", { type: "file", multiple: true, hidden: true, accept: FORMATS, onchange: () => {
    add([...input.files]);
    input.value = "";
  } });
  const area = el("textarea", { rows: 5, dir: "auto", "aria-label": t("text.paste.label") });
  const paste = el("form.paste", { hidden: true, onsubmit: event => { event.preventDefault(); pasted(area.value); } },
    area, el("div.row", el("button.strong", t("text.paste.use"))));
  const show_paste = button("text.paste", () => {
    paste.hidden = !paste.hidden;
    show_paste.setAttribute("aria-expanded", !paste.hidden);
    if (!paste.hidden) area.focus();
  }, { "aria-expanded": "false" });
  const drop = el("div.drop", el("p", el("b", t("text.drop"))),
    el("div.row", button("text.choose", () => input.click(), { strong: true }), show_paste),
    input, paste, el("p.soft", t("text.formats")));
  main.append(el("h2", t("text.title")), drop, files, enough);

  function pasted(words) {
    if (words.trim()) add([new File([words], "pasted.tsv")]);
    area.value = "";
    paste.hidden = true;
  }
  const listen = (name, work) => document.addEventListener(name, function heard(event) {
    if (!page.is_shown) document.removeEventListener(name, heard);
    else work(event);
  });
  listen("dragover", event => {
    if (![...event.dataTransfer.types].includes("Files")) return;
    event.preventDefault();
    drop.classList.add("lit");
  });
  listen("dragleave", event => event.relatedTarget || drop.classList.remove("lit"));
  listen("drop", event => {
    drop.classList.remove("lit");
    if (!event.dataTransfer.files.length) return;
    event.preventDefault();
    add([...event.dataTransfer.files]);
  });
  listen("paste", event => event.target.closest("input, textarea") || pasted(event.clipboardData.getData("text")));

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
  const watch = () => page.watch(() => {
    const { texts, jobs } = page.project;
    draw_texts(texts.filter(one => !one.part_of));
    return texts.some(is_read_now) || jobs.some(one => one.kind === "read" && one.state === "running");
  });

  function draw_texts(texts) {
    const halves = texts.filter(one => one.asks === "other");
    for (const [id, one] of cards) if (!texts.some(text => text.id === id)) {
      one.box.remove();
      cards.delete(id);
    }
    for (const one of texts) {
      const now = JSON.stringify([one, page.project.sides, halves.map(half => half.id)]), old = cards.get(one.id);
      if (old && old.now === now) continue;
      const box = text_card(one, halves, page, watch);
      if (old) put_in_place(old.box, box);
      else files.prepend(box);
      cards.set(one.id, { box, now });
      if (old && one.state !== "reading") page.tell(t("text.state." + one.state, { name: one.name, n: one.read || 0 }));
    }
    draw_enough(texts);
  }

  let enough_now = "";
  function draw_enough(texts) {
    const { pairs, held, enough: level, twice } = page.project, open = texts.filter(one => one.state === "asks").length;
    const is_read = !texts.some(is_read_now) && (pairs || open);
    const now = JSON.stringify([pairs, held, level, twice, open, is_read, page.project.name, page.project.sides]);
    if (now === enough_now) return; // what is drawn anew loses the focus
    enough_now = now;
    const aside = { n: held.test + held.dev, test: held.test };
    enough.replaceChildren(!is_read ? "" : card(t("text.enough"), open ? el("p.warn", t("text.open", open)) : "",
      el("p", t("pairs.learn", pairs), " ", level ? t("enough." + level) : ""),
      twice ? el("p", t("text.twice", twice)) : "", held.test ? el("p.soft", t("text.held", aside)) : "",
      pairs ? el("div.row", el("a.button.strong", { href: page.url("train") }, t("text.go"))) : "", names(page)));
  }
  if (page.project) watch();
}

// A card that is drawn anew keeps the focus on the control of the same name.
function put_in_place(old, box) {
  const focused = old.contains(document.activeElement) && document.activeElement;
  const name_of = one => one.getAttribute("aria-label") || one.textContent;
  const same = where => [...where.querySelectorAll(focused.tagName)].filter(one => name_of(one) === name_of(focused));
  const place = focused && same(old).indexOf(focused);
  old.replaceWith(box);
  if (focused) (same(box)[place] || box.querySelector("button")).focus();
}

// What a screen shows of one text: its state, its columns, its findings.
function text_card(one, halves, page, again) {
  const at = `${page.at}/texts/${one.id}`, name = one.other_name ? `${one.name} + ${one.other_name}` : one.name;
  const send = (control, work) => page.act(control, async () => {
    await work();
    again();
  });
  const change = (control, body) => send(control, () => post(at, body));
  const count = one.state === "ready" ? t("text.rows", { n: one.read, rows: one.rows }) : "";
  const box = el("section.card.text", el("div.row.apart", said("h3", name), el("span.soft", count)));
  const { columns, findings, preview } = one, is_ready = one.state === "ready";
  if (is_read_now(one)) box.append(el("p", t("text.reading")), el("progress", { "aria-label": t("text.reading") }));
  if (one.error) box.append(el("p.refused", told(one.error).message));
  if (one.state === "asks") box.append(el("p.warn", t("asks." + one.asks)), question(one, halves, change));
  if (preview && preview.length && (is_ready || columns.length)) box.append(first_rows(one, page, change));
  if (findings && findings.length) box.append(el("h4", t("text.findings")),
    el("ul.findings", findings.map(found => el("li", finding(found, one, at, page, send)))));
  box.append(el("div.row", button("text.remove", event => send(event.target, () => remove(at)),
    { "aria-label": `${t("text.remove")}: ${name}` })));
  return box;
}

function question(one, halves, change) {
  const pick = (name, options) => {
    const select = el("select", options.map(([value, words]) => el("option", { value }, words)));
    return el("div.row", el("label", t("ask." + name), " ", select),
      button("asks.use", event => change(event.target, { [name]: select.value }), { strong: true }));
  };
  if (one.asks === "sheet") return pick("sheet", one.sheets.map(name => [name, name]));
  if (one.asks === "kind")
    return pick("kind", one.kinds.map(([a, b, n], place) => [String(place), `${a} – ${b} (${number(n)})`]));
  if (one.asks !== "other") return "";
  const others = halves.filter(half => half.id !== one.id).map(({ id, name }) =>
    button("asks.with", event => change(event.target, { with: id }), {}, { name }));
  return others.length ? el("div.row", others) : el("p.soft", t("asks.other.add"));
}

// The first rows, with a choice of side above each column.
function first_rows(one, page, change) {
  const chosen = one.chosen ? [...one.chosen] : [null, null], { sides } = page.project;
  const names = sides.map((side, n) => [String(n), side_name(side) || t("text.side." + n)]);
  const options = [["-1", t("text.unused")], ...names];
  const side_of = column => chosen.indexOf(column.column);
  const head = (column, n) => {
    if (column.column === one.features) return el("th", { scope: "col" }, t("text.features"));
    const select = el("select", { "aria-label": t("text.column", { n: n + 1 }) }, options.map(([value, words]) =>
      el("option", { value, selected: side_of(column) === +value }, words)));
    select.onchange = () => {
      const side = +select.value, former = side_of(column);
      if (former >= 0) chosen[former] = side < 0 ? null : chosen[side];
      if (side >= 0) chosen[side] = column.column;
      if (chosen.every(Boolean)) change(select, { columns: chosen });
    };
    return el("th", { scope: "col" }, select, column.heading ? said("small", column.heading) : "");
  };
  const heads = one.columns.length ? one.columns.map(head) : names.map(([, name]) => el("th", { scope: "col" }, name));
  const rows = one.preview.map(({ row, cells }) => [el("td.n", number(row)), ...cells.map((cell, n) =>
    said("td", cell, sides[one.columns[n] ? side_of(one.columns[n]) : n]?.lang))]);
  const heading = el("input", { type: "checkbox", checked: Boolean(one.heading),
    onchange: () => change(heading, { header: heading.checked }) });
  heads.unshift(el("th.n", { scope: "col" }, t("text.row")));
  return el("div", table(t("text.preview", { name: one.name }), heads, rows),
    one.columns.length > 1 ? el("p", el("label.check", heading, " ", t("text.heading"))) : "");
}

// The project's name and the names of its languages; none has to be typed.
function names(page) {
  const { name, sides } = page.project, fields = [];
  const field = (key, value) => {
    fields.push(el("input", { type: "text", value: value || "", maxlength: "80", dir: "auto" }));
    return el("label", t("names." + key), fields.at(-1));
  };
  const labels = [field("project", name), ...sides.map((side, n) =>
    [field(`side.${n}`, side_name(side)), field(`code.${n}`, side.lang)])];
  const form = el("form.fields", labels, el("div.row", el("button", t("save"))));
  form.onsubmit = event => {
    event.preventDefault();
    const [name, a, a_code, b, b_code] = fields.map(one => one.value.trim());
    const side = (name, lang) => ({ name, lang: lang || null });
    page.act(event.submitter, async () => {
      await post(page.at, { name, sides: [side(a, a_code), side(b, b_code)] });
      page.go("text");
    });
  };
  return el("details", el("summary", t("names.title")), form);
}
