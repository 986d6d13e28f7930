// The studio: which screen is shown, of which project, and what changes there while it is shown.
import { get, post } from "./api.js";
import { home } from "./home.js";
import { look } from "./look.js";
import { in_use, share, use } from "./share.js";
import { text } from "./text.js";
import { train } from "./train.js";
import { button, el, name_of, t, use_words } from "./words.js";

const $ = id => document.getElementById(id);
const SCREENS = { text, train, look, use, share }, STEPS = Object.keys(SCREENS);
const NEWS_SECONDS = 10; // between two messages to a reader of the screen
let shown = 0, news_at = 0, news_wait = 0, moved = false;

// One message at a time, the latest; never more than one in ten seconds but those that answer a person.
function tell(message, now) {
  clearTimeout(news_wait);
  const wait = now ? 0 : Math.max(0, news_at + 1000 * NEWS_SECONDS - Date.now());
  news_wait = setTimeout(() => { news_at = Date.now(); $("news").textContent = message; }, wait);
}

// What a screen gets: its project (null for a new one), and how to go on, to ask again, and to repeat something.
class Page {
  constructor(state, project, step) {
    Object.assign(this, { state, project, step, number: ++shown, at: project && `/studio/projects/${project.id}` });
  }
  tell(message, now) { tell(message, now); }
  get is_shown() { return this.number === shown; }
  url(step, id = this.project && this.project.id) { return id ? `#/${id}/${step}` : "#/"; }
  go(step, id) {
    if (location.hash === this.url(step, id)) show();
    else location.hash = this.url(step, id);
  }
  async renew() {
    this.project = await get(this.at);
    if (this.is_shown) draw_steps(this);
    return this.project;
  }
  // Repeat `work` each second while the page can be seen, each 30 s otherwise, until it is false or the screen goes.
  async every(work) {
    for (let more = true; more !== false && this.is_shown;) {
      try {
        more = await work();
        $("gone").hidden = true;
      } catch (error) {
        lost(error);
        if (!error.gone) return;
      }
      if (more === false) return;
      await new Promise(done => {
        const end = () => {
          clearTimeout(timer);
          document.removeEventListener("visibilitychange", end);
          done();
        };
        const timer = setTimeout(end, document.hidden ? 30_000 : 1000);
        if (document.hidden) document.addEventListener("visibilitychange", end);
      });
    }
  }
  // Ask for the project again, and draw, each second until `draw` says that nothing is done any more; once at a time.
  async watch(draw) {
    if (this.watched) return;
    this.watched = true;
    await this.every(async () => {
      await this.renew();
      return draw();
    });
    this.watched = false;
  }
  // Do what a button asks, once at a time, and say beside it what was refused.
  async act(control, work) {
    const beside = control.closest(".row") || control, old = beside.nextElementSibling;
    if (old && old.matches(".refused")) old.remove();
    control.disabled = true;
    try {
      return await work();
    } catch (error) {
      beside.after(el("p.refused", { role: "alert" }, error.message));
    } finally {
      control.disabled = false;
    }
  }
}

function lost(error) {
  $("gone").textContent = error.message;
  $("gone").hidden = false;
}

function draw_steps({ project, step, url }) {
  $("nav").hidden = step === undefined;
  $("nav").setAttribute("aria-label", t("steps"));
  const is_open = name => project && (name === "text"
    || { train: project.pairs, use: in_use(project) }[name] || project.best && name !== "train");
  const made = el("ol", STEPS.map((name, n) => {
    const words = `${n + 1} ${t("step." + name)}`, current = name === step ? "step" : null;
    return el("li", is_open(name) ? el("a", { href: url(name, project.id), "aria-current": current }, words)
      : el("span", { "aria-current": current, "aria-disabled": current ? null : "true" }, words));
  }));
  if (made.innerHTML !== $("steps").innerHTML) $("steps").replaceChildren(...made.childNodes); // else the focus is lost
}

// The first step that is not done: where a project opens.
const next_of = project => project.best ? "look" : project.rounds.length ? "train" : "text";

async function show() {
  const [, id, step] = location.hash.split("/").map(decodeURIComponent), main = $("main");
  const mine = ++shown;
  try {
    const state = await get("/studio/state"), project = id && id !== "new" ? await get(`/studio/projects/${id}`) : null;
    if (mine !== shown) return;
    const name = id ? step in SCREENS ? step : project ? next_of(project) : "text" : undefined;
    const page = new Page(state, project, name);
    draw_steps(page);
    main.replaceChildren();
    $("gone").hidden = true;
    (name ? SCREENS[name] : home)(main, page);
    draw_foot(state);
  } catch (error) {
    if (mine !== shown) return;
    main.replaceChildren(el("h2", t("failed")), el("p.refused", { role: "alert" }, error.message),
      el("div.row", button("again", show, { strong: true }), el("a.button", { href: "#/" }, t("home.back"))));
  }
  const head = main.querySelector("h2");
  head.tabIndex = -1;
  document.title = `${head.textContent} – ${t("app")}`;
  if (moved) {
    head.focus();
    scrollTo(0, 0);
  }
  moved = true;
}

// ------------------------------------------------------------ languages of the page, and the end

// The language that was chosen, which the browser keeps if it may.
function kept_language(code) {
  try {
    if (code) localStorage.setItem("language", code);
    return localStorage.getItem("language");
  } catch { // it may be switched off
    return code;
  }
}

const strings_of = code => get(`/page/strings/${code}.json`).catch(() => ({}));
async function choose_language(codes, wanted) {
  const code = [wanted, ...navigator.languages.map(one => one.split("-")[0]), "en"].find(one => codes.includes(one));
  const english = await strings_of("en");
  use_words(code === "en" ? english : await strings_of(code), english, code);
  $("app").textContent = t("app");
}

function draw_foot(state) {
  const now = document.documentElement.lang;
  const select = el("select", state.languages.map(code =>
    el("option", { value: code, lang: code, selected: code === now }, name_of(code, "", code))));
  select.onchange = async () => {
    kept_language(select.value);
    await choose_language(state.languages, select.value);
    moved = false;
    show();
  };
  const quit = button("foot.quit", async () => {
    await post("/studio/quit").catch(() => null);
    shown++;
    $("main").replaceChildren(el("h2", t("quit.title")), el("p", t("quit.what")));
    $("foot").replaceChildren();
  });
  $("foot").replaceChildren(el("p", t("foot", { folder: state.folder })),
    el("div.row", el("label", t("foot.language"), " ", select), quit));
}

addEventListener("hashchange", show);
(async () => {
  try {
    await choose_language((await get("/studio/state")).languages, kept_language());
  } catch (error) {
    lost(error);
    return;
  }
  show();
})();
