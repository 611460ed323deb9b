"""Report of a script: that of streams, and a table for each group before it."""

from __future__ import annotations

from typing import Any

from iodyno.analysis.results import CampaignSummary
from iodyno.loads.network.report.load import StreamLoad
from iodyno.loads.script.report.section import script_json, script_sentences, script_tables
from iodyno.report.table import Table


class ScriptLoad(StreamLoad):
    """Parts of a script, which names the protocol of each of its connections."""

    done = "both hosts of the script"
    one_transport = False

    def tables_before(self, summary: CampaignSummary) -> list[Table]:
        """Return the tables of the groups."""
        return script_tables(summary.scripts)

    def remarks(self, summary: CampaignSummary) -> list[str]:
        """Return what is said of the groups."""
        return script_sentences(summary.scripts)

    def json(self, summary: CampaignSummary) -> dict[str, Any]:
        """Return the results of each group."""
        return {"scripts": [script_json(found) for found in summary.scripts]} if summary.scripts else {}


LOADS = {"script": ScriptLoad()}
