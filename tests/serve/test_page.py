"""The page in a browser: typing, words, completion, files, errors, and whether everybody can use it."""

import re

import pytest

from tests.pages import mistakes, page_in
from tests.serve.servers import model_folder, running

playwright = pytest.importorskip("playwright.sync_api", reason="needs the extra [browser]")

SIZES = {
    "light": {"viewport": {"width": 1000, "height": 720}},
    "dark": {"viewport": {"width": 1000, "height": 720}, "color_scheme": "dark"},
    "phone": {"viewport": {"width": 390, "height": 800}, "is_mobile": True, "has_touch": True},
    "small": {"viewport": {"width": 320, "height": 700}, "color_scheme": "dark"},
}
TABS = ("others", "typing", "look", "terms", "files")
ARABIC = "القطار يغادر يوم الاثنين. القبعة تكلف ستمائة يورو."


@pytest.fixture
def page(browser, request):
    with page_in(browser, ("400", "404"), **getattr(request, "param", SIZES["light"])) as one:
        yield one


@pytest.fixture(scope="module")
def both_ways(tmp_path_factory):
    """A server that translates there and back, and takes no text of more than 300 characters."""
    folder = tmp_path_factory.mktemp("both")
    models = model_folder(folder / "a"), model_folder(folder / "b", "de", "en", "back", seed=5)
    with running(*models, "--max-characters", 300, "--no-split") as one:
        yield one


def go(page, server):
    page.goto(server.url + "/")
    page.wait_for_selector("#source option", state="attached")


def write(page, server, text):
    go(page, server)
    page.fill("#text", text)
    page.wait_for_selector("#result .w")


def wait(page, where, pattern, milliseconds=10_000):
    playwright.expect(page.locator(where)).to_have_text(re.compile(pattern), timeout=milliseconds)


def words(text):
    return " ".join(text.split())


def give(page, *files):
    found = [{"name": name, "mimeType": "text/plain", "buffer": content} for name, content in files]
    page.set_input_files("#file", found)


def saved(page, link):
    with page.expect_download() as download:
        page.click(link)
    with open(download.value.path(), encoding="utf-8") as file:
        return download.value.suggested_filename, file.read()


def test_typing_and_words(page, server, lines, expected):
    write(page, server, lines[0])
    assert words(page.inner_text("#result")) == words(expected[lines[0]])
    wait(page, "#status", r"^Translated in \d+ ms, \d+% sure\.$")
    page.hover("#result .w >> nth=0")
    assert "% sure" in page.inner_text("#shown") and page.locator("#shown .lit").count() >= 1
    page.focus("#result")
    page.keyboard.press("ArrowRight")
    assert page.locator("#result .lit").count() == 1
    assert page.errors == [] and page.hosts == {server.url.split("/")[2]}


def test_other_translations_of_a_sentence_stay_with_their_words(page, server, lines, expected):
    write(page, server, f"{lines[0]}\n{lines[1]}")
    page.click("#result .s >> nth=1 >> .w >> nth=0")
    page.wait_for_selector("#alternatives li:nth-child(2) button")
    assert page.inner_text("#otherssource") == words(lines[1])
    assert page.get_attribute("#alternatives li:nth-child(1) button", "aria-pressed") == "true"
    chosen = page.inner_text("#alternatives li:nth-child(2) button")
    page.click("#alternatives li:nth-child(2) button")
    assert words(page.locator("#result .s >> nth=1").inner_text()) == words(chosen) != words(expected[lines[1]])
    page.hover("#result .s >> nth=1 >> .w >> nth=0")
    assert "% sure" in page.inner_text("#shown")
    # It stays while another sentence is written on, and can be taken back.
    page.fill("#text", f"{lines[2]}\n{lines[1]}")
    playwright.expect(page.locator("#result .s >> nth=0")).to_have_text(words(expected[lines[2]]))
    assert words(page.inner_text("#result .s >> nth=1")) == words(chosen)
    assert page.get_attribute("#alternatives li:nth-child(2) button", "aria-pressed") == "true"
    page.click("#alternatives li:nth-child(1) button")
    assert words(page.inner_text("#result .s >> nth=1")) == words(expected[lines[1]])
    assert page.errors == []


def test_a_former_translation_is_not_taken_for_the_present_one(page, server, lines):
    write(page, server, lines[0])
    assert page.is_enabled("#copy") and page.is_enabled("#clear")
    held = []
    page.route("**/api/sentences", lambda route: held.append(route))
    page.fill("#text", lines[1])
    wait(page, "#status", "^Translating …$")
    assert page.is_disabled("#copy") and page.get_attribute("#result", "aria-busy") == "true"
    assert page.locator("#result.stale").count() == 1
    while not held:
        page.wait_for_timeout(20)
    held.pop().continue_()
    wait(page, "#status", "^Translated in")
    assert page.is_enabled("#copy") and page.locator("#result.stale").count() == 0
    page.unroute_all(behavior="ignoreErrors")


def test_copy_and_clear_are_off_while_there_is_nothing(page, server, lines):
    go(page, server)
    assert page.is_disabled("#copy") and page.is_disabled("#clear") and page.is_visible("#hint")
    page.fill("#text", lines[0])
    page.wait_for_selector("#result .w")
    assert page.is_hidden("#hint")
    page.click("#clear")
    assert page.input_value("#text") == "" and page.is_disabled("#copy")
    assert page.evaluate("document.activeElement.id") == "text"
    page.wait_for_selector("#result .w", state="detached")


def test_right_to_left(page, server, lines):
    write(page, server, ARABIC)
    assert page.evaluate("getComputedStyle(document.getElementById('text')).direction") == "rtl"
    # The first letters of a paragraph of the result stand where its script begins, whatever the paragraph before is.
    found = page.evaluate(
        """text => { const box = document.getElementById("result"); box.replaceChildren(text[0] + "\\n" + text[1]);
            const side = at => { const range = document.createRange(); range.setStart(box.firstChild, at);
                range.setEnd(box.firstChild, at + 1); return range.getBoundingClientRect().left; };
            const middle = box.getBoundingClientRect().left + box.clientWidth / 2;
            return [side(0) < middle, side(text[0].length + 1) < middle]; }""",
        ["abc", "القطار"],
    )
    assert found == [True, False]
    for name in ("typed", "glossary", "sentence", "otherssource"):
        assert page.get_attribute(f"#{name}", "dir") == "auto"


def test_long_texts_scroll_in_their_box(page, server, lines):
    write(page, server, "\n".join(lines))
    assert page.evaluate("document.getElementById('result').clientHeight < innerHeight")
    last = page.locator("#result .w").last
    last.scroll_into_view_if_needed()
    last.hover()
    assert "% sure" in page.inner_text("#shown")
    assert 0 <= page.locator("#shown").bounding_box()["y"] < page.viewport_size["height"]
    page.click("#tab-look")
    assert page.locator("#attention table").count() == 5 and "5 of 60 sentences" in page.inner_text("#looknote")
    page.click("#moretables")
    assert page.locator("#attention table").count() == 25
    assert page.inner_text("#attention caption >> nth=0") == words(lines[0])


def test_long_words_do_not_widen_the_tables(page, server):
    write(page, server, "kara " + "miti" * 50)
    page.click("#tab-look")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    heights = page.evaluate("[...document.querySelectorAll('#attention th')].map(e => e.clientHeight)")
    assert max(heights, default=0) < 250


def test_the_glossary_speaks_beside_its_field(page, server):
    write(page, server, "kara kara miti")
    before = page.inner_text("#result")
    asked = []
    page.on("request", lambda request: asked.append(request.url))
    page.click("#tab-terms")
    page.fill("#glossary", "kara")
    wait(page, "#termsnote", "Not finished yet: kara")
    page.wait_for_timeout(900)
    assert asked == [] and page.inner_text("#result") == before
    page.fill("#glossary", "kara\tlosu\nmiti")
    playwright.expect(page.locator("#result")).to_contain_text("losu")
    wait(page, "#termsnote", "1 term in use.Not finished yet: miti")
    # A word that the subwords cannot write is a term that cannot be followed.
    page.route("**/api/sentences", lambda route: route.fulfill(json=not_followed(route.fetch().json())))
    page.fill("#glossary", "kara = losu\nmiti = zorro")
    wait(page, "#termsnote", r"Not followed.*miti = zorro \(in 1 sentence\)")
    wait(page, "#status", "1 glossary term was not followed")
    assert page.inner_text("#missed").startswith("1")
    page.unroute_all(behavior="ignoreErrors")
    page.fill("#glossary", "\n".join(f"a{n} = b" for n in range(1100)))
    wait(page, "#termsnote", "at most 1,000 pairs")
    assert page.errors == []


def not_followed(answer):
    for part in answer["parts"]:
        part["not_followed"] = [["miti", "zorro"]]
    return answer


def test_messages_are_for_people(page, both_ways):
    write(page, both_ways, "kara")
    page.fill("#text", "kara " * 100)
    wait(page, "#status", "This text is too long: 500 characters, and at most 300 are possible.")
    assert page.locator("#count.bad").count() == 1
    said = page.evaluate(
        """() => [[400, "q: must have at most 50,000 characters, got 60,000; send less at a time"],
            [403, "api_key: must be a key of this server, got none"],
            [503, "server: has more to translate than may wait; try again later"],
            [400, "glossary: must have at most 1,000 pairs, got 1,100"]].map(one => told(...one))"""
    )
    assert said == [
        "This text is too long: 60,000 characters, and at most 50,000 are possible.",
        "This server wants a key; enter yours above.",
        "The server is busy; trying again.",
        "Must have at most 1,000 pairs, got 1,100.",
    ]


def test_languages_can_be_swapped(page, both_ways, server):
    write(page, both_ways, "kara miti")
    found = words(page.inner_text("#result"))
    page.click("#swap")
    wait(page, "#modelname", "^back$")
    assert page.input_value("#source") == "de" and words(page.input_value("#text")) == found
    go(page, server)  # en and fr into de: there is no way back
    assert page.is_hidden("#swap")
    page.select_option("#source", "fr")
    wait(page, "#modelname", "^other$")


def test_completion_goes_on_from_what_is_typed(page, server, lines, expected):
    write(page, server, lines[0])
    page.click("#tab-typing")
    wait(page, "#completion", r"\S")
    page.fill("#typed", "kara")
    wait(page, "#completion", "^kara")
    page.focus("#typed")
    page.keyboard.press("Control+Enter")
    assert page.input_value("#typed") == page.text_content("#completion")


def test_several_files_each_with_its_own_line(page, server, lines, expected):
    write(page, server, lines[0])
    page.click("#tab-files")
    content = "\n".join(lines[:3]).encode()
    give(page, ("Bericht für Müller.txt", content), ("a.exe", b"x"), ("c.txt", content))
    page.wait_for_selector("#done li:nth-child(3) a")
    translated = "\n".join(expected[line] for line in lines[:3])
    assert saved(page, "#done li:nth-child(1) a") == ("Bericht für Müller_de.txt", translated)
    assert "not supported" in page.inner_text("#done li:nth-child(2) .bad")
    # The list outlives a reload; links that no longer hold say so.
    page.reload()
    page.wait_for_selector("#done li:nth-child(2) a")
    assert saved(page, "#done li:nth-child(2) a")[0] == "c_de.txt"
    page.route("**/download_file/*", lambda route: route.fulfill(status=404))
    page.click("#done li:nth-child(1) a")
    wait(page, "#done li:nth-child(1) .note", "No longer on the server")
    assert page.locator("#done li:nth-child(1) a").count() == 0
    page.click("#done li:nth-child(1) button")
    assert page.locator("#done li").count() == 1 and page.errors == []


def test_links_hold_the_text(page, server, lines):
    write(page, server, lines[0])
    page.click("#link")
    address = page.evaluate("location.href")
    page.goto("about:blank")
    page.goto(address)
    page.wait_for_selector("#result .w")
    assert page.input_value("#text") == lines[0]


def test_files_may_be_dropped(page, server, lines, expected):
    write(page, server, lines[0])
    dropped = """text => { const given = new DataTransfer(); given.items.add(new File([text], "b.txt"));
        document.dispatchEvent(new DragEvent("drop", { dataTransfer: given, bubbles: true, cancelable: true })); }"""
    page.click("#tab-terms")
    page.fill("#glossary", "kara = losu")
    page.evaluate(dropped, "kara kara miti")
    page.wait_for_selector("#done a")
    name, text = saved(page, "#done a")
    assert "losu" in text and name == "b_de.txt"


def test_tabs_by_keyboard(page, server):
    page.goto(server.url + "/")
    page.focus("#tab-others")
    page.keyboard.press("ArrowRight")
    assert page.is_visible("#typing") and page.is_hidden("#others")
    page.keyboard.press("End")
    assert page.evaluate("document.activeElement.id") == "tab-files" and page.is_visible("#files")


def test_without_scripts_it_says_what_works(browser, server, lines, expected):
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(server.url + "/")
    assert page.is_visible("noscript form") and page.is_hidden("#app")
    page.fill("noscript textarea", lines[0])
    page.locator("noscript form input[name=source]").first.fill("en")
    page.locator("noscript form input[name=target]").first.fill("de")
    page.locator("noscript form button").first.click()
    assert expected[lines[0]] in page.content()
    context.close()


@pytest.mark.parametrize("page", [SIZES["phone"] | {"color_scheme": "dark"}], ids=["phone"], indirect=True)
def test_large_letters_fit_a_phone(page, server, lines):
    write(page, server, "\n".join(lines[:2]))
    page.evaluate("document.documentElement.style.fontSize = '200%'")
    for name in TABS:
        page.click(f"#tab-{name}")
        assert page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")


def test_markup_in_texts_is_text(page, server):
    write(page, server, "<img src=x onerror=alert(1)> kara")
    assert page.locator("#result img").count() == 0 and page.errors == []


def test_the_server_goes_and_comes_back(page, lines, tmp_path):
    folder = model_folder(tmp_path / "model")
    with running(folder) as server:
        write(page, server, lines[0])
        port = server.port
        server.end()
        page.fill("#text", lines[1])
        page.wait_for_selector("#status.bad")
        assert "cannot be reached" in page.inner_text("#status")
    with running(folder, "--port", port):
        wait(page, "#status", "^Translated", 40_000)


@pytest.mark.parametrize("page", SIZES.values(), ids=SIZES, indirect=True)
def test_everybody_can_use_it(page, server, lines):
    write(page, server, "\n".join(lines[:2]))
    page.click("#result .w >> nth=0")
    page.wait_for_selector("#alternatives li:nth-child(2) button")
    for name in TABS:
        page.click(f"#tab-{name}")
        page.wait_for_timeout(200)  # colours that change slowly are of neither state meanwhile
        assert mistakes(page) == []
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), name
    # Both texts begin at one height, and controls of a row are of one height.
    if page.viewport_size["width"] > 700:
        tops = page.evaluate("['text', 'result'].map(id => document.getElementById(id).getBoundingClientRect().top)")
        assert tops[0] == tops[1]


@pytest.mark.parametrize("page", SIZES.values(), ids=SIZES, indirect=True)
def test_corrections_are_learnt_and_taken_back(page, learns, lines):
    write(page, learns, lines[0])
    page.click("#tab-learn")
    wait(page, "#learnstate", "^The model is learning. 0 pairs")
    page.fill("#text", lines[2])
    wait(page, "#learnsource", re.escape(words(lines[2])))
    former = page.inner_text("#result")
    page.fill("#correction", lines[3])
    page.fill("#project", f"for {page.viewport_size['width']} {page.evaluate('Math.random()')}"[:50])
    project = page.input_value("#project")
    page.keyboard.press("Tab")
    page.fill("#who", "Ada <b>")
    page.fill("#correction", lines[3])
    page.click("#confirm")
    wait(page, "#learnt", r"Learnt in \d+ ms")
    wait(page, "#memory li .note + p", re.escape(words(lines[3])))
    assert page.input_value("#model") == f"small@{project}"
    wait(page, "#learnstate", "1 pair learnt of 1")
    wait(page, "#status", "^Translated")
    page.wait_for_timeout(500)  # until the colours of a former translation are gone
    assert mistakes(page) == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert page.input_value("#correction") == lines[3]  # not the model's words: it may be confirmed again
    page.evaluate("list_matches(corrected)")
    wait(page, "#matches li button", "^100%")
    page.click("#memory button")
    wait(page, "#learnt", "^Taken back")
    wait(page, "#result", re.escape(words(former)))
    playwright.expect(page.locator("#matches li")).to_have_count(0)
    wait(page, "#learnstate", "0 pairs learnt of 0")
    assert page.locator("#memory li").count() == 0 and page.errors == []


def test_matches_and_what_cannot_be_learnt(page, learns, lines):
    write(page, learns, lines[4])
    page.click("#tab-learn")
    wait(page, "#learnsource", re.escape(words(lines[4])))
    page.fill("#correction", "")
    page.keyboard.press("Control+Enter")
    wait(page, "#learnt", "^Write a translation first")
    page.fill("#correction", lines[5])
    page.keyboard.press("Control+Enter")
    wait(page, "#learnt", r"Learnt in \d+ ms")
    page.fill("#text", lines[4] + " x")
    wait(page, "#matches button", r"^\d+%: take it")
    page.click("#matches button")
    assert page.input_value("#correction") == lines[5]


def test_a_server_that_learns_nothing_has_no_tab_for_it(page, server, lines):
    write(page, server, lines[0])
    assert page.locator("#tab-learn").is_hidden()


def test_a_third_language_is_named(page, tmp_path):
    models = model_folder(tmp_path / "a", "de", "en"), model_folder(tmp_path / "b", "en", "fr", "last", seed=5)
    with running(*models, "--no-split") as one:
        go(page, one)
        page.select_option("#target", "fr")
        page.fill("#text", "kara losu miti")
        wait(page, "#status", r"^Translated through English in \d+ ms, \d+% sure\.$")
