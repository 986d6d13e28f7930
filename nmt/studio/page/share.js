// Steps 4 and 5: to use it, on the server's own page; and to give it to others.
import { get, post, told } from "./api.js";
import { button, card, el, size_of, t } from "./words.js";

export async function use(main, page) {
  const { best, rounds, id } = page.project;
  main.append(el("h2", t("use.head")));
  if (!best) { main.append(el("p", t("look.none")), el("div.row", el("a.button.strong", { href: page.url("train") }, t("step.train")))); return; }
  const note = el("p.soft", { role: "status" }, t("use.loading")), round = rounds.find(one => one.n === best);
  const corrected = page.project.corrections ? el("p", t("use.corrections", page.project.corrections), " ", el("a", { href: page.url("train") }, t("use.learn"))) : "";
  main.append(el("p.soft", t("use.what")), corrected, note);
  for (let tries = 0; page.is_shown; tries++) {
    try {
      const { at } = await post("/studio/use", { project: id, round: best });
      const { samples } = await get(`${page.at}/rounds/${best}/progress?from=0`), first = samples.length ? samples[0].lines[0].source : "";
      if (!page.is_shown) return;
      const frame = el("iframe", { src: `${at}#${new URLSearchParams({ text: first })}`, title: t("use.frame") });
      frame.onload = () => grow(frame);
      note.textContent = t("use.round", { n: round.n });
      main.append(frame);
      page.tell(t("use.ready"));
      return;
    } catch (error) {
      if (error.code !== "loading" || tries > 60) { note.replaceWith(el("p.refused", { role: "alert" }, error.message)); return; }
      await new Promise(done => setTimeout(done, 1000));
    }
  }
}

// The frame is as high as its page, so that only one of them scrolls.
function grow(frame) {
  const inner = frame.contentDocument.documentElement, fit = () => { frame.style.blockSize = frame.contentDocument.body.scrollHeight + 4 + "px"; };
  inner.style.overflowY = "hidden";
  new ResizeObserver(fit).observe(frame.contentDocument.body);
  fit();
}

const KINDS = ["page", "model", "card", "tmx", "table", "folder"], PERMISSIONS = ["mine", "agreed", "public", "unsure"];

export function share(main, page) {
  const { project } = page, { best } = project, at = `${page.at}/rounds/${best}`, made = el("div"), asked = el("p.soft");
  main.append(el("h2", t("share.title")));
  if (!best) { main.append(el("p", t("look.none"))); return; }
  const field = (name, key) => el("label", t(key), el("input", { type: "text", name, value: project[name] || "", dir: "auto" }));
  const form = el("form", el("fieldset.card", el("legend", t("share.before")), el("p", t("share.warn")), el("div.choices.permission", PERMISSIONS.map(one => el("label.choice",
    el("input", { type: "radio", name: "permission", value: one, checked: project.permission === one }), el("b", t("permission." + one))))),
  el("div.fields", field("origin", "share.origin"), field("contact", "share.contact")), asked));
  form.onchange = async () => {
    const { permission = "", origin, contact } = Object.fromEntries(new FormData(form));
    await page.act(form, async () => { page.project = await post(page.at, { permission, origin, contact }); });
    draw();
  };
  form.onsubmit = event => event.preventDefault();
  const make = kind => button("share.make." + kind, event => page.act(event.target, async () => { await post(`${at}/share`, { kind }); page.tell(t("share.working"), true); watch(); }), { strong: kind === "page" });
  const kinds = KINDS.map(kind => card(t("share." + kind), el("p", t(`share.${kind}.what`)), el("div.row", make(kind))));
  const room = card(t("share.room"), el("p", t("share.room.what")), el("div"));
  main.append(form, el("div.grid", kinds, room), made);

  function draw() {
    const { permission, jobs, shared, room: is_open } = page.project, own = jobs.filter(one => KINDS.includes(one.kind)), busy = own.filter(one => one.state === "running");
    asked.textContent = permission ? "" : t("share.ask");
    for (const control of main.querySelectorAll(".grid button")) control.disabled = !permission;
    const links = is_open && is_open.open ? [...is_open.addresses.map(one => el("p", el("a", { href: one }, one))), el("p", t("share.room.key", { key: is_open.key }))] : [];
    room.lastChild.replaceChildren(...links, el("div.row", button(links.length ? "share.room.close" : "share.room.open", event => page.act(event.target, async () => {
      await post(`${at}/room`, { open: !links.length });
      await page.renew();
      draw();
    }), { disabled: !permission })));
    made.replaceChildren(busy.length || shared.length || own.some(one => one.state === "failed") ? card(t("share.made"),
      busy.map(one => el("p", { role: "status" }, t("share.busy", { what: t("share." + one.kind) }), " ", el("progress", { "aria-label": t("share." + one.kind) }))),
      own.filter(one => one.state === "failed").slice(-1).map(one => el("p.refused", one.error ? told(one.error).message : t("failed"))),
      el("ul.plain", shared.map(one => el("li", el("a", { href: `${page.at}/shared/${encodeURIComponent(one.name)}`, download: one.name }, one.name), " ", el("span.soft", size_of(one.bytes)))))) : "");
    return busy.length > 0;
  }
  let watched = false;
  async function watch() {
    if (watched) return;
    watched = true;
    await page.every(async () => { await page.renew(); return draw(); });
    watched = false;
  }
  if (draw()) watch();
}
