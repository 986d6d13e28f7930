"""What every section of a configuration shares: strictness, and the types that carry a bound."""

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

PositiveInt = Annotated[int, Field(ge=1)]
NonNegativeInt = Annotated[int, Field(ge=0)]
PositiveFloat = Annotated[float, Field(gt=0)]
NonNegativeFloat = Annotated[float, Field(ge=0)]
Fraction = Annotated[float, Field(ge=0, lt=1)]
Text = Annotated[str, Field(min_length=1)]


class Section(BaseModel):
    """One section: immutable, no unknown keys, no silent conversion of types.

    A validator over several keys raises a ValueError whose text starts with the key to change,
    relative to its section (`decoder.hidden_size must be ...`): `nmt.config.complaints` puts the
    rest of the path before it.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)

    def to_dict(self) -> dict[str, Any]:
        """Every key of the section and those below it, as plain values for YAML and JSON."""
        return self.model_dump(mode="json")
