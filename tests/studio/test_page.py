"""The studio's page in a browser, with canned answers: every screen in its states, for everybody, and what it sends."""

import json
import re
from contextlib import ExitStack

import pytest

from nmt.report import read_run, report_page
from tests.pages import mistakes, page_in
from tests.report.test_report import write
from tests.studio.canned import ADDRESS, EVIL, PAGE, REPORT, SCREENS, project, serve

SIZES = {
    "wide": ({"viewport": {"width": 1280, "height": 900}}, "en"),
    "tablet": ({"viewport": {"width": 768, "height": 900}, "color_scheme": "dark"}, "es"),
    "phone": ({"viewport": {"width": 400, "height": 800}}, "ar"),
    "small": ({"viewport": {"width": 320, "height": 700}, "color_scheme": "dark", "reduced_motion": "reduce"}, "es"),
}
ENGLISH = json.loads((PAGE / "strings" / "en.json").read_text("utf-8"))
# A made-up language shows what a translation would break: words a third longer, the other direction, other plurals.
PSEUDO = {key: f"⟦{text}{' ذذ' * (len(text) // 9)}⟧" for key, text in ENGLISH.items()} | {"direction": "rtl"}


@pytest.fixture
def opened(browser):
    """A function that opens the page, by default wide and in English, and shows a screen."""
    pages = ExitStack()

    def make(options=SIZES["wide"][0], language="en", at=None):
        one = pages.enter_context(page_in(browser, **options))
        one.sent = []
        serve(one.context, PSEUDO, one.sent)
        one.goto(ADDRESS + "/")
        one.wait_for_selector("#main h2")
        if language != "en":
            one.select_option("#foot select", language)
            one.wait_for_selector(f"html[lang={language}]")
        if at:
            go(one, *at)
        return one

    with pages:
        yield make


def go(page, project, step):
    """Show a screen, and wait until it is drawn."""
    page.evaluate("document.querySelector('#main').replaceChildren()")
    to = f"#/{project}/{step}" if step else f"#/{project}"
    page.evaluate("to => { location.hash = '#/'; location.hash = to; }", to)
    page.wait_for_selector("#main h2")
    page.wait_for_timeout(250)


SMALL = """[...document.querySelectorAll('button, select, input:not([type=radio], [type=checkbox], [hidden])')].filter(
    one => one.checkVisibility() && one.offsetHeight < 2.6 * 16 - .5).length"""


@pytest.mark.parametrize("size", SIZES)
def test_everybody_can_use_every_screen(opened, size):
    page = opened(*SIZES[size])
    for name, step in SCREENS:
        go(page, name, step)
        page.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true; })")
        assert mistakes(page) == [], (name, step)
        assert not re.search(r"\{\w+", page.inner_text("#main"))
        assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0, (name, step)
        assert page.evaluate(SMALL) == 0 and page.locator("[role=status], [aria-live]").count() == 1
    assert page.errors == []


def test_texts_of_users_are_texts(opened):
    page = opened()
    for name, step in SCREENS:
        go(page, name, step)
        for button in page.get_by_role("button", name="Show the rows").all():
            button.click()
        page.wait_for_timeout(100)
        assert page.locator("img:not(.experts img)").count() == 0
    go(page, "text", "text")
    assert EVIL in page.inner_text("#main")
    assert page.errors == []


def test_the_focus_goes_to_the_heading_and_the_way_is_one_of_keys(opened):
    page, choosers = opened(), []
    page.on("filechooser", lambda one: choosers.append(one))
    for name in ("Make a new translator", "Choose files"):
        for _ in range(30):
            page.keyboard.press("Tab")
            if page.evaluate("document.activeElement.textContent") == name:
                break
        assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
        if name == "Make a new translator":
            page.keyboard.press("Enter")
            page.wait_for_selector("h2:focus")
            assert page.title() == "Which sentences should it learn from? – Translator studio"
    page.keyboard.press("Enter")
    page.wait_for_timeout(500)
    assert len(choosers) == 1


FOCUSABLE = """() => { const seen = new Set(), all = document.querySelectorAll(
    "a[href], button:enabled, input:enabled:not([hidden]), select, textarea, summary, [tabindex='0'], iframe");
    for (const one of all) if (one.checkVisibility()) seen.add(one.type === "radio" ? "radio " + one.name : one);
    return seen.size; }"""
FOCUSED = """() => { const one = document.activeElement; if (one === document.body) return null;
    window.ids ||= new Map(); const key = one.type === "radio" ? "radio " + one.name : one;
    if (!ids.has(key)) ids.set(key, ids.size); return [ids.get(key), getComputedStyle(one).outlineStyle]; }"""


def test_keys_reach_everything_and_the_focus_is_seen(opened):
    page = opened()
    for name, step in (("", ""), ("asks", "text"), ("text", "train"), ("training", "train"), ("done", "look")):
        page.goto("about:blank")
        page.goto(f"{ADDRESS}/#/{name}/{step}" if name else ADDRESS)
        page.wait_for_selector("#foot button")
        page.wait_for_load_state("networkidle")
        count, reached = page.evaluate(FOCUSABLE), {}
        for _ in range(2 * count):
            page.keyboard.press("Tab")
            if found := page.evaluate(FOCUSED):
                reached[found[0]] = found[1]
        assert len(reached) == count and set(reached.values()) == {"solid"}, (name, step)


def test_a_first_file_makes_a_project_of_its_name(opened):
    page = opened(at=("new", ""))
    page.set_input_files("input[type=file]", {"name": "my words.xlsx", "mimeType": "x/y", "buffer": b"PK"})
    page.wait_for_selector(".card.text")
    assert page.sent[0] == 'POST /studio/projects {"name":"my words"}'
    assert page.sent[1].startswith("POST /studio/projects/text/texts PK")
    assert page.evaluate("location.hash") == "#/text/text"


def test_columns_findings_and_rows_are_decided(opened):
    page = opened(at=("text", "text"))
    page.locator("thead select").nth(2).select_option("1")
    page.wait_for_timeout(200)
    assert json.loads(page.sent[-1].split(" ", 2)[2]) == {"columns": [1, 3]}
    page.locator("thead select").nth(0).select_option("1")
    page.wait_for_timeout(200)
    assert json.loads(page.sent[-1].split(" ", 2)[2])["columns"][1] == 1
    page.get_by_role("button", name="Leave out", exact=True).first.click()
    page.wait_for_timeout(200)
    assert page.sent[-1].endswith('/texts/1/decide {"finding":"empty","do":"leave_out"}')
    page.get_by_role("button", name="Show the rows").first.click()
    page.get_by_role("button", name="Show 20 more rows").click()
    page.get_by_role("button", name="Change: 13").first.click()
    page.keyboard.type("ᎠᎹ ")
    page.get_by_role("button", name="Save the change").click()
    page.wait_for_timeout(200)
    assert json.loads(page.sent[-1].split(" ", 2)[2]) == {"row": 13, "source": "ᎠᎹ " + EVIL, "target": ""}
    assert page.errors == []


def test_a_training_is_begun_and_ended(opened):
    page = opened(at=("text", "train"))
    assert page.locator("input[name=minutes]:checked").get_attribute("value") == "30"
    page.get_by_text("English → Cherokee").click()
    page.get_by_role("button", name="Start training").click()
    page.wait_for_timeout(300)
    assert page.sent[0].endswith('{"purpose":"suggestions","direction":[1,0]}')
    assert page.sent[1] == 'POST /studio/projects/text/rounds {"minutes":30,"on":null}'
    go(page, "training", "train")
    assert "8 minutes left" in page.inner_text("#main .big") and page.locator("svg.chart circle").count() == 12
    assert page.locator("dl.sample ins").first.inner_text() == "<img"  # the word that is new
    for name, path in (("10 minutes more", "longer"), ("Pause", "pause"), ("Stop and keep it", "stop")):
        page.get_by_role("button", name=name).click()
        page.wait_for_timeout(100)
        assert f"/rounds/1/{path} " in page.sent[-1]
    seen = page.locator("#main").get_by_text(re.compile("Last sign of life")).inner_text()
    changed = "old => ![...document.querySelectorAll('p')].some(one => one.textContent === old)"
    page.wait_for_function(changed, arg=seen, timeout=30_000)


def test_refusals_are_said_where_they_came(opened):
    page = opened(at=("text", "train"))
    refusal = {"error": {"code": "disk-full", "words": {}, "message": "x"}}
    page.route("**/rounds", lambda route: route.fulfill(status=507, body=json.dumps(refusal)))
    page.get_by_role("button", name="Start training").click()
    page.wait_for_selector("[role=alert].refused")
    assert "The disk is full" in page.inner_text(".refused") and page.is_enabled("text=Start training")
    page.context.set_offline(True)
    page.route("**/studio/**", lambda route: route.abort())
    go(page, "training", "train")
    assert "does not answer" in page.inner_text("#main")
    page.unroute_all(behavior="ignoreErrors")
    page.get_by_role("button", name="Try again").click()
    page.wait_for_selector("#main progress")


def test_a_person_judges(opened):
    page = opened(at=("done", "look"))
    assert "Of 100 sentences it had never seen, 31" in page.inner_text("#main")
    for name in ("Right", "Usable with changes", "Wrong"):
        page.get_by_role("button", name=name).click()
        page.wait_for_timeout(100)
    assert [json.loads(one.split(" ", 2)[2]) for one in page.sent] == [
        {"line": n, "verdict": verdict} for n, verdict in enumerate(("right", "usable", "wrong"))
    ]
    assert "3 are done" in page.inner_text("#main")
    page.get_by_role("button", name="One back").click()
    assert "2 are done" in page.inner_text("#main")
    page.emulate_media(media="print")
    assert page.is_hidden("text=Only a person can say") and page.is_visible("text=Who wrote the text")
    assert page.pdf(prefer_css_page_size=True).count(b"/Type /Page\n") == 1


def test_a_report_is_a_file_of_its_own(browser, tmp_path):
    runs = [read_run(write(tmp_path / name)) for name in "ab"]
    studio = {"project": project("done"), "round": project("done")["rounds"][1], "report": REPORT}
    with page_in(browser) as page:
        for given in (None, studio):
            (tmp_path / "report.html").write_text(report_page(runs, {"a": ["<svg/>"]}, EVIL, given), "utf-8")
            page.goto(f"file://{tmp_path}/report.html")
            page.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true; })")
            assert page.locator("svg.chart").count() == 9 and EVIL in page.inner_text("h1")
            page.select_option("select", "1")
            page.locator("svg.chart").first.scroll_into_view_if_needed()
            box = page.locator("svg.chart").first.bounding_box()
            before = page.locator("svg.chart circle").count()
            page.mouse.move(box["x"] + 0.3 * box["width"], box["y"] + 20)
            page.mouse.down()
            page.mouse.move(box["x"] + 0.6 * box["width"], box["y"] + 20)
            page.mouse.up()
            assert 0 < page.locator("svg.chart circle").count() < before
            assert mistakes(page) == [] and page.errors == []


def test_nothing_is_shared_unasked(opened):
    page = opened(at=("done", "use"))
    assert page.locator("iframe").get_attribute("src").startswith("/try/#text=")
    bare = json.dumps(project("done") | {"permission": ""})
    page.route("**/studio/projects/done", lambda route: route.fulfill(body=bare))
    go(page, "done", "share")
    assert page.get_by_role("button", name="Make the page").is_disabled()
    page.unroute_all(behavior="ignoreErrors")
    page.get_by_text("those who wrote or told it agree").click()
    page.get_by_role("button", name="Make the page").click()
    page.wait_for_timeout(200)
    assert json.loads(page.sent[-2].split(" ", 2)[2]) == {"permission": "agreed", "origin": EVIL, "contact": ""}
    assert page.sent[-1] == 'POST /studio/projects/done/rounds/2/share {"kind":"page","language":"en"}'


def test_missing_words_are_english_and_plurals_those_of_the_language(opened):
    page = opened()
    page.evaluate(
        """async () => { const { use_words, t } = await import("/page/words.js");
        const english = { "home.title": "Yours", "pairs.one": "{n} pair", "pairs.other": "{n} pairs" };
        use_words({ "pairs.few": "{n} páry", "pairs.other": "{n} párů" }, english, "cs");
        window.said = [t("pairs", 2), t("pairs", 5), t("pairs", 1), t("home.title"), t("no.such")];
        use_words({ direction: "rtl" }, english, "ar");
        said.push(t("home.title"), t("no.such")); }"""
    )
    # Among words from right to left English is an island: else its full stop would stand before it.
    assert page.evaluate("said") == ["2 páry", "5 párů", "1 párů", "Yours", "no.such", "\u2066Yours\u2069", "no.such"]


def test_the_steps_keep_the_focus_while_a_text_is_read(opened):
    """They were drawn anew each second, which took the focus from them."""
    page = opened(at=("asks", "text"))
    page.locator("#steps a").first.focus()
    page.wait_for_timeout(2500)
    assert page.evaluate("document.activeElement.closest('#steps') !== null")
