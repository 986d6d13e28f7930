"""The whole way in a browser, with a studio that works: five clicks from a table to a translation."""

import json

import pytest

from tests.pages import page_in
from tests.studio.studios import pairs, table


@pytest.fixture
def page(browser):
    with page_in(browser) as one:
        yield one


def test_five_clicks_from_a_table_to_a_translation(studio, page):
    choosers = []
    page.set_default_timeout(240_000)
    page.on("filechooser", lambda one: choosers.append(one))
    # What a person may choose is five minutes; a test has half a one.
    page.route("**/rounds", lambda route: route.continue_(post_data=json.dumps({"minutes": 0.5, "on": None})))
    page.goto(f"http://127.0.0.1:{studio.port}/?key={studio.key}")
    page.click("text=Make a new translator")  # 1
    page.click("text=Choose files")  # 2
    page.wait_for_timeout(500)
    rows = table(pairs(700), heading="German\tEnglish")
    choosers[0].set_files({"name": "words.tsv", "mimeType": "text/plain", "buffer": rows})
    page.click("text=Go on: how long")  # 3
    page.click("text=Start training")  # 4
    page.wait_for_selector("text=It is learning")
    page.get_by_role("link", name="Try it", exact=True).click()  # 5
    frame = page.frame_locator("iframe")
    frame.locator("#result .w").first.wait_for()
    assert frame.locator("#text").input_value() and page.errors == [] and len(page.hosts) == 1
    page.click("text=3 Look")
    page.wait_for_selector(".bars")
    before = page.inner_text("#main")
    page.get_by_role("button", name="Wrong").click()
    page.wait_for_selector("text=1 are done")
    page.reload()
    page.wait_for_selector("text=1 are done")
    assert page.inner_text("#main").split("\n")[0] == before.split("\n")[0]
    page.click("text=Numbers for experts")
    assert page.locator(".experts svg.chart").count() >= 3
    page.click("text=5 Share")
    page.click("text=I wrote it myself")
    page.click("text=Save the table")
    with page.expect_download() as download:
        page.click("a[download]")
    assert "\t".join(pairs(1)[0]) in download.value.path().read_text("utf-8") and page.errors == []
