"""The points of a design as text: a file of comma-separated values, or what a campaign's folder says of its points."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

from iodyno.formats import yaml_document
from iodyno.formats.given_file import read_given

MAX_BYTES = yaml_document.MAX_SCALAR // 2
"""A design is kept in the experiment file that is stored with the campaign."""
_MAX_CAMPAIGN_BYTES = 1 << 27


def text_of(path: Path) -> tuple[str | None, str]:
    """The text of a design file, or of a campaign's points in base units; and what is wrong with it, or nothing."""
    campaign = path / "campaign.json" if path.is_dir() else path
    try:
        raw = read_given(campaign, _MAX_CAMPAIGN_BYTES if path.is_dir() else MAX_BYTES)
        if path.is_dir():
            return _of_campaign(raw), ""
        if not raw:
            return None, f"{path} is empty; expected a design file of 1 to {MAX_BYTES} bytes"
        if len(raw) > MAX_BYTES:
            return None, f"{path} has more than {MAX_BYTES} bytes; expected a design file of 1 to {MAX_BYTES}"
        return yaml_document.decode(raw).replace("\r\n", "\n").replace("\r", "\n"), ""
    except yaml_document.NotYamlError as problem:
        return None, f"{path}: {problem.mistake.text}"
    except OSError as problem:
        return (
            None,
            f"{campaign} cannot be read: {problem.strerror}; expected a design file or a campaign's folder",
        )
    except (ValueError, KeyError, TypeError):
        return None, f"{campaign} cannot be read; expected the folder of a campaign"


def _of_campaign(raw: bytes) -> str:
    """A row for each trial that was planned, with the levels in base units."""
    design = json.loads(raw)["design"]
    points = {point["id"]: point["levels"] for point in design["points"]}
    names = list(next(iter(points.values())))
    written = io.StringIO()
    rows = csv.writer(written, lineterminator="\n")
    rows.writerow(["point", *names])
    for trial in design["trials"]:
        levels = points[trial["point"]]
        rows.writerow([trial["point"], *(_shown(levels[name]) for name in names)])
    return written.getvalue()


def _shown(level: object) -> object:
    return {True: "on", False: "off"}[level] if isinstance(level, bool) else level
