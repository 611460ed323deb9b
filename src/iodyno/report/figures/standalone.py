"""Panels as one SVG file, or one page with text, with the colours of the report."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape
from importlib.resources import files
from pathlib import Path

from iodyno.core.errors import StoreError
from iodyno.report.figures import axes
from iodyno.report.figures.panel import Figure
from iodyno.store.files import write_file

_BOX = re.compile(r'viewBox="0 0 (\d+) (\d+)"')
_GAP = 16


def write_svg(figure: Figure, path: Path) -> Path:
    """Writes the panels, one below the other. Raises StoreError when that cannot be done."""
    return _written(path, picture(axes.draw(figure)), "--svg")


def write_html(title: str, text: str, figure: Figure | None, path: Path) -> Path:
    """Writes a page that needs no network: the panels, and the text as a terminal shows it. Raises StoreError."""
    panels = f'<div class="panels">{"".join(axes.draw(figure))}</div>' if figure is not None else ""
    page = (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; img-src data:\">"
        f'<title>{escape(title)}</title><link rel="icon" href="data:,"><style>{_style()}</style></head>'
        f'<body><header><h1>{escape(title)}</h1></header><main>{panels}<div class="scroll"><pre>{escape(text)}</pre></div>'
        "</main></body></html>\n"
    )
    return _written(path, page, "--html")


def _written(path: Path, text: str, option: str) -> Path:
    try:
        write_file(path, text.encode())
    except OSError as problem:
        raise StoreError(
            f"it cannot be written: {problem.strerror or problem}",
            where=str(path),
            advice=f"name another place with {option}",
        ) from problem
    return path


def _style() -> str:
    return files("iodyno.report").joinpath("templates/style.css").read_text(encoding="utf-8")


def picture(panels: Sequence[str]) -> str:
    """One SVG document of several."""
    sizes = [tuple(map(int, found.groups())) for svg in panels if (found := _BOX.search(svg))]
    width, height = max(w for w, _ in sizes), sum(h + _GAP for _, h in sizes)
    parts, top = [], 0
    for svg, (w, h) in zip(panels, sizes, strict=True):
        parts.append(svg.replace("<svg ", f'<svg x="0" y="{top}" width="{w}" height="{h}" ', 1))
        top += h + _GAP
    # Fonts and colours of the page; what it says of its other elements finds none here.
    rules = _style().replace(
        "svg.fig { display: block; width: 100%; height: auto; max-width: 720px;", "svg.fig {"
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}"'
        f' font-family="system-ui, -apple-system, Segoe UI, Roboto, sans-serif"><style>{rules}</style>'
        f'<rect width="{width}" height="{height}" style="fill: var(--paper)"/>{"".join(parts)}</svg>\n'
    )
