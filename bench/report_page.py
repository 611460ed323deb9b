"""How soon a report of 50 trials is seen in a browser, beside an empty page in the same browser."""

from __future__ import annotations

import asyncio
import statistics
import sys
import tempfile
import time
from pathlib import Path

TESTS = Path(__file__).parents[1] / "tests"
TRIALS, POINTS, INTERVALS = 50, 10, 30
EMPTY = "<!doctype html><title>empty</title><p>nothing"
_PAINTED = """new Promise(found => {
  const first = () => performance.getEntriesByName('first-contentful-paint')[0];
  if (first()) return found(first().startTime);
  new PerformanceObserver(() => { if (first()) found(first().startTime); }).observe({ type: 'paint', buffered: true });
})"""


async def first_paint(pairs: int) -> list[dict[str, object]]:
    """First contentful paint of a report of 50 trials, in turn with that of an empty page."""
    sys.path.insert(0, str(TESTS))
    from pages import MISSING

    if MISSING:
        print(f"  skipped: {MISSING}", file=sys.stderr)
        return [{"page": f"skipped: {MISSING}"}]
    return await asyncio.to_thread(_measure, pairs)


def _measure(pairs: int) -> list[dict[str, object]]:
    from pages import opened, started

    with tempfile.TemporaryDirectory() as held:
        folder = Path(held)
        began = time.process_time()
        report = _report(folder)
        written_s = time.process_time() - began
        empty = folder / "empty.html"
        empty.write_text(EMPTY)
        seen: dict[str, list[float]] = {"empty": [], "report": []}
        with started() as browser:
            for _ in range(pairs):
                for name, path in (("empty", empty), ("report", report)):
                    with opened(browser, path, 1400) as page:
                        seen[name].append(page.evaluate(_PAINTED))
        return [
            {
                "page": f"report of {TRIALS} trials" if name == "report" else "empty",
                "bytes": (report if name == "report" else empty).stat().st_size,
                "first paint, ms": f"{statistics.median(each):.0f} [{min(each):.0f}, {max(each):.0f}]",
                "read, analysed, written, CPU s": f"{written_s:.1f}" if name == "report" else "",
            }
            for name, each in seen.items()
        ]


def _report(folder: Path) -> Path:
    """A campaign of a known truth, as the tests of the report make them, and its page."""
    from made_campaign import Layout, Truth, make_campaign
    from made_classes import ExactTruth

    from iodyno.report import write_report

    levels = [
        {"connections": connections, "size": size}
        for connections in (1, 4, 32, 100, 1000)
        for size in (65536, 1024)
    ]
    truth = Truth(exact=ExactTruth(wander=0.05), times_spread=0.8)
    factors = [
        {"name": "connections", "levels": [1, 4, 32, 100, 1000], "together": {}},
        {"name": "size", "levels": [65536, 1024], "together": {}},
    ]
    made = make_campaign(
        folder / "campaign",
        [(each, truth) for each in levels],
        factors=factors,
        layout=Layout(replicates=TRIALS // POINTS, intervals=INTERVALS),
    )
    return write_report(made)
