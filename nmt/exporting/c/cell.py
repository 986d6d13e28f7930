"""Answer calls of `export_cell`, which is removed."""

from typing import Any, NoReturn

from nmt.config.removed import instead
from nmt.errors import NMTError


def export_cell(*_: Any, **__: Any) -> NoReturn:
    """Raise NMTError, which says what takes its place."""
    raise NMTError(f"export_cell {instead('export_cell')}")
