"""Times of operations, against the main factor: from when they were to begin, and from when they did."""

from __future__ import annotations

from iodyno.analysis.summary import CampaignSummary
from iodyno.report.cost_words import is_exchange
from iodyno.report.figures.panel import Figure, estimates, interval_note

_RESPONSE = {"p50": "response, median", "p99": "response, 99th percentile"}
_SERVICE = {"p50": "service, median", "p99": "service, 99th percentile"}


def figure(summary: CampaignSummary) -> Figure | None:
    """Quantiles of response time beside those of service time. Requests of a closed loop have only these; None of others."""
    response = {f"response_time_{name}_ns": title for name, title in _RESPONSE.items()}
    of = "" if summary.on_disks else "write_"
    service = {f"{of}service_time_{name}_ns": title for name, title in _SERVICE.items()}
    panels = estimates(summary, response, "Response time")
    if not panels:
        return _closed(summary, service) if is_exchange(summary) else None
    panels += estimates(summary, service, "Service time")
    caption = (
        f"{interval_note(summary, response)} Response time counts from when an operation was to begin, service time"
        " from when it did: what waits for a connection is in the first and not in the second. Lower is better."
    )
    return Figure("How long operations take", caption, panels)


def _closed(summary: CampaignSummary, service: dict[str, str]) -> Figure | None:
    """In a closed loop a request begins when the one before it has ended, so that no time passes before it does."""
    panels = estimates(summary, {"write_service_time_mean_ns": "mean", **service}, "Time of a request")
    if not panels:
        return None
    caption = (
        f"{interval_note(summary, service)} From the first byte of a request to the last of its answer, each client waiting"
        " for its answer before it asks again. Lower is better."
    )
    return Figure("How long requests take", caption, panels)
