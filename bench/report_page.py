"""How soon a report of 50 trials is seen in a browser, beside an empty page there, and what reports of many trials cost."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from iodyno.store.writer import write_document

TESTS = Path(__file__).parents[1] / "tests"
TRIALS, POINTS, INTERVALS = 50, 10, 30
MANY = (54, 1000, 2000, 10_000)
"""Trials of the campaigns whose reports are timed; the first is what the shipped studies have."""
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


async def many(_pairs: int) -> list[dict[str, object]]:
    """Time and memory of `iodyno report` of campaigns of 54 to 10 000 trials, made of 50 by repeating them."""
    sys.path.insert(0, str(TESTS))
    return await asyncio.to_thread(_reports)


def _reports() -> list[dict[str, object]]:
    with tempfile.TemporaryDirectory() as held:
        _report(Path(held))
        return [_reported(_repeated(Path(held) / "campaign", count), count) for count in MANY]


def _reported(campaign: Path, trials: int) -> dict[str, object]:
    began = time.monotonic()
    ran = subprocess.Popen(
        [sys.executable, "-m", "iodyno", "report", str(campaign)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    most, ended = 0, 0
    while not ended:
        # Of all its processes together, what they share once.
        most = max(most, sum(map(_memory, (ran.pid, *_children(ran.pid)))))
        time.sleep(0.1)
        ended, status, used = os.wait4(ran.pid, os.WNOHANG)
    ran.returncode = os.waitstatus_to_exitcode(status)
    took = time.monotonic() - began
    page = campaign / "report.html"
    return {
        "trials": trials,
        "seconds": f"{took:.1f}" if ran.returncode == 0 else f"exit code {ran.returncode}",
        "CPU s": f"{used.ru_utime + used.ru_stime:.1f}",
        "MiB": round(most / 1024),
        "page, bytes": page.stat().st_size if page.is_file() else 0,
    }


def _children(process: int) -> list[int]:
    try:
        return [int(each) for each in Path(f"/proc/{process}/task/{process}/children").read_text().split()]
    except OSError:
        return []


def _memory(process: int) -> int:
    """Proportional set size in KiB."""
    try:
        lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))


def _repeated(campaign: Path, trials: int) -> Path:
    """The campaign with so many trials: its own, as more replicates; rows are links to the same files."""
    header = json.loads((campaign / "campaign.json").read_text())
    own = header["design"]["trials"]
    folder = campaign.with_name(f"{trials}")
    shutil.copytree(campaign, folder, ignore=shutil.ignore_patterns("trials"))
    planned = [
        {**own[order % len(own)], "order": order, "block": order // POINTS, "replicate": order // POINTS}
        for order in range(trials)
    ]
    for each in planned:
        source = campaign / "trials" / f"{each['order'] % len(own):05d}-1"
        trial = folder / "trials" / f"{each['order']:05d}-1"
        shutil.copytree(source, trial, copy_function=os.link)
        manifest = json.loads((trial / "manifest.json").read_text()) | each | {"trial": trial.name}
        (trial / "manifest.json").unlink()
        write_document(trial / "manifest.json", manifest)
    header["design"]["trials"] = planned
    write_document(folder / "campaign.json", header)
    return folder
