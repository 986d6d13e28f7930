"""Pages: attributes that readers see are translated and quoted; all others, and those in kept elements, stay."""

import html
from html.parser import HTMLParser

import pytest

from nmt.documents.document import read_document
from nmt.inference.translation import Translation
from tests.documents.growth import grows_in_line
from tests.documents.test_passages import backward, by_words

PAGE = """<!DOCTYPE html>
<html lang=en><head>
<meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>the shop</title>
<meta name="Description" content="we sell &quot;red&quot; shoes"><meta property="og:title" content='our shop'>
<meta property="og:image" content="https://a.org/one two.png"><link rel=stylesheet href="a.css">
<script title="no">var alt = "no";</script></head>
<body><nav aria-label="main menu" data-name="no no"><a href="/x" title="go home">home</a></nav>
<p>press <img src="b.png" alt="the red button"> now or <abbr title=hypertext>ht</abbr> later</p>
<form><input type="search" name="q" placeholder="search here" value="no no"><input type=submit name=a value="send no">
<input type=submit value="send all">
<input type=reset value="empty all"><textarea placeholder='your "name" &amp; town'>no no</textarea>
<select><optgroup label="north side"><option value="no" label="first town">one</option></optgroup></select></form>
<table><tr><th abbr="cost">the cost</th></tr></table><video><track label="with sound" src=c.vtt></video>
<p translate="no"><img alt="no no">no</p><img translate="no" alt="no"><pre title="a listing">no</pre>
<svg aria-label="a chart"><text title="no">no</text></svg><code><span title="no">no</span></code><img alt><img alt="">
</body></html>
"""


def written(content, change):
    document = read_document(content.encode(), "html")
    new = [p.joined([Translation(change(s.asked), 0.0, 0.0) for s in p.sentences]) for p in document.passages]
    return document.write(new).decode()


class Reader(HTMLParser):
    """All attributes, as a browser reads them."""

    def __init__(self, page):
        super().__init__()
        self.found = []
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        self.found += [(tag, name, value) for name, value in attributes]


SHOWN = {
    "we sell \"red\" shoes", "our shop", "main menu", "go home", "the red button", "hypertext", "search here",
    "empty all", "send all",
    'your "name" & town', "north side", "first town", "cost", "with sound", "a listing", "a chart",
}  # fmt: skip


def test_attributes_that_readers_see_are_translated_and_no_others():
    before = Reader(PAGE).found
    page = written(PAGE, str.upper)
    expected = [(tag, name, value.upper() if value in SHOWN else value) for tag, name, value in before]
    assert Reader(page).found == expected and {value for _, _, value in before} >= SHOWN
    assert "HOME</a>" in page and "<title>THE SHOP</title>" in page and 'var alt = "no"' in page


@pytest.mark.parametrize(
    "page", [PAGE, "<img alt='a\x02 0\x03'>\x020\x03", "<p title='unended", "<img alt=a/><b title>c"]
)
def test_pages_come_back_byte_for_byte(page):
    assert written(page, str) == page


@pytest.mark.parametrize(
    "tag", ['<img alt="one">', "<img alt='one'>", "<img alt=one>", "<img alt = one >", "<IMG class=x ALT='one'/>"]
)
@pytest.mark.parametrize("text", ["it's", 'the "big" one', "a < b > c & d &quot;", "'\"", "x y="])
def test_values_are_quoted_so_that_browsers_read_what_was_said(tag, text):
    found = Reader(written(f"<p>a {tag} b</p>", lambda asked: text if asked == "one" else asked)).found
    assert ("img", "alt", html.unescape(html.escape(text))) in found


def test_attributes_move_with_their_tags():
    document = read_document(b'<p>one <a href=x title="big page">two</a></p>', "html")
    new = [p.joined([by_words(s.asked, backward) for s in p.sentences]) for p in document.passages]
    assert document.write(new) == b'<p><a href=x title="PAGE BIG">TWO</a> ONE</p>'


def both(content):
    document = read_document(content, "html")
    document.write(["a" + p.source for p in document.passages])


@pytest.mark.parametrize("piece", ["<img alt=a>", "<p title='", "<p alt title", "<pre title=a>", "\x02", "<b title=a>"])
def test_time_grows_in_line(piece):
    assert grows_in_line(lambda n: (piece * n).encode(), both, 300)


@pytest.mark.parametrize("between", ["+", " + ", "&gt;", " → ", "-", "/", " "])
def test_keys_that_are_pressed_together_stay_together(between):
    """The sign between keys was a word, which the model might lose or move."""
    keys = f"<kbd>Ctrl</kbd>{between}<kbd>Shift</kbd>{between}<kbd>a</kbd>"
    document = read_document(f"<p>press {keys} or <kbd>b</kbd> now</p>".encode(), "html")
    new = [p.joined([by_words(s.asked, backward) for s in p.sentences]) for p in document.passages]
    assert [s.text for p in document.passages for s in p.sentences] == ["press  or  now"]
    assert keys in document.write(new).decode() and "<kbd>b</kbd>" in document.write(new).decode()
