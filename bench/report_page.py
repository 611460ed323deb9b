"""How soon a report of 50 trials is seen in a browser, beside an empty page in the same browser."""

from __future__ import annotations

import asyncio
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path

TESTS = Path(__file__).parents[1] / "tests"
TRIALS, POINTS, INTERVALS = 50, 10, 30
EMPTY = "<!doctype html><title>empty</title><p>nothing"
CHROMIUM = ("chromium", "chromium-browser", "google-chrome")
_PAINTED = """() => new Promise(found => {
  const first = () => performance.getEntriesByName('first-contentful-paint')[0];
  if (first()) return found(first().startTime);
  new PerformanceObserver(() => { if (first()) found(first().startTime); }).observe({ type: 'paint', buffered: true });
})"""


async def first_paint(pairs: int) -> list[dict[str, object]]:
    """First contentful paint of a report of 50 trials, in turn with that of an empty page."""
    program = next((found for name in CHROMIUM if (found := shutil.which(name))), None)
    if program is None:
        print("  skipped: no Chromium here (apt-get install chromium)", file=sys.stderr)
        return [{"page": "skipped: no Chromium"}]
    return await asyncio.to_thread(_measure, program, pairs)


def _measure(program: str, pairs: int) -> list[dict[str, object]]:
    from playwright.sync_api import sync_playwright

    with tempfile.TemporaryDirectory() as held:
        folder = Path(held)
        began = time.process_time()
        report = _report(folder)
        written_s = time.process_time() - began
        empty = folder / "empty.html"
        empty.write_text(EMPTY)
        seen: dict[str, list[float]] = {"empty": [], "report": []}
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(
                executable_path=program, args=["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
            )
            for _ in range(pairs):
                for name, path in (("empty", empty), ("report", report)):
                    # A context of its own, so that nothing is kept from the one before.
                    context = browser.new_context(viewport={"width": 1400, "height": 900})
                    page = context.new_page()
                    page.goto(path.as_uri())
                    seen[name].append(page.evaluate(_PAINTED))
                    context.close()
            browser.close()
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
    sys.path.insert(0, str(TESTS))
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
