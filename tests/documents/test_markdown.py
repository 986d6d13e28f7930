"""Markdown: prose is translated, syntax stays; what a renderer shows is the same but for the words."""

# ruff: noqa: E501 - tables of pieces of syntax

import re
from pathlib import Path

import pytest

import nmt
from nmt.documents.document import read_document
from nmt.documents.placeholders import placeholders_of
from nmt.documents.tagged_text import read_passage
from nmt.inference.translation import Translation
from tests.documents.details import changed, detail_of
from tests.documents.test_passages import backward, by_stops, by_words, forward

markdown_it = pytest.importorskip("markdown_it", reason="needs the extra [documents]")

ROOT = Path(nmt.__file__).parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])

SOURCE = """\
---
title: not translated
---

# The *first* heading #

One `code` and [a link](https://a.org/x_y "no title") in
a **bold** line.
Next line\\
behind a break  
and another.

> A quote that goes
> on here

1. first item
   of two lines

   - [x] done `a|b` here
   - ![red tree](a.png)

| head | other \\| one |
|---|:--|
| a `x\\|y` cell | |
| big *red* | 3 |

Below
it
===

<div align="center">
<img src="a.png" alt="blue tree"> hello <b>there</b>
</div>

```python
no = "code"
```

    no code either

See [ref] and [the page][ref], [^1] <https://a.org/b> or https://a.org/c_d_e; \\*no\\* snake_case {#id .no}

[ref]: https://a.org "no title"
[^1]: The note here

::: note
$a + b$ costs $5 &amp; <kbd>Ctrl</kbd> it
"""  # noqa: W291 - two spaces break a line


def translated(text, order=forward, change=str.swapcase, splitter=None):
    return changed(text.encode(), "markdown", lambda asked: by_words(asked, order, change), splitter).decode()


def same(content, splitter=None):
    return changed(content, "markdown", str, splitter)


def rendered(text):
    return re.sub(r"\s+", " ", markdown_it.MarkdownIt("commonmark").enable("table").render(text)).casefold()


def other_case(word):
    return word if placeholders_of(word) else word.swapcase()


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_pages_of_this_project_come_back_byte_for_byte_and_render_the_same(path):
    content = path.read_bytes()
    assert same(content) == content == same(content, by_stops)
    found = translated(content.decode(), forward, other_case)
    assert rendered(found) == rendered(content.decode()) and (found != content.decode() or len(content) < 100)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a **b with `x`**, c\n", "A **B WITH `x`**, C\n"),
        ("a, **b `x`**; c\n", "A, **B `x`**; C\n"),
        ("**b `x`** c\n", "**B `x`** C\n"),
    ],
)
def test_space_before_code_at_the_end_of_emphasis_stays_there(text, expected):
    assert translated(text, forward, other_case) == expected


def test_space_after_code_at_the_beginning_of_an_element_stays_there():
    passage = read_passage("(see<b><code>x</code> here</b>) now", "html")
    found = passage.joined([by_words(one.asked, forward, other_case) for one in passage.sentences])
    assert found == "(SEE<b><code>x</code> HERE</b>) NOW"


@pytest.mark.parametrize(
    "text", [SOURCE, SOURCE.rstrip("\n"), SOURCE.replace("\n", "\r\n"), "\ufeff" + SOURCE, "", "\n"]
)
def test_all_syntax_comes_back_byte_for_byte(text):
    assert same(text.encode()) == text.encode()


def test_prose_is_translated_and_all_else_kept():
    found = translated(SOURCE, forward, other_case)
    for kept in (
        "---\ntitle: not translated\n---\n", "# tHE *FIRST* HEADING #\n", "oNE `code` AND [A LINK](https://a.org/x_y \"no title\") IN ",
        "A **BOLD** LINE. nEXT LINE\\\nBEHIND A BREAK  \nAND ANOTHER.\n", "> a QUOTE THAT GOES ON HERE\n",
        "1. FIRST ITEM OF TWO LINES\n", "   - [x] DONE `a|b` HERE\n", "   - ![RED TREE](a.png)\n",
        "| HEAD | OTHER \\| ONE |\n|---|:--|\n| A `x\\|y` CELL | |\n| BIG *RED* | 3 |\n", "bELOW IT\n===\n",
        '<div align="center">\n<img src="a.png" alt="BLUE TREE"> HELLO <b>THERE</b>\n</div>\n', '```python\nno = "code"\n```\n',
        "\n    no code either\n", "sEE [REF][ref] AND [THE PAGE][ref], [^1] <https://a.org/b> OR https://a.org/c_d_e;",
        "\\*NO\\* snake\\_case {#id .no}\n", '[ref]: https://a.org "no title"\n', "[^1]: tHE NOTE HERE\n", "::: note",
        "$a + b$ COSTS $5 &amp; <kbd>Ctrl</kbd> IT",
    ):  # fmt: skip
        assert kept in found, kept
    assert translated(SOURCE.replace("\n", "\r\n"), forward, other_case) == found.replace("\n", "\r\n")


@pytest.mark.parametrize(
    "text, expected",
    [
        ("one **two** three", "THREE **TWO** ONE"),
        ("one [two `x`](a(b).md) three", "THREE [`x` TWO](a(b).md) ONE"),
        ('one [two](a "b \\" c") three', 'THREE [TWO](a "b \\" c") ONE'),
        ("one [two](<a b> 'c') _three_", "_THREE_ [TWO](<a b> 'c') ONE"),
        ("***one** two* three", None),
        ("2 * 3 * 4 one", "ONE * 4 * 3 2"),
        ("one ``a ` b`` two", "``a ` b`` TWO ONE"),
        ("one \\`two\\` `x`", "\\`TWO\\` ONE `x`"),
        ("one `a` `b` two", "`a` `b` TWO ONE"),
        ("`a`: one two\n``b``.", "`a` ``b``. TWO ONE :"),
        ("`a`: one\n{ref}`b`.", "`a`{ref}`b`. ONE :"),
        ("one ` two", "TWO \\` ONE"),
        ("one \\<b> two", "TWO \\<B> ONE"),
        ("one <b>two</b> <x-y>three</x-y>", "<x-y>THREE</x-y> <b>TWO</b> ONE"),
        ("one {ref}`a b` two", "{ref}`a b` TWO ONE"),
        ("one <!-- no --> two", "<!-- no --> TWO ONE"),
        ("- one\n- two three", "- ONE\n- THREE TWO"),
        ("> - one two\n>   three", "> - THREE TWO ONE"),
        ("* * *\n\none\n\n---", "* * *\n\nONE\n\n---"),
        ("a_b __one__ two", "TWO __ONE__ a\\_b"),
        ("[one two]: no", "[one two]: no"),
        ("one\n***\ntwo", "ONE\n***\nTWO"),
    ],
)
def test_syntax_follows_its_words(text, expected):
    found = translated(text, backward)
    if expected is not None:
        assert found == expected
    assert sorted(re.findall(r"\w+", found.replace("\\", "").casefold())) == sorted(re.findall(r"\w+", text.casefold()))


@pytest.mark.parametrize(
    "text, said, expected",
    [
        ("go **(there)** now", "▁去 （那里） 现在", "去 **（那里）** 现在"),
        ("go *there* *now* please", "▁去 那里 现在 请", "去*那里* *现在*请"),
        ("go **there** now", "▁去 那里 现在", "去**那里**现在"),
        ("go __there__ now", "▁去 那里 现在", "去 __那里__ 现在"),
        ("- __[^1] go__ there", "▁去 ▁那里", "- __[^1] 去__ 那里"),
        ("*go [^1]* there", "▁去 那里", "*去[^1]* 那里"),
        ("${x} there %1$s", "▁${x} ▁那里 ▁%1$s", "${x} 那里 %1$s"),
    ],
)
def test_emphasis_stays_emphasis_where_words_have_no_spaces(text, said, expected):
    def told(sentence):
        tokens, words = said.split(), sentence.split()
        detail = detail_of([f"▁{one}" for one in words], tokens)
        return Translation("".join(tokens).replace("▁", " ").strip(), 0.0, 0.0, detail)

    found = changed(text.encode(), "markdown", told).decode()
    assert found == expected
    assert rendered(found).count("</") == rendered(text).count("</")


@pytest.mark.parametrize("sign", ["*", "**", "_", "__", "~~"])
@pytest.mark.parametrize("text", ["one {0}two{0}, {0}three{0} four", "{1}one {0}two{0}{1} four", "one {0}two three{0}"])
@pytest.mark.parametrize("kept", [(0,), (0, 3), (-1,)])
def test_emphasis_of_words_that_are_not_translated_leaves_no_signs(sign, text, kept):
    other = "_" if sign[0] == "*" else "*"
    found = translated(text.format(sign, other), lambda count: sorted({n % count for n in kept}))
    assert not re.search(r"[*_~]", re.sub(r"~~(\S+?)~~", r"\1", rendered(found)))
    assert not re.search(r"\x02|\x04", found) and re.search("one|four|three", found.casefold())


@pytest.mark.parametrize("said", ["- a b", "+ a", "* a", "1. a", "2) a", "# a", "> a", "===", "---", "a\\*b", "<b>", "[x](y)",
                                  "`a`", "*a*", "__a__", "&amp;", "a | b"])  # fmt: skip
@pytest.mark.parametrize("around", ["one", "first\nline. one", "> one", "- one", "| a |\n|---|\n| one |", "# one"])
def test_translations_are_text_whatever_they_contain(said, around):
    """A renderer shows the translation as it is, and no other block begins."""
    document = read_document(around.encode() + b" &amp; b", "markdown", "some", by_stops)
    (last,) = document.passages[-1:]
    texts = [p.source for p in document.passages[:-1]]
    texts.append(last.joined([Translation(said, 0.0, 0.0)] * len(last.sentences)))
    found = document.write(texts).decode()

    def shape(text):
        return re.findall("<[^>]*>", rendered(text))

    assert shape(found) == shape(around + " &amp; b")


@pytest.mark.parametrize(
    "text, expected",
    [
        ("> [!NOTE]\n> one two\n> three\n", "> [!NOTE]\n> THREE TWO ONE\n"),
        ("> [!tip]- one two\n> three\n", "> [!tip]- TWO ONE\n> THREE\n"),
        ("> **one two**\n> three four\n", "> **TWO ONE**\n> FOUR THREE\n"),
        ('!!! note "one two"\n    three four\n    five\n\n    six `x`\n\n        code\n\nend it\n',
         '!!! note "TWO ONE"\n    FIVE FOUR THREE\n\n    SIX `x`\n\n        code\n\nIT END\n'),
        ("??? tip\n\n    one two\n\n    !!! note\n        three four\n", "??? tip\n\n    TWO ONE\n\n    !!! note\n        FOUR THREE\n"),
        ('=== "one two"\n\n    - three four\n', '=== "TWO ONE"\n\n    - FOUR THREE\n'),
        ("one two\n:   three four\n\n    five six\n\n:   seven\n", "TWO ONE\n:   FOUR THREE\n\n    SIX FIVE\n\n:   SEVEN\n"),
        ("[TOC]\n\none two\n", "[TOC]\n\nTWO ONE\n"),
        ("*[HTML]: one two\n*[W3C]:  three four\n", "*[HTML]: TWO ONE\n*[W3C]:  FOUR THREE\n"),
        ("$$\na_b\n=\n- c d\n\n\\\\\n$$\n\none two\n", "$$\na_b\n=\n- c d\n\n\\\\\n$$\n\nTWO ONE\n"),
        ("\\begin{equation}\nx_1\n\n= y\n\\end{equation}\none two\n", "\\begin{equation}\nx_1\n\n= y\n\\end{equation}\nTWO ONE\n"),
        ("one \\begin{a*}x_1\\end{a*} two :smile: :+1: at 10:30:20\n", "10:30:20 :smile: :+1: AT \\begin{a*}x_1\\end{a*} TWO ONE\n"),
        ('one two\n{{< figure src="a b.png" >}}\nthree four\n', 'TWO ONE\n{{< figure src="a b.png" >}}\nFOUR THREE\n'),
        ('one {{< ref "a_b" >}} {{% c d %}} {{ page.my_title }} two\n', '{{< ref "a_b" >}} {{% c d %}} {{ page.my_title }} TWO ONE\n'),
        ("[![one two](a_b.svg)](https://a.org)\n![three](c.svg)\nfour five\n", "[![TWO ONE](a_b.svg)](https://a.org)\n![THREE](c.svg)\nFIVE FOUR\n"),
        ("```\n!!! note\n    one\n$$\n```\n\n~~~\n: one\n~~~\n", "```\n!!! note\n    one\n$$\n```\n\n~~~\n: one\n~~~\n"),
        ('=== "max text"\n\n    one two\n', '=== "TEXT MAX"\n\n    TWO ONE\n'),
        ("/// note | one two\n\nthree four\n\n///\n\n//// tab\nfive\n////\n", "/// note | TWO ONE\n\nFOUR THREE\n\n///\n\n//// tab\nFIVE\n////\n"),
        ("# one two { #a-b .c }\n\nthree four\n{: .x #y }\n\n![five six](a.png){ width=\"300\" }\n",
         "# TWO ONE { #a-b .c }\n\nFOUR THREE\n{: .x #y }\n\n![SIX FIVE](a.png){ width=\"300\" }\n"),
        ("one[^1] two[^b]\n\n[^1]: 脚注\n[^b]:\n    three four\n\n    five six\n", "TWO ONE[^1][^b]\n\n[^1]: 脚注\n[^b]:\n    FOUR THREE\n\n    SIX FIVE\n"),
        ("one two\n=== \n\n=== no\n", "TWO ONE\n=== \n\nNO ===\n"),
    ],
)  # fmt: skip
def test_blocks_of_dialects_stay(text, expected):
    for end in ("\n", "\r\n"):
        assert same(text.replace("\n", end).encode()) == text.replace("\n", end).encode()
        assert translated(text.replace("\n", end), backward, str.upper) == expected.replace("\n", end)


@pytest.mark.parametrize(
    "line",
    [
        "[![one two](a.svg)](b) [![three four](c.svg)](d) ![five six](e.svg)",
        "[![one two](a.svg)](b)[![three four](c.svg)](d)",
        "[![one two][a]][b] [![three four][c]][d]",
        "[one two](a) | [three four](b) | [five six](c)",
        "[one two](a) · [three four][b]",
    ],
)
def test_badges_and_rows_of_links_are_separate_texts(line):
    """The texts of badges became one sentence, and the badges changed places."""
    text = f"{line}\none\n\n[a]: a\n[b]: b\n[c]: c\n[d]: d\n"
    sentences = [s.text for p in read_document(text.encode(), "markdown").passages for s in p.sentences]
    assert sentences == [*re.findall(r"\w+ \w+", line), "one"]
    expected = re.sub(r"(\w+) (\w+)", r"\2 \1", line) + text[len(line) :]
    expected = re.sub(r"\b(one|two|three|four|five|six)\b", lambda one: one[0].title(), expected)
    assert translated(text, backward, str.title) == expected


@pytest.mark.parametrize(
    "text, word, expected",
    [
        ("one *two* ~~three~~ four", 0, "~~ONE~~"),
        ("one *two* ~~three~~ four", 2, "~~THREE~~"),
        ("one *two* with **three** four", 0, "**ONE**"),
        ("one *two* with **three** four", 1, "*TWO*"),
        ("one [*two*](a) __three__", 2, "[](a)__THREE__"),
    ],
)
def test_emphasis_of_nothing_is_no_asterisks(text, word, expected):
    """An emphasis whose words the translation lacks was written as `**`: two asterisks, and the next one failed."""
    assert translated(text, lambda _: [word], str.upper) == expected
