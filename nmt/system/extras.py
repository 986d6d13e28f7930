"""The command that installs optional packages, for messages about one that is missing."""

from __future__ import annotations


def how_to_install(extra: str) -> str:
    """Return the advice to install an extra of pyproject.toml, as a message ends with it.

    The package is on no package index, so that the command is one of a checkout.

    Args:
        extra: The extra's name, such as `serve`.
    """
    return f"in the checkout of nmt run pip install -e '.[{extra}]'"
