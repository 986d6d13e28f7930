"""Clauses whose word order differs: English keeps its verb together, German splits it.

the train leaves at nine o'clock           der Zug fährt um neun Uhr ab
on Monday the train leaves at ...          am Montag fährt der Zug um ... ab
the train must leave at ...                der Zug muss um ... abfahren
the train left at ...                      der Zug ist um ... abgefahren
I know that the train leaves at ...        ich weiß, dass der Zug um ... abfährt
does the train leave at ...?               fährt der Zug um ... ab?
"""

from dataclasses import dataclass
from typing import Literal

from demo_corpus.phrases import Pair

Frame = Literal["main", "fronted", "that", "question"]


@dataclass(frozen=True)
class Verb:
    """A separable German verb in the third person singular, with its English counterpart."""

    leaves: str
    leave: str
    left: str
    particle: str
    finite: str
    infinitive: str
    participle: str
    auxiliary: str


LEAVE = Verb("leaves", "leave", "left", "ab", "fährt", "abfahren", "abgefahren", "ist")
ARRIVE = Verb("arrives", "arrive", "arrived", "an", "kommt", "ankommen", "angekommen", "ist")
START = Verb("starts", "start", "started", "an", "fängt", "anfangen", "angefangen", "hat")
END = Verb("ends", "end", "ended", "auf", "hört", "aufhören", "aufgehört", "hat")
OPEN = Verb("opens", "open", "opened", "auf", "macht", "aufmachen", "aufgemacht", "hat")
CLOSE = Verb("closes", "close", "closed", "zu", "macht", "zumachen", "zugemacht", "hat")
GET_UP = Verb("gets up", "get up", "got up", "auf", "steht", "aufstehen", "aufgestanden", "ist")
CALL = Verb("calls", "call", "called", "an", "ruft", "anrufen", "angerufen", "hat")

TRAIN = Pair("the train", "der Zug")
BUS = Pair("the bus", "der Bus")
TRAM = Pair("the tram", "die Straßenbahn")
SHIP = Pair("the ship", "das Schiff")
FILM = Pair("the film", "der Film")
CONCERT = Pair("the concert", "das Konzert")
MEETING = Pair("the meeting", "die Besprechung")
COURSE = Pair("the course", "der Kurs")
SHOP = Pair("the shop", "der Laden")
BAKERY = Pair("the bakery", "die Bäckerei")
MUSEUM = Pair("the museum", "das Museum")
PHARMACY = Pair("the pharmacy", "die Apotheke")
BROTHER = Pair("my brother", "mein Bruder")
SISTER = Pair("my sister", "meine Schwester")
CHILD = Pair("the child", "das Kind")
GUEST = Pair("the guest", "der Gast")

VEHICLES = [TRAIN, BUS, TRAM, SHIP]
EVENTS = [FILM, CONCERT, MEETING, COURSE]
HOUSES = [SHOP, BAKERY, MUSEUM, PHARMACY]
PEOPLE = [BROTHER, SISTER, CHILD, GUEST]

# Who can do what: a verb and its subjects.
USES = [
    (LEAVE, VEHICLES),
    (ARRIVE, VEHICLES + PEOPLE),
    (START, EVENTS),
    (END, EVENTS),
    (OPEN, HOUSES),
    (CLOSE, HOUSES),
    (GET_UP, PEOPLE),
    (CALL, PEOPLE),
]

# English modal -> German modal, third person singular.
MODALS = {"will": "wird", "must": "muss", "can": "kann", "should": "sollte"}
Tense = Literal["present", "past", "will", "must", "can", "should"]

INTRODUCTIONS = [
    Pair("I know that", "ich weiß, dass"),
    Pair("she says that", "sie sagt, dass"),
    Pair("we hope that", "wir hoffen, dass"),
    Pair("they think that", "sie glauben, dass"),
]


@dataclass(frozen=True)
class Clause:
    """Who does what, when: `day` is an adverbial ("on Monday"), `time` a clock time, no "at"."""

    subject: Pair
    verb: Verb
    tense: Tense
    time: Pair
    day: Pair | None = None

    def say(self, frame: Frame, introduction: Pair = INTRODUCTIONS[0]) -> Pair:
        """Returns the clause in a frame; "fronted" needs a day, `introduction` serves "that"."""
        if frame == "fronted" and self.day is None:
            raise ValueError("a fronted clause must have a day, got None")
        return Pair(self._english(frame, introduction.en), self._german(frame, introduction.de))

    def _english(self, frame: Frame, introduction: str) -> str:
        verb, subject = self.verb, self.subject.en
        when = f"at {self.time.en}"
        if self.day is not None and frame != "fronted":
            when = f"{self.day.en} {when}"
        if frame == "question":
            helper = {"present": "does", "past": "did"}.get(self.tense, self.tense)
            return f"{helper} {subject} {verb.leave} {when}?"
        predicate = {"present": verb.leaves, "past": verb.left}.get(self.tense, f"{self.tense} {verb.leave}")
        statement = f"{subject} {predicate} {when}"
        if frame == "fronted" and self.day is not None:
            return f"{self.day.en} {statement}"
        return f"{introduction} {statement}" if frame == "that" else statement

    def _german(self, frame: Frame, introduction: str) -> str:
        finite, last, verb_final = self._german_verb()
        subject, when = self.subject.de, f"um {self.time.de}"
        if frame == "fronted" and self.day is not None:
            return f"{self.day.de} {finite} {subject} {when} {last}"
        if self.day is not None:
            when = f"{self.day.de} {when}"
        if frame == "that":
            return f"{introduction} {subject} {when} {verb_final}"
        if frame == "question":
            return f"{finite} {subject} {when} {last}?"
        return f"{subject} {finite} {when} {last}"

    def _german_verb(self) -> tuple[str, str, str]:
        """Returns the finite verb, what ends the sentence, and what ends a "dass" clause."""
        verb = self.verb
        if self.tense == "present":
            return verb.finite, verb.particle, f"{verb.particle}{verb.finite}"
        if self.tense == "past":
            return verb.auxiliary, verb.participle, f"{verb.participle} {verb.auxiliary}"
        modal = MODALS[self.tense]
        return modal, verb.infinitive, f"{verb.infinitive} {modal}"
