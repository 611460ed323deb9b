"""What docs/guides/experiments.md says of a campaign's frames is what `iodyno.load` gives."""

from __future__ import annotations

import re
from pathlib import Path

from made_campaign import Layout, Truth, make_campaign

import iodyno

PAGE = Path(__file__).parents[2] / "docs" / "guides" / "experiments.md"


def test_the_frames_have_the_columns_that_the_page_names(tmp_path: Path) -> None:
    points = [({"connections": n, "size": 65536}, Truth()) for n in (1, 4)]
    campaign = iodyno.load(make_campaign(tmp_path / "c", points, layout=Layout(replicates=2, idle=())))
    rows = re.findall(
        r"(?m)^\| `(\w+)` \| ([a-z, ]+) \| ((?:`\w+`(?:, )?)+) \|$", PAGE.read_text(encoding="utf-8")
    )
    assert [name for name, *_ in rows] == [
        "trials",
        "records",
        "histograms",
        "series",
        "sensors",
        "outcomes",
        "points",
    ]
    for name, _, columns in rows:
        levels = {"connections", "size"} if name in ("trials", "outcomes", "points") else set()
        assert set(re.findall(r"`(\w+)`", columns)) == set(getattr(campaign, name).columns) - levels, name
