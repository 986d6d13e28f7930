"""Signs of a wrong encoding in lines of text."""

import pytest

from nmt.data.quality.faults import has_broken_letters
from nmt.data.tokens.characters import TextBlock

GOOD = [
    "Zwölf Boxkämpfer jagen Viktor quer über den großen Sylter Deich – „schön“, 5 €.",
    "Le cœur déçu mais l’âme plutôt naïve, Louÿs rêva de crapaüter en canoë « ici ».",
    "¿Ñandú? ¡El Ñ’emabagi está aquí!",
    "Съешь же ещё этих мягких французских булок, да выпей чаю.",
    "Їхав єдиний москаль. Ґанок, підїзд: «так».",
    "Ξεσκεπάζω την ψυχοφθόρα βδελυγμία.",
    "いろはにほへと ちりぬるを",
    "Tiếng Việt có nhiều dấu: ă â đ ê ô ơ ư, được không?",
    "Koronadɔ li hã, aƒetɔa be kakaɖedzi le ƒè 2015 tɔ me.",
    "Pchnąć w tę łódź jeża lub ośm skrzyń fig.",
    "Ó ní ìjọba yóò gbé ilé-iṣẹ́ kúrò",
    "plain letters only",
    "",
]
DAMAGED = [line for line in GOOD if not line.isascii() and "ƒ" not in line and "ọ" not in line]


def test_healthy_text_of_many_languages_passes():
    assert not has_broken_letters(TextBlock(GOOD)).any()


@pytest.mark.parametrize("encoding", ["latin-1", "cp1252"])
@pytest.mark.parametrize("line", DAMAGED)
def test_utf8_read_as_another_encoding_is_found(line, encoding):
    """Greek, Japanese and Vietnamese, which a rule for Western European letters alone does not see, too."""
    damaged = "".join(
        bytes([byte]).decode(encoding, "ignore") or bytes([byte]).decode("latin-1") for byte in line.encode()
    )
    found = has_broken_letters(TextBlock(["fine", damaged, "fine as well"]))
    assert found.tolist() == [False, True, False]


def test_a_replacement_sign_is_found_and_lines_stay_apart():
    assert has_broken_letters(TextBlock(["gr\ufffdn", "gr", "Ã", "¤"])).tolist() == [True, False, False, False]
