"""What is wrong is told in one line."""

import pytest


def refused(kind, line, call, *arguments, **options):
    """The message of the error that a call raises: of this kind, one line in which `line`, a pattern, is found,
    if there is one."""
    with pytest.raises(kind, match=line or None) as caught:
        call(*arguments, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)
