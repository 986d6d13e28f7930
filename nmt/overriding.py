"""`override` of typing, for Python before 3.12 too, at no cost when a module is imported."""

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from typing_extensions import override
else:
    _Method = TypeVar("_Method")

    def override(method: _Method) -> _Method:
        """Mark a method that overrides one of a base class, whose docstring holds for it."""
        return method
