// Steps 4 and 5: to use it, on the server's own page; and to give it to others.
import { get, post, told } from "./api.js";
import { nothing_yet } from "./look.js";
import { choices } from "./train.js";
import { button, card, el, size_of, t, words_by_english } from "./words.js";

const KINDS = ["page", "model", "card", "tmx", "table", "folder"], PERMISSIONS = ["mine", "agreed", "public", "unsure"];

// The round to use: the best that is tested, or what one has learnt so far.
export const in_use = ({ best, rounds }) => best || rounds.findLast(one => one.model)?.n;

export async function use(main, page) {
  const { best, corrections, id } = page.project, n = in_use(page.project), note = el("p.soft", t("use.loading"));
  main.append(el("h2", t("use.head")));
  if (!n) {
    main.append(...nothing_yet(page));
    return;
  }
  main.append(el("p.soft", t(best ? "use.what" : "use.early")), note);
  if (corrections) note.before(el("p", t("use.corrections", corrections), " ",
    el("a", { href: page.url("train") }, t("use.learn"))));
  try {
    const { at } = await post("/studio/use", { project: id, round: n });
    const { samples } = await get(`${page.at}/rounds/${n}/progress?from=0`);
    if (!page.is_shown) return;
    const example = new URLSearchParams({ text: samples.length ? samples[0].lines[0].source : "" });
    const onload = () => [translated, grow].forEach(work => work(frame));
    const frame = el("iframe", { src: `${at}#${example}`, title: t("use.frame"), onload });
    note.textContent = t("use.round", n);
    main.append(frame);
    page.tell(t("use.ready"));
  } catch (error) {
    note.replaceWith(el("p.refused", { role: "alert" }, error.message));
  }
}

// The page in the frame has only English, which is told in the words of this page; texts of users, which have their own
// direction, stay.
function translated({ contentDocument: { body } }) {
  const into = words_by_english("try."), theirs = "[dir=auto]:not(textarea), bdi, #result, option, script";
  const change = node => {
    const one = node.nodeType === Node.TEXT_NODE ? node.parentElement : node;
    if (!one || one.closest(theirs)) return;
    if (one !== node && into(node.data) !== node.data) node.data = into(node.data);
    for (const name of one === node && one.attributes ? ["aria-label", "title", "placeholder"] : []) {
      const own = one.getAttribute(name);
      if (own && into(own) !== own) one.setAttribute(name, into(own));
    }
    node.childNodes.forEach(change);
  };
  body.parentElement.lang = document.documentElement.lang;
  change(body);
  const seen = { childList: true, subtree: true, characterData: true, attributeFilter: ["aria-label", "title"] };
  new MutationObserver(all => all.forEach(({ addedNodes, target, type }) =>
    type === "childList" ? addedNodes.forEach(change) : change(target))).observe(body, seen);
}

// The frame is as high as its page, so that only one of them scrolls.
function grow(frame) {
  const { body, documentElement } = frame.contentDocument;
  const fit = () => { frame.style.blockSize = body.scrollHeight + 4 + "px"; };
  documentElement.style.overflowY = "hidden";
  new ResizeObserver(fit).observe(body);
  fit();
}

export function share(main, page) {
  const { project } = page, at = `${page.at}/rounds/${project.best}`, made = el("div"), asked = el("p.soft");
  main.append(el("h2", t("share.title")));
  if (!project.best) {
    main.append(...nothing_yet(page));
    return;
  }
  const field = name => el("label", t("share." + name),
    el("input", { type: "text", name, value: project[name], dir: "auto" }));
  const answers = PERMISSIONS.map(one => [one, t("permission." + one)]);
  const form = el("form", choices(t("share.before"), "permission", answers, project.permission,
    el("p", t("share.warn")), el("div.fields", field("origin"), field("contact")), asked));
  form.onsubmit = event => event.preventDefault();
  form.onchange = async () => {
    const { permission = "", origin, contact } = Object.fromEntries(new FormData(form));
    await page.act(form, async () => { page.project = await post(page.at, { permission, origin, contact }); });
    draw();
  };
  const make = kind => button("share.make." + kind, event => page.act(event.target, async () => {
    await post(`${at}/share`, { kind, language: document.documentElement.lang });
    page.tell(t("share.working"), true);
    page.watch(draw);
  }), { strong: kind === "page" });
  const room = el("div"), kinds = KINDS.map(kind =>
    card(t("share." + kind), el("p", t(`share.${kind}.what`)), el("div.row", make(kind))));
  main.append(form, el("div.grid", kinds, card(t("share.room"), el("p", t("share.room.what")), room)), made);

  function draw() {
    const { permission, jobs, shared } = page.project, own = jobs.filter(one => KINDS.includes(one.kind));
    const in_state = state => own.filter(one => one.state === state);
    const busy = in_state("running"), failed = in_state("failed").slice(-1);
    asked.textContent = permission ? "" : t("share.ask");
    draw_room();
    for (const control of main.querySelectorAll(".grid button")) control.disabled = !permission;
    made.replaceChildren(!busy.length && !shared.length && !failed.length ? "" : card(t("share.made"),
      busy.map(({ kind }) => el("p", t("share.busy", { what: t("share." + kind) }), " ",
        el("progress", { "aria-label": t("share." + kind) }))),
      failed.map(({ error }) => el("p.refused", error ? told(error).message : t("failed"))),
      el("ul.plain", shared.map(({ name, bytes }) => el("li",
        el("a", { href: `${page.at}/shared/${encodeURIComponent(name)}`, download: name }, name), " ",
        el("span.soft", size_of(bytes)))))));
    return busy.length > 0;
  }

  function draw_room() {
    const now = page.project.room, open = Boolean(now && now.open);
    const links = open ? now.addresses.map(one => el("p", el("a", { href: one }, one))) : [];
    if (open && now.key) links.push(el("p", t("share.room.key", { key: now.key })));
    room.replaceChildren(...links, el("div.row", button(open ? "share.room.close" : "share.room.open", event =>
      page.act(event.target, async () => {
        await post(`${at}/room`, { open: !open });
        await page.renew();
        draw();
      }))));
  }
  if (draw()) page.watch(draw);
}
