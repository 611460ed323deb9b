"""The published schema of a trial's manifest is the code's, and manifests keep to it."""

from __future__ import annotations

import json
import os
from pathlib import Path

import jsonschema
from made_campaign import Truth, make_campaign

from iodyno.store.schema import manifest_json_schema, write_manifest_schema

SCHEMAS = Path(__file__).parents[2] / "schema"


def test_the_published_schema_is_current() -> None:
    if os.environ.get("IODYNO_UPDATE"):
        write_manifest_schema(SCHEMAS)
    published = json.loads((SCHEMAS / "manifest.schema.json").read_text())
    assert published == manifest_json_schema(), "run `make schema`"


def test_manifests_keep_to_it(tmp_path: Path) -> None:
    folder = make_campaign(tmp_path / "c", [({"connections": 1}, Truth())])
    manifests = list(folder.glob("*/*/manifest.json"))
    assert len(manifests) == 5
    for manifest in manifests:
        jsonschema.validate(json.loads(manifest.read_text()), manifest_json_schema())
