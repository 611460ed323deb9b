"""What `iodyno search` prints of a search that is stored."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import pytest
from made_campaign import Layout, Truth, make_campaign

from iodyno.cli.search import _show
from iodyno.core.search import Found, SearchSpec, parse_goal

SPEC = SearchSpec(parse_goal("p99 <= 1ms"), low=100, high=10_000)


def searched(folder: Path, found: Found) -> Path:
    """A campaign of one trial at each of three rates, with this end of its search."""
    points = [({"rate": rate}, Truth()) for rate in (10_000, 900, 2500)]
    made = make_campaign(folder, points, layout=Layout(replicates=1, idle=("before",)))
    header = json.loads((made / "campaign.json").read_text())
    header["experiment"]["search"] = asdict(SPEC)
    header["search"] = {"found": [asdict(found)]}
    (made / "campaign.json").write_text(json.dumps(header))
    return made


def test_json_has_the_rates_by_number_and_the_warnings(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = Found("p1", {}, 2000.0, 1900.0, 2100.0, 1950, 3, "precise", "the generator may be the limit")
    _show(searched(tmp_path / "s", found), "json")
    told = json.loads(capsys.readouterr().out)
    assert [one["levels"]["rate"] for one in told["tried"]] == [900, 2500, 10_000]
    assert any(one["code"] == "background" for one in told["warnings"])
    assert told["found"][0]["warning"] == "the generator may be the limit"


def test_of_a_wall_outside_json_has_no_number(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = Found("p1", {}, 10_000.0, 10_000.0, 10_000.0, 10_000, 3, "edge")
    _show(searched(tmp_path / "s", found), "json")
    (one,) = json.loads(capsys.readouterr().out)["found"]
    assert (one["estimate"], one["low"], one["high"]) == (None, 10_000, None)
