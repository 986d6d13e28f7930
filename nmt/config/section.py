"""Base of all sections of a configuration: strict validation, and types with bounds."""

import ast
import inspect
import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from operator import attrgetter
from os.path import expanduser
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator
from pydantic.annotated_handlers import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import CoreSchema, core_schema

MOST = 10**9
"""The largest count and weight: more would overflow arithmetic in 32 bits, and exceed the time and memory of any
machine. An error mentions the limit if a value exceeds it; descriptions of settings do not."""

PositiveInt = Annotated[int, Field(ge=1, le=MOST)]
NonNegativeInt = Annotated[int, Field(ge=0, le=MOST)]
PositiveFloat = Annotated[float, Field(gt=0, le=MOST)]
NonNegativeFloat = Annotated[float, Field(ge=0, le=MOST)]
AnyFloat = Annotated[float, Field(ge=-MOST, le=MOST)]
Width = Annotated[int, Field(ge=1, le=65_536)]
"""Size of a vector: a matrix between two of the largest takes 16 GiB."""
Seed = Annotated[int, Field(ge=0, lt=2**63)]
Fraction = Annotated[float, Field(ge=0, lt=1)]
Text = Annotated[str, Field(min_length=1)]
FilePath = Annotated[Text, AfterValidator(expanduser)]
"""Path of a file or folder; a leading `~` means the home folder, as in a shell."""


@dataclass(frozen=True)
class WholeOrAuto:
    """Annotation for a type that is a whole number within bounds, `auto` or, if `optional`, null. It is a single
    validator, because pydantic would report an error once for each alternative of a union."""

    least: int
    most: int = MOST
    optional: bool = False

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(self._check)

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        kinds: list[dict[str, Any]] = [
            {"type": "integer", "minimum": self.least, "maximum": self.most},
            {"enum": ["auto"], "type": "string"},
        ]
        return {"anyOf": [*kinds, {"type": "null"}] if self.optional else kinds}

    def _check(self, value: Any) -> int | str | None:
        """Return a whole number in range, `auto`, or None if allowed; raise ValueError for anything else."""
        if value == "auto" or (self.optional and value is None):
            return value
        if isinstance(value, int) and not isinstance(value, bool) and self.least <= value <= self.most:
            return value
        raise ValueError("")


CountOrAuto = Annotated[int | Literal["auto"], WholeOrAuto(1)]


class Section(BaseModel):
    """Base class of sections: immutable, without unknown keys, without silent conversion of types.

    The text below a key is its description in the JSON schema.

    A method `_check...` over several keys raises a ValueError whose text starts with the key to change, relative to its
    section (`decoder.hidden_size must be ...`): `nmt.config.complaints` puts the rest of the path before it.
    """

    # pydantic before 2.10 warns of every field that begins with `model_` unless protected_namespaces is empty.
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False, protected_namespaces=())

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        """Return the JSON schema for pydantic, with the descriptions of the keys."""
        found = handler(schema)
        properties = handler.resolve_ref_schema(found)["properties"]
        for section in reversed(cls.__mro__[: cls.__mro__.index(Section)]):
            for key, text in _texts_in(section.__module__).get(section.__name__, {}).items():
                properties[key]["description"] = text
        return found

    @model_validator(mode="after")
    def _checked(self) -> Self:
        """Return the section. Raises ValueError by its methods `_check_...`, in their order, those of parents first."""
        for check in _checks_of(type(self)):
            check(self)
        return self

    def __setattr__(self, name: str, value: Any) -> None:
        """Raise AttributeError: settings are immutable."""
        raise AttributeError(
            f"{type(self).__name__}.{name}: settings are immutable, got an assignment; Config.with_changes returns "
            "others"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return every key of the section and its subsections, as plain values for YAML and JSON."""
        return self.model_dump(mode="json")


@cache
def _checks_of(section: type[Section]) -> list[Callable[[Section], None]]:
    """Return the methods that check a section as a whole."""
    parents = section.__mro__[: section.__mro__.index(Section)]
    names = dict.fromkeys(name for kind in reversed(parents) for name in vars(kind) if name.startswith("_check_"))
    return [getattr(section, name) for name in names]  # that of a subclass takes the place of another


@cache
def _texts_in(module: str) -> dict[str, dict[str, str]]:
    """Return the text below each key of the classes of a module, by class and key. They are read from the source when a
    schema is made, since pydantic's `use_attribute_docstrings` would slow down every start."""
    found: dict[str, dict[str, str]] = {}
    for node in ast.parse(inspect.getsource(sys.modules[module])).body:
        if isinstance(node, ast.ClassDef):
            found[node.name] = {}
            for pair in pairwise(node.body):
                match pair:
                    case ast.AnnAssign(target=ast.Name(id=key)), ast.Expr(value=ast.Constant(value=str(text))):
                        found[node.name][key] = " ".join(text.split())
    return found


def require(settings: Section, wanted: Mapping[str, Any], given: str, why: str = "") -> None:
    """Raise ValueError for the first setting with another value than wanted. settings: The section where paths start.
    given: What requires them: `with optimizer: adam`. why: Appended to the error: a reason, or what to do."""
    for path, value in wanted.items():
        if (got := attrgetter(path)(settings)) != value:
            values = [one if isinstance(one, str) else json.dumps(one) for one in (value, got)]
            raise ValueError(f"{path} must be {values[0]} {given}, got {values[1]}{why and '; '}{why}")
