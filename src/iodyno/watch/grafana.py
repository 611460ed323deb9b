"""A dashboard for Grafana that shows what `/metrics` tells. Source of the form: Grafana's dashboard JSON model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

_SOURCE = {"type": "prometheus", "uid": "${source}"}
_RATE = "$__rate_interval"
_HOSTS = 'host=~"$host"'
_WIDE, _HIGH = 12, 8

_PANELS: tuple[tuple[str, str, str, str], ...] = (
    ("Operations by type", "type", "iodyno_service_time_seconds_count", "ops"),
    ("Payload by host", "host, direction", "iodyno_payload_bytes_total", "Bps"),
    ("CPU time by class", "class", "iodyno_cpu_seconds_total", "none"),
    ("CPU time by host", "host", "iodyno_cpu_seconds_total", "none"),
    ("Network by device", "device, direction", "iodyno_network_bytes_total", "Bps"),
    ("Disk by device", "disk, direction", "iodyno_disk_bytes_total", "Bps"),
    ("TCP segments sent again", "host", "iodyno_tcp_retransmitted_segments_total", "ops"),
)
"""Title, labels that tell its lines apart, counter, unit of Grafana."""


def dashboard() -> dict[str, Any]:
    """The dashboard, to be imported as it is; it asks for the data source."""
    panels = [_rates(*panel) for panel in _PANELS]
    panels.append(
        _series(
            "Connections by host", [(f"sum by (host) (iodyno_connections{{{_HOSTS}}})", "{{host}}")], "none"
        )
    )
    quantiles = [
        (
            f"histogram_quantile({q}, sum by (le) (rate(iodyno_service_time_seconds_bucket{{{_HOSTS}}}[{_RATE}])))",
            f"p{100 * q:g}",
        )
        for q in (0.5, 0.99, 0.999)
    ]
    panels.insert(2, _series("Service time", quantiles, "s"))
    panels.insert(3, _heat_map())
    for number, panel in enumerate(panels):
        panel["id"] = number + 2
        panel["gridPos"] = {
            "x": number % 2 * _WIDE, "y": 4 + number // 2 * _HIGH, "w": _WIDE, "h": _HIGH,
        }  # fmt: skip
    head = [
        _number(1, "Trials finished", 'iodyno_trials{status="finished"}', "none", 0),
        _number(20, "Trials failed", 'iodyno_trials{status="failed"}', "none", 8),
        _number(21, "Time left", "iodyno_left_seconds", "s", 16),
    ]
    return {
        "title": "iodyno campaign",
        "uid": "iodyno-watch",
        "tags": ["iodyno"],
        "schemaVersion": 39,
        "refresh": "5s",
        "time": {"from": "now-15m", "to": "now"},
        "templating": {
            "list": [
                {"name": "source", "type": "datasource", "query": "prometheus", "label": "Data source"},
                {
                    "name": "host",
                    "type": "query",
                    "label": "Host",
                    "datasource": _SOURCE,
                    "query": {"query": "label_values(iodyno_records_total, host)", "refId": "host"},
                    "includeAll": True,
                    "multi": True,
                    "refresh": 2,
                    "current": {"text": "All", "value": "$__all"},
                },
            ]
        },
        "annotations": {
            "list": [
                {
                    "name": "Trials",
                    "datasource": _SOURCE,
                    "enable": True,
                    "iconColor": "blue",
                    "expr": "iodyno_trial_info",
                    "titleFormat": "trial {{trial}}",
                    "textFormat": "{{levels}}",
                }
            ]
        },
        "panels": head + panels,
    }


def _rates(title: str, labels: str, counter: str, unit: str) -> dict[str, Any]:
    query = f"sum by ({labels}) (rate({counter}{{{_HOSTS}}}[{_RATE}]))"
    return _series(title, [(query, " ".join(f"{{{{{label}}}}}" for label in labels.split(", ")))], unit)


def _series(title: str, queries: Sequence[tuple[str, str]], unit: str) -> dict[str, Any]:
    return {
        "title": title,
        "type": "timeseries",
        "datasource": _SOURCE,
        "fieldConfig": {"defaults": {"unit": unit, "min": 0, "custom": {"fillOpacity": 20}}, "overrides": []},
        "targets": [
            {"refId": chr(65 + n), "datasource": _SOURCE, "expr": query, "legendFormat": legend}
            for n, (query, legend) in enumerate(queries)
        ],
    }


def _heat_map() -> dict[str, Any]:
    query = f"sum by (le) (increase(iodyno_service_time_seconds_bucket{{{_HOSTS}}}[{_RATE}]))"
    return {
        "title": "Service time, all operations",
        "type": "heatmap",
        "datasource": _SOURCE,
        "options": {
            "calculate": False,
            "yAxis": {"unit": "s"},
            "color": {"mode": "scheme", "scheme": "Viridis"},
        },
        "targets": [
            {
                "refId": "A",
                "datasource": _SOURCE,
                "expr": query,
                "format": "heatmap",
                "legendFormat": "{{le}}",
            }
        ],
    }


def _number(number: int, title: str, query: str, unit: str, at: int) -> dict[str, Any]:
    return {
        "id": number,
        "title": title,
        "type": "stat",
        "datasource": _SOURCE,
        "gridPos": {"x": at, "y": 0, "w": 8, "h": 4},
        "fieldConfig": {"defaults": {"unit": unit}, "overrides": []},
        "targets": [{"refId": "A", "datasource": _SOURCE, "expr": query}],
    }
