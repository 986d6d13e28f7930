"""The page in a browser: typing, words, completion, files, errors, and whether everybody can use it."""

import re
import shutil

import pytest

from tests.serve.servers import model_folder, running

playwright = pytest.importorskip("playwright.sync_api", reason="needs the extra [browser]")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium")

SIZES = {
    "light": {"viewport": {"width": 1000, "height": 720}},
    "dark": {"viewport": {"width": 1000, "height": 720}, "color_scheme": "dark"},
    "phone": {"viewport": {"width": 390, "height": 800}, "is_mobile": True, "has_touch": True},
}


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as started:
        found = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield found
        found.close()


@pytest.fixture
def page(browser, request):
    context = browser.new_context(**getattr(request, "param", SIZES["light"]), bypass_csp=False)
    one = context.new_page()
    one.errors, one.hosts = [], set()
    one.on("pageerror", lambda error: one.errors.append(str(error)))
    one.on("request", lambda request: one.hosts.add(request.url.split("/")[2]))
    yield one
    context.close()


def write(page, server, text):
    page.goto(server.url + "/")
    page.wait_for_selector("#pair option", state="attached")
    page.fill("#text", text)
    page.wait_for_selector(".w")


def wait(page, where, pattern, milliseconds=10_000):
    playwright.expect(page.locator(where)).to_have_text(re.compile(pattern), timeout=milliseconds)


def test_typing_words_and_others(page, server, lines, expected):
    write(page, server, lines[0])
    assert " ".join(page.inner_text("#result").split()) == " ".join(expected[lines[0]].split())
    page.hover(".w >> nth=0")
    assert "% sure" in page.inner_text("#shown") and page.locator("#shown .lit").count() >= 1
    page.focus("#result")
    page.keyboard.press("ArrowRight")
    assert page.locator("#result .lit").count() == 1
    page.click("#others summary")
    page.wait_for_selector("#alternatives button")
    chosen = page.inner_text("#alternatives button >> nth=0")
    page.click("#alternatives button >> nth=0")
    assert " ".join(page.inner_text("#result").split()) == " ".join(chosen.split())
    page.click("#look summary")
    page.fill("#text", lines[1])
    page.wait_for_selector("#attention td")
    assert page.errors == [] and page.hosts == {server.url.split("/")[2]}


def test_completion_goes_on_from_what_is_typed(page, server, lines, expected):
    write(page, server, lines[0])
    page.click("#typing summary")
    wait(page, "#completion", r"\S")
    page.fill("#typed", "kara")
    wait(page, "#completion", "^kara")
    page.focus("#typed")
    page.keyboard.press("Control+Enter")
    assert page.input_value("#typed") == page.text_content("#completion")


def test_files_and_links(page, server, lines, expected):
    write(page, server, lines[0])
    page.click("#filebox summary")
    content = "\n".join(lines[:3]).encode()
    page.set_input_files("#file", {"name": "a.txt", "mimeType": "text/plain", "buffer": content})
    page.wait_for_selector("#done a")
    with page.expect_download() as download:
        page.click("#done a")
    with open(download.value.path(), encoding="utf-8") as file:
        assert file.read() == "\n".join(expected[line] for line in lines[:3])
    page.set_input_files("#file", {"name": "a.exe", "mimeType": "text/plain", "buffer": b"x"})
    page.wait_for_selector("#status.bad")
    page.click("#link")
    address = page.evaluate("location.href")
    page.goto("about:blank")
    page.goto(address)
    page.wait_for_selector(".w")
    assert page.input_value("#text") == lines[0]


def test_files_may_be_dropped(page, server, lines, expected):
    write(page, server, lines[0])
    dropped = """text => { const given = new DataTransfer(); given.items.add(new File([text], "b.txt"));
        document.dispatchEvent(new DragEvent("drop", { dataTransfer: given, bubbles: true, cancelable: true })); }"""
    page.click("#terms summary")
    page.fill("#glossary", "kara = losu")
    page.evaluate(dropped, "kara kara miti")
    page.wait_for_selector("#done a")
    with page.expect_download() as download:
        page.click("#done a")
    with open(download.value.path(), encoding="utf-8") as file:
        assert "losu" in file.read()
    assert download.value.suggested_filename == "b_de.txt"


def test_it_says_which_model_and_how_good_it_is(page, server, lines):
    write(page, server, lines[0])
    wait(page, "#about", r"^small: .*BLEU 1\.5 on its validation text after 8 updates \(nrefs:1.*tok:13a.*version:")


@pytest.mark.parametrize("page", [SIZES["phone"] | {"color_scheme": "dark"}], ids=["phone"], indirect=True)
def test_large_letters_fit_a_phone(page, server, lines):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="needs the extra [browser]")
    write(page, server, "\n".join(lines[:2]))
    page.add_style_tag(content="html { font-size: 200% }")
    for name in ("others", "typing", "look", "terms", "filebox"):
        page.click(f"#{name} summary")
    page.wait_for_selector("#attention td")
    assert page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
    assert [one["id"] for one in axe.Axe().run(page).response["violations"]] == []


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
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="needs the extra [browser]")
    write(page, server, "\n".join(lines[:2]))
    for name in ("others", "typing", "look", "terms", "filebox"):
        page.click(f"#{name} summary")
    page.wait_for_selector("#attention td")
    found = axe.Axe().run(page).response["violations"]
    assert [(one["id"], one["impact"], one["nodes"][0]["html"]) for one in found] == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
