"""Values that keys of an experiment file may hold: how each is read, with an error of our own, and its JSON Schema."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, GetCoreSchemaHandler, GetJsonSchemaHandler, model_validator
from pydantic_core import CoreSchema, core_schema

from iodyno.core import quantity
from iodyno.core.access import AccessOption
from iodyno.core.invalid import found, invalid
from iodyno.core.workload import Parameter
from iodyno.formats.mistakes import unknown

MAX_LEVELS = 1000
HOUR_NS = 3600 * 10**9
HOST_NAME = r"[A-Za-z][A-Za-z0-9_-]{0,31}"
NAME = r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}"

Json = dict[str, Any]


class Section(BaseModel):
    """A mapping of the file with known keys."""

    model_config = ConfigDict(strict=True, extra="forbid")


@dataclass(frozen=True)
class Reads:
    """Reader of the value of a key, a function of ours so that its errors are ours, and its schema."""

    read: Callable[[Any], Any]
    schema: Json
    allowed: str = ""
    """Allowed values, in words, where the schema says it less well (`docs/reference/reference.md`)."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(self.read)

    def __get_pydantic_json_schema__(self, core: CoreSchema, handler: GetJsonSchemaHandler) -> Json:
        variable = {"type": "string", "pattern": r"\$\{"}  # an environment variable may stand anywhere
        return {"anyOf": [self.schema, variable]}


def _quantity_schema(kind: quantity.Kind, low: int, high: int) -> Json:
    whole = {"type": "integer", "minimum": low, "maximum": high}
    if kind == "count":
        return whole
    names = "|".join(re.escape(unit) for unit in quantity.units(kind) if unit)
    optional = "?" if "" in quantity.units(kind) else ""
    written = {"type": "string", "pattern": rf"^\s*\+?(\d+\.?\d*|\.\d+)\s*({names}){optional}\s*$"}
    return {"anyOf": [written, whole]} if optional else written


def quantity_within(kind: Literal["size", "duration", "count", "share"], *, low: int, high: int) -> Reads:
    """Return the reader of a quantity between two others, in its base unit."""
    read = Parameter("", kind, "", low=low, high=high).parse
    between = f"{quantity.show(kind, low)} to {quantity.show(kind, high)}"
    return Reads(limited(read), _quantity_schema(kind, low, high), between)


def limited(read: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Refuses a text too long to be a quantity or a word before it is looked at."""

    def bounded(written: Any) -> Any:
        if isinstance(written, str) and len(written) > 200:
            raise ValueError(f"invalid value: a text of {len(written)} characters; expected 200 at most")
        if written is None or isinstance(written, (list, dict)):
            raise ValueError(invalid(written, "one value"))
        return read(written)

    return bounded


def one_word_of(words: Mapping[str, str] | tuple[str, ...]) -> Reads:
    """Return the reader of one of these words."""

    def read(written: Any) -> str:
        if not isinstance(written, str) or written not in words:
            raise ValueError(unknown(written if isinstance(written, str) else found(written), words))
        return written

    return Reads(read, {"enum": list(words)})


def _text(pattern: str, allowed: str) -> Reads:
    def read(written: Any) -> str:
        if not isinstance(written, str) or not re.fullmatch(pattern, written):
            raise ValueError(invalid(written, allowed))
        return written

    return Reads(read, {"type": "string", "pattern": f"^{pattern}$"}, allowed)


def switch(*more: str) -> Reads:
    """Return the reader of on and off, or one of `more`."""
    return Reads(
        limited(Parameter("", "switch", "", words=more).parse),
        {"enum": [True, False, "on", "off", "yes", "no", *more]},
        ", ".join(("on", "off", *more)),
    )


def _share(written: Any) -> float:
    if isinstance(written, str) and (match := re.fullmatch(r"\s*(\d{1,3}(?:\.\d{1,9})?)\s*%\s*", written)):
        share: Any = float(match.group(1)) / 100
    else:
        share = written
    if isinstance(share, bool) or not isinstance(share, (int, float)) or not 0 <= share <= 1:
        raise ValueError(invalid(written, "a share such as 5% or 0.05"))
    return float(share)


def _host_names(written: Any) -> Any:
    """The name of a host, or a list of such names, as they are."""
    for name in written if isinstance(written, list) and written else [written]:
        HOST_NAME_TEXT.read(name)
    return written


NAME_TEXT = _text(
    NAME, "letters, digits, dots, dashes and underscores, 64 at most, a letter or a digit first"
)
HOST_NAME_TEXT = _text(
    HOST_NAME, "a name of letters, digits, dashes and underscores, 32 at most, a letter first"
)
HOST_NAMES = Reads(
    _host_names,
    {"anyOf": [HOST_NAME_TEXT.schema, {"type": "array", "minItems": 1, "items": HOST_NAME_TEXT.schema}]},
)


def _address(written: Any) -> str:
    with suppress(ValueError):
        address = ip_address(written if isinstance(written, str) else "")
        # An address of a link means one only with the name of a device, which is another one at each host.
        zoned = address.version == 6 and (address.is_link_local or "%" in str(written))
        if not (zoned or address.is_unspecified or address.is_multicast):
            return str(written)
    raise ValueError(invalid(written, "the numeric address of a host, not of a link"))


ADDRESS = Reads(_address, {"type": "string"}, "a numeric address")
LINE = _text(r"[^\x00-\x1f]{1,200}", "a text of one line, 200 characters at most")
PROSE = _text(
    r"[^\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]{1,4000}",
    "a text of 4000 characters at most, without control characters",
)
INVENTORY = Reads(
    lambda written: written,
    {
        "anyOf": [
            {"type": "string"},
            {"type": "array", "minItems": 1, "items": {"type": ["string", "object"]}},
        ]
    },
    "a text or a list",
)
PROGRAM = _text(r"[\s\S]+", "a file, or the text of a personality")
PROFILE = _text(r"[\s\S]+", "the text of a profile")
_CPU = quantity_within("count", low=0, high=8191)
_PLACED = r"(near|far) [A-Za-z0-9_.!-]{1,64}"


def _cpus(written: Any) -> list[int] | str:
    if isinstance(written, str) and re.fullmatch(_PLACED, written):
        return written
    if not isinstance(written, list):
        raise ValueError(invalid(written, "a list of CPUs, near DEVICE or far DEVICE"))
    return [_CPU.read(each) for each in written]


CPUS = Reads(
    _cpus,
    {"anyOf": [{"type": "array", "items": _CPU.schema}, {"type": "string", "pattern": f"^{_PLACED}$"}]},
    "a list of numbers, near DEVICE or far DEVICE",
)
SHARE = Reads(
    _share,
    {"anyOf": [{"type": "number", "minimum": 0, "maximum": 1}, {"type": "string", "pattern": "%"}]},
    "0% to 100%",
)


def duration_within(low: int, high: int = 7 * 24 * HOUR_NS) -> Reads:
    """Return the reader of a duration, in ns."""
    return quantity_within("duration", low=low, high=high)


def value_of(parameter: Parameter) -> Reads:
    """Return the reader of a level of a parameter."""

    def read(written: Any) -> Any:
        if parameter.form is not None and isinstance(written, str) and "(" in written:
            return parameter.parse(written)
        if parameter.words and isinstance(written, str) and written not in parameter.words:
            raise ValueError(unknown(written, parameter.words))
        if parameter.kind == "word" and not parameter.words and parameter.form is None:
            if not isinstance(written, str) or not re.fullmatch(r"[A-Za-z0-9_.-]{1,64}", written):
                raise ValueError(invalid(written, "one word"))
            return written
        return parameter.parse(written)

    if parameter.kind == "switch":
        schema: Json = {"enum": [True, False, "on", "off", "yes", "no"]}
    elif parameter.kind == "word":
        schema = {"enum": list(parameter.words)} if parameter.words else {"type": "string"}
        if parameter.words and parameter.form is not None:
            schema = {"anyOf": [schema, {"type": "string", "pattern": "\\("}]}
    elif parameter.kind == "text":
        schema = {"type": ["string", "integer"]}
    elif parameter.kind == "path":
        schema = {"type": "string"}
    else:
        schema = _quantity_schema(parameter.kind, parameter.low, parameter.high)
        if parameter.form is not None:
            schema = {"anyOf": [schema, {"type": "string", "pattern": "\\("}]}
    return Reads(read if parameter.kind == "path" else limited(read), schema)


def value_of_option(option: AccessOption) -> Reads:
    """Return the reader of an option of an access."""
    if option.kind == "mapping":
        return Reads(option.parse, {"type": "object"})
    if option.kind == "words":
        return Reads(
            option.parse, {"type": "array", "minItems": 1, "items": {"type": "string"}}, "a list of texts"
        )
    if option.kind == "text" or option.kind == "word":
        return Reads(
            limited(option.parse), {"type": "string"}, f"a {'text' if option.kind == 'text' else 'name'}"
        )
    between = f"{quantity.show(option.kind, option.low)} to {quantity.show(option.kind, option.high)}"
    return Reads(limited(option.parse), _quantity_schema(option.kind, option.low, option.high), between)


RANGE_SCHEMA: Json = {"type": "string", "pattern": r"^[^.]+(\.[^.]+)?\s*\.\.\s*[^.]+(\.[^.]+)?$"}
"""The ends of a range, `1KiB..64KiB`, instead of a list of levels."""


def range_ends(written: Any) -> Any:
    """The two levels of a range such as `1KiB..64KiB`; anything else as it is."""
    if isinstance(written, str) and re.fullmatch(str(RANGE_SCHEMA["pattern"]), written):
        return [end.strip() for end in re.split(r"\s*\.\.\s*", written, maxsplit=1)]
    return written


class FactorSection(Section):
    """The levels of a factor; a list alone is short for `levels`."""

    @model_validator(mode="before")
    @classmethod
    def _from_list(cls, written: Any) -> Any:
        return {"levels": written} if isinstance(written, list) else written


def levels_of(parameter: Parameter) -> Any:
    """Return the type of the levels of a parameter that is varied."""
    return Annotated[list[Annotated[Any, value_of(parameter)]], Field(min_length=1, max_length=MAX_LEVELS)]
