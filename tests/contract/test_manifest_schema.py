"""The published schemas of a campaign's JSON are the code's, and what is written keeps to them."""

from __future__ import annotations

import json
import os
from pathlib import Path

import jsonschema
import pytest
from made_campaign import Truth, make_campaign

from iodyno.store.documents import Kind, json_schema, misfit

SCHEMAS = Path(__file__).parents[2] / "schema"


@pytest.mark.parametrize("kind", ["campaign", "manifest"])
def test_the_published_schema_is_current(kind: Kind) -> None:
    path = SCHEMAS / f"{kind}.schema.json"
    if os.environ.get("IODYNO_UPDATE"):
        path.write_text(json.dumps(json_schema(kind), indent=2) + "\n", encoding="utf-8")
    assert json.loads(path.read_text()) == json_schema(kind), "run `make schema`"


def test_what_is_written_keeps_to_it(tmp_path: Path) -> None:
    folder = make_campaign(tmp_path / "c", [({"connections": 1}, Truth())])
    manifests = list(folder.glob("*/*/manifest.json"))
    assert len(manifests) == 5
    for manifest in manifests:
        jsonschema.validate(json.loads(manifest.read_text()), json_schema("manifest"))
    jsonschema.validate(json.loads((folder / "campaign.json").read_text()), json_schema("campaign"))


@pytest.mark.parametrize(
    ("place", "other", "said"),
    [
        (("trial",), 7, "invalid value 7 for trial: expected a valid string"),
        (("order",), True, "invalid value true for order: expected a valid integer"),
        (("levels", "connections"), None, "missing value for levels.connections: expected a valid integer or"),
        (("hosts", "client", "role"), "both", "invalid value 'both' for hosts.client.role: expected 'send', 'receive'"),
        (("parts", "series.parquet", "rows"), -1, "invalid value -1 for parts.series.parquet.rows: expected greater"),
        (("parts", "more.parquet"), {}, "missing value for parts.more.parquet.sha256"),
        (("hosts", "client", "result", "bytes"), [], "invalid value for hosts.client.result.bytes: an empty list; expected a valid integer"),  # noqa: E501
    ],
)  # fmt: skip
def test_checks_on_reading_and_the_schema_agree(
    tmp_path: Path, place: tuple[str, ...], other: object, said: str
) -> None:
    folder = make_campaign(tmp_path / "c", [({"connections": 1}, Truth())])
    top = at = json.loads((folder / "trials" / "00000-1" / "manifest.json").read_text())
    assert misfit(top, "manifest") is None
    for key in place[:-1]:
        at = at[key]
    at[place[-1]] = other
    assert said in (misfit(top, "manifest") or "")
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(top, json_schema("manifest"))


def test_a_key_that_is_not_there_is_named() -> None:
    assert misfit({}, "manifest") == "missing value for schema_version"
    assert (misfit([], "campaign") or "").endswith(
        "invalid value: an empty list; expected a valid dictionary"
    )
