"""What docs/guides/experiments.md says of a campaign's frames is what `iodyno.load` gives."""

from __future__ import annotations

import re
from functools import cached_property
from pathlib import Path

from made_campaign import Layout, Truth, make_campaign

import iodyno
from iodyno.analysis.frames import CampaignFrames

PAGE = Path(__file__).parents[2] / "docs" / "guides" / "experiments.md"


def test_the_page_names_the_frames_and_columns_of_their_numbers(tmp_path: Path) -> None:
    points = [({"connections": n, "size": 65536}, Truth()) for n in (1, 4)]
    campaign = iodyno.load(make_campaign(tmp_path / "c", points, layout=Layout(replicates=2, idle=())))
    said = PAGE.read_text(encoding="utf-8").partition("relation of DuckDB")[2]
    names = re.findall(r"`(\w+)`", said)
    frames = [name for name, value in vars(CampaignFrames).items() if isinstance(value, cached_property)]
    assert {name for name in frames if name[0] != "_"} - {"summary"} == {*names[:8]}
    assert {*names[8:]} <= {*campaign.points.columns}
