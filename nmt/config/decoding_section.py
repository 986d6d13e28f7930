"""The `decoding` section, which follows from the table of search settings."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BeforeValidator, Field, WithJsonSchema, create_model, model_validator

from nmt.config.section import MOST, FilePath, Section
from nmt.search_settings import MAX_SOURCE_SUBWORDS, ROWS, Row, SearchValues


def _field(row: Row) -> Any:
    """Return the checked type of a setting, and its pydantic field."""
    least, most = -MOST if row.least is None else row.least, MOST if row.most is None else row.most
    kind = row.kind
    if row.choices and row.least is not None:
        kind = Annotated[kind, *_name_or_number(row.choices, least, most)]
    elif kind in (int, float):
        kind = Annotated[kind, Field(ge=least, le=most) if row.above is None else Field(gt=row.above, le=most)]
    elif kind == str | None:
        kind = FilePath | None
    return kind, Field(default=row.default, description=row.text)


def _name_or_number(names: Sequence[str], least: float, most: float) -> tuple[Any, ...]:
    """Return the check of a value that is one of some names or a number, and its schema. It is a single validator,
    because pydantic would report an error once for each alternative of a union."""

    def check(value: Any) -> str | float:
        if isinstance(value, str) and value in names:
            return value
        if isinstance(value, int | float) and not isinstance(value, bool) and least <= value <= most:
            return float(value)
        raise ValueError("")

    number = {"type": "number", "minimum": least, "maximum": most}
    return BeforeValidator(check), WithJsonSchema({"anyOf": [{"enum": list(names), "type": "string"}, number]})


if TYPE_CHECKING:

    class _Values(Section, SearchValues):  # type: ignore[misc]  # frozen, which mypy does not know of a Section
        """A value for each setting of a search, checked."""
else:
    _Values = create_model("_Values", __base__=Section, **{name: _field(row) for name, row in ROWS.items()})


class DecodingConfig(_Values):  # type: ignore[misc]  # as above
    """Search for translations. Options of the commands override these settings."""

    @model_validator(mode="after")
    def _check_n_best(self) -> "DecodingConfig":
        """Raise ValueError if more translations are asked for than there are hypotheses in the beam."""
        if self.n_best > self.beam_size:
            raise ValueError(
                f"n_best must be at most beam_size ({self.beam_size}), got {self.n_best}; raise beam_size too"
            )
        return self

    @model_validator(mode="after")
    def _check_lengths(self) -> "DecodingConfig":
        """Raise ValueError if min_length is not below the maximum length even for the longest source. If it conflicts
        only for shorter sources, translations carry a warning."""
        most = int(self.max_length_ratio * MAX_SOURCE_SUBWORDS) + self.max_length_extra
        if self.min_length >= most:
            raise ValueError(
                f"min_length must be below {most}, what max_length_ratio and max_length_extra allow for a source of "
                f"{MAX_SOURCE_SUBWORDS} subwords, got {self.min_length}; raise max_length_extra too"
            )
        return self
