"""The JSON of a campaign: `campaign.json` and the `manifest.json` of each trial, checked on reading and published in `schema/`.

Keys that the types do not name are passed over: they are of a newer version, or of nobody's concern.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Literal

from pydantic import TypeAdapter
from pydantic_core import ValidationError

from iodyno.core.invalid import invalid
from iodyno.store.campaign_json import Campaign
from iodyno.store.manifest_json import Manifest

Kind = Literal["campaign", "manifest"]


def misfit(document: Any, kind: Kind) -> str | None:
    """The first key whose value is not as it should be, with what is there and what may be; None: all are."""
    try:
        _adapter(kind).validate_python(document, strict=True)
    except ValidationError as error:
        return _first(document, error)
    return None


def json_schema(kind: Kind) -> dict[str, Any]:
    """JSON Schema of a kind of file."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **_adapter(kind).json_schema()}


@cache
def _adapter(kind: Kind) -> TypeAdapter[Any]:
    return TypeAdapter(Campaign if kind == "campaign" else Manifest)


def _first(document: Any, error: ValidationError) -> str:
    """Return what is wrong with the first value at which something is: there may be several types that it is not of."""
    allowed: dict[str, list[str]] = {}
    found: dict[str, Any] = {}
    for wrong in error.errors(include_url=False, include_context=False):
        key, value = _place(document, wrong["loc"])
        if wrong["type"] == "missing":
            return f"missing value for {key}"
        found[key] = value
        allowed.setdefault(key, []).append(wrong["msg"].removeprefix("Input should be "))
    key, texts = next(iter(allowed.items()))
    return invalid(found[key], " or ".join(dict.fromkeys(texts)), key)


def _place(document: Any, location: tuple[int | str, ...]) -> tuple[str, Any]:
    """The key that a location means, and its value: what comes after it names types that were tried."""
    key, value = "", document
    for step in location:
        if isinstance(value, list) and isinstance(step, int) and step < len(value):
            key, value = f"{key}[{step}]", value[step]
        elif isinstance(value, dict) and isinstance(step, str) and step in value:
            key, value = f"{key}.{step}" if key else step, value[step]
        elif isinstance(value, dict) and step == location[-1] and step != "[key]":
            return f"{key}.{step}" if key else str(step), None
        else:
            break
    return key, value
