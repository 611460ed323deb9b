"""Times of operations, against the main factor: from when they were to begin, and from when they did."""

from __future__ import annotations

from iodyno.analysis.results import CampaignSummary
from iodyno.loads.base.report import load_of
from iodyno.report.figures.panel import Figure, estimates, interval_note

_QUANTILES = {"p50": "median", "p99": "99th percentile"}


def figure(summary: CampaignSummary) -> Figure | None:
    """Quantiles of response time beside those of service time. Requests of a closed loop have only these; None of others."""
    load = load_of(summary)
    if load.asks:
        return _of_requests(summary)
    response = {f"response_time_{name}_ns": f"response, {title}" for name, title in _QUANTILES.items()}
    service = {
        f"{load.operation}service_time_{name}_ns": f"service, {title}" for name, title in _QUANTILES.items()
    }
    panels = estimates(summary, response, "Response time")
    if not panels:
        return None
    panels += estimates(summary, service, "Service time")
    caption = (
        f"{interval_note(summary, response)} Response time counts from when an operation was to begin, service time"
        " from when it did: what waits for a connection is in the first and not in the second. Lower is better."
    )
    return Figure("How long operations take", caption, panels)


def _of_requests(summary: CampaignSummary) -> Figure | None:
    """Quantiles of latency, from the schedule where there is one, and from the first byte of a request."""
    scheduled = {f"latency_from_schedule_{name}_ns": title for name, title in _QUANTILES.items()}
    latency = {f"latency_{name}_ns": title for name, title in _QUANTILES.items()}
    panels = estimates(summary, scheduled, "Latency from schedule")
    if panels:
        panels += estimates(summary, latency, "Latency")
        caption = (
            f"{interval_note(summary, scheduled)} Latency from schedule counts from when a request was to begin, latency from"
            " when it did: what waits for a connection is in the first and not in the second. Lower is better."
        )
        return Figure("How long requests take", caption, panels)
    # In a closed loop a request begins when the one before it has ended, so that no time passes before it does.
    panels = estimates(summary, {"latency_mean_ns": "mean", **latency}, "Latency")
    if not panels:
        return None
    caption = (
        f"{interval_note(summary, latency)} From the first byte of a request to the last of its response, each client waiting"
        " for its response before it asks again. Lower is better."
    )
    return Figure("How long requests take", caption, panels)
