"""iodyno: the dynamometer for network and storage I/O."""

from __future__ import annotations

from os import PathLike
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from iodyno.analysis.frames import CampaignFrames

__all__ = ["load"]


def load(path: str | PathLike[str]) -> CampaignFrames:
    """The campaign in the folder `path`, as frames for a notebook.

    The result has DuckDB relations `.trials`, `.records`, `.histograms`, `.series`, `.sensors`, `.outcomes` (a
    row per trial and outcome) and `.points` (a row per point and outcome, with interval). Raises
    `iodyno.core.errors.StoreError` when the folder is not one of a campaign.
    """
    from iodyno.analysis.frames import CampaignFrames

    return CampaignFrames(path)
