"""Subwords and sides that the tests of this folder share."""

import pytest

from tests.data.corpora import side, small_subwords


@pytest.fixture(scope="module")
def subwords():
    return small_subwords()


@pytest.fixture(scope="module")
def sides(subwords):
    return side("de", subwords), side("en", subwords)
