"""Things, cities and other nouns of the demo corpus with the German forms its sentences need."""

from typing import NamedTuple

from demo_corpus.phrases import Pair


class Noun(NamedTuple):
    """A thing; the German `ein` and `accusative` forms stand in the accusative."""

    en: str
    en_plural: str
    nominative: str
    accusative: str
    ein: str
    plural: str


THINGS = [
    Noun("book", "books", "das Buch", "das Buch", "ein Buch", "Bücher"),
    Noun("picture", "pictures", "das Bild", "das Bild", "ein Bild", "Bilder"),
    Noun("shirt", "shirts", "das Hemd", "das Hemd", "ein Hemd", "Hemden"),
    Noun("bicycle", "bicycles", "das Fahrrad", "das Fahrrad", "ein Fahrrad", "Fahrräder"),
    Noun("coat", "coats", "der Mantel", "den Mantel", "einen Mantel", "Mäntel"),
    Noun("hat", "hats", "der Hut", "den Hut", "einen Hut", "Hüte"),
    Noun("chair", "chairs", "der Stuhl", "den Stuhl", "einen Stuhl", "Stühle"),
    Noun("table", "tables", "der Tisch", "den Tisch", "einen Tisch", "Tische"),
    Noun("lamp", "lamps", "die Lampe", "die Lampe", "eine Lampe", "Lampen"),
    Noun("bag", "bags", "die Tasche", "die Tasche", "eine Tasche", "Taschen"),
    Noun("ticket", "tickets", "die Karte", "die Karte", "eine Karte", "Karten"),
    Noun("cup", "cups", "die Tasse", "die Tasse", "eine Tasse", "Tassen"),
]
CITIES = [
    Pair("Berlin", "Berlin"),
    Pair("Hamburg", "Hamburg"),
    Pair("Munich", "München"),
    Pair("Cologne", "Köln"),
    Pair("Vienna", "Wien"),
    Pair("Zurich", "Zürich"),
]
LONG_THINGS = [
    Pair("the journey", "die Fahrt"),
    Pair("the film", "der Film"),
    Pair("the concert", "das Konzert"),
    Pair("the meeting", "die Besprechung"),
]
HOUSE = Pair("the house", "das Haus")
