"""A session gives what the search from scratch gives, reads typed tokens once, and keeps a bounded number of states."""

import numpy as np
import pytest

from nmt.decode import Ensemble, SearchOptions, Session, search
from nmt.errors import ConfigError, DeviceError
from tests.decode.test_options import build
from tests.decode.test_shortlist import SOME
from tests.refusals import refused
from tests.search_cases import LISTS, RULES, given_for

SOURCE = [4, 9, 6, 6, 11, 5]
COMMON = {"beam_size": 4, "n_best": 3, "length_penalty": "average", "max_length_ratio": 1.5, "max_length_extra": 4}


@pytest.fixture(scope="module")
def model():
    return build(4)


def from_scratch(model, prefix, **options):
    return search(model, [SOURCE], threads=1, options=SearchOptions(prefixes=[prefix], **options), **COMMON)[0]


OPTIONS = {name: given_for(name, 1) for name in (*RULES, *LISTS) if "samples" not in name and name != "prefixes"}
OPTIONS |= {
    "glossary and more": {"glossary": [[[4, 7, 8], [5, 6]]], "repetition_penalty": 1.4, "shortlist": SOME},
    "shortlist": {"shortlist": SOME},
    "shortlist and more": {"shortlist": SOME, "repetition_penalty": 1.4},
}


@pytest.mark.parametrize("name", OPTIONS)
def test_completions_are_those_of_the_search_from_scratch(name, model):
    session = Session(model, SOURCE)
    options = SearchOptions(**OPTIONS[name])
    for prefix in ([], [4], [4, 7], [4, 7, 8, 10], [4, 7], [5, 5], [4, 8, 9, 9, 9, 9, 9], [4, 8, 9, 10], [4, 8], []):
        assert session.complete(prefix, options=options, **COMMON) == from_scratch(model, prefix, **OPTIONS[name])


def test_a_shortlist_comes_and_goes_and_new_candidates_are_read_with(model):
    session, options = Session(model, SOURCE), SearchOptions(shortlist=SOME)
    own = SOME.candidates(SOURCE).tolist()
    within, beyond = [t for t in own if t > 3], [t for t in range(4, 12) if t not in own]
    read = 0
    for prefix, again in ((within[:2], 2), (within[:3], 1), ([*within[:3], beyond[0]], 4), (within[:3], 3)):
        assert session.complete(prefix, options=options, **COMMON) == from_scratch(model, prefix, shortlist=SOME)
        read += again
        assert session.tokens_read == read
    for prefix in (within[:3], [beyond[0]]):
        assert session.complete(prefix, **COMMON) == from_scratch(model, prefix)
        assert session.complete(prefix, options=options, **COMMON) == from_scratch(model, prefix, shortlist=SOME)


def test_typed_tokens_are_read_once(model):
    session = Session(model, SOURCE)
    text = np.random.default_rng(0).integers(4, 12, 20).tolist()
    for count in range(21):
        session.complete(text[:count], **COMMON)
        assert session.tokens_read == count
    session.complete(text[:12], **COMMON)
    session.complete([*text[:9], 4, 4], **COMMON)
    assert session.tokens_read == 22, "deleting reads nothing again while few places are kept; two tokens were new"


def test_memory_does_not_grow_with_the_text(model):
    session = Session(model, SOURCE)
    text = np.random.default_rng(1).integers(4, 12, 300).tolist()
    for count in range(0, 301, 7):
        session.complete(text[:count], beam_size=1, max_length_ratio=0.1, max_length_extra=1)
        assert len(session._places) <= 32
    assert session.tokens_read == 294
    shorter = [*text[:150], 4]
    assert session.complete(shorter, **COMMON) == from_scratch(model, shorter)
    assert session.tokens_read < 294 + 64, "reading starts at the last place that is kept, not at the beginning"


def test_several_models(model):
    pair = Ensemble([model, build(2, decoder={"hidden_size": 7})])
    session = Session(pair, SOURCE)
    for prefix in ([4], [4, 7, 8], [5]):
        assert session.complete(prefix, **COMMON) == from_scratch(pair, prefix)


def test_a_gpu_has_no_sessions(model, monkeypatch):
    monkeypatch.setattr(type(model.device), "is_cpu", property(lambda self: False))
    refused(DeviceError, "session: must run on the processor", Session, model, [4])


@pytest.mark.parametrize("options", [{"prefixes": [[4]]}, {"sampling": True}])
def test_what_sessions_cannot_do_is_said(options, model):
    with pytest.raises(ConfigError, match=r"^decoding\.\w+: must be .* for a session, got "):
        Session(model, SOURCE).complete(options=SearchOptions(**options))
