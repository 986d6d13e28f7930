"""What every section of a configuration shares: strictness, and the types that carry a bound."""

from dataclasses import dataclass
from os.path import expanduser
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import CoreSchema, core_schema

MOST = 10**9
"""No count and no weight is larger: beyond it arithmetic in 32 bits ends, and no machine has the time or the memory. An
error says so where somebody asks for more; a description of what a setting may be does not."""

PositiveInt = Annotated[int, Field(ge=1, le=MOST)]
NonNegativeInt = Annotated[int, Field(ge=0, le=MOST)]
PositiveFloat = Annotated[float, Field(gt=0, le=MOST)]
NonNegativeFloat = Annotated[float, Field(ge=0, le=MOST)]
AnyFloat = Annotated[float, Field(ge=-MOST, le=MOST)]
Width = Annotated[int, Field(ge=1, le=65_536)]
"""Numbers in a vector: a matrix between two of the largest takes 16 GiB."""
Seed = Annotated[int, Field(ge=0, lt=2**63)]
Fraction = Annotated[float, Field(ge=0, lt=1)]
Text = Annotated[str, Field(min_length=1)]
FilePath = Annotated[Text, AfterValidator(expanduser)]
"""Where something lies; `~` at its beginning is the home folder, as a shell has it."""


@dataclass(frozen=True)
class WholeOrAuto:
    """Beside a type: a whole number within bounds, or `auto`, or, where `optional`, null. In one piece, because
    pydantic would report a mistake once for each alternative."""

    least: int
    most: int = MOST
    optional: bool = False

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Return what pydantic asks for."""
        return core_schema.no_info_plain_validator_function(self._check)

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        """Return what pydantic asks for."""
        kinds: list[dict[str, Any]] = [
            {"type": "integer", "minimum": self.least, "maximum": self.most},
            {"enum": ["auto"], "type": "string"},
        ]
        return {"anyOf": [*kinds, {"type": "null"}] if self.optional else kinds}

    def _check(self, value: Any) -> int | str | None:
        """Return a whole number in range, `auto`, or None where that is allowed; ValueError for all else."""
        if value == "auto" or (self.optional and value is None):
            return value
        if isinstance(value, int) and not isinstance(value, bool) and self.least <= value <= self.most:
            return value
        raise ValueError("")


CountOrAuto = Annotated[int | Literal["auto"], WholeOrAuto(1)]


class Section(BaseModel):
    """One section: immutable, no unknown keys, no silent conversion of types.

    A validator over several keys raises a ValueError whose text starts with the key to change,
    relative to its section (`decoder.hidden_size must be ...`): `nmt.config.complaints` puts the
    rest of the path before it.
    """

    # pydantic before 2.10 warns of every field that begins with `model_`, unless told that they are ours to take.
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False, protected_namespaces=())

    def to_dict(self) -> dict[str, Any]:
        """Return every key of the section and those below it, as plain values for YAML and JSON."""
        return self.model_dump(mode="json")
