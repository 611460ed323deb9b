"""A page in few bytes: what is left out of its script and style makes no difference; what is put aside comes back."""

from __future__ import annotations

import base64
import json
import re
import zlib
from html.parser import HTMLParser
from importlib.resources import files

import made_summary
import pytest

from iodyno.report.deferred import Deferred, fitted
from iodyno.report.html import page
from iodyno.report.page_script import shorter_script, shorter_style

TEXTS = ("flame_graph.js", "report.js")


class Seen(HTMLParser):
    """What a page holds in order: tags with their attributes, and text with white space as a browser shows it."""

    def __init__(self, markup: str) -> None:
        super().__init__()
        self.found: list[object] = []
        self.verbatim = 0
        self.feed(markup)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, attrs))
        self.verbatim += tag in ("pre", "script", "style")

    def handle_endtag(self, tag: str) -> None:
        self.verbatim -= tag in ("pre", "script", "style")
        self.found.append(f"/{tag}")

    def handle_data(self, data: str) -> None:
        text = data if self.verbatim else " ".join(data.split())
        if text:
            # Two texts without a tag between them are one.
            if self.found and isinstance(self.found[-1], list):
                self.found[-1].append(text)
            else:
                self.found.append([text])


@pytest.mark.parametrize("name", TEXTS)
def test_no_string_of_a_script_goes_over_a_line(name: str) -> None:
    # Or taking away indents and lines that look like comments would change it.
    for line in (files("iodyno.report") / "templates" / name).read_text().splitlines():
        if not line.strip().startswith("//"):
            assert line.split("//")[0].count("`") % 2 == 0, line
            assert "/*" not in line


def test_scripts_and_styles_are_shorter_and_the_same() -> None:
    for name in TEXTS:
        text = (files("iodyno.report") / "templates" / name).read_text()
        kept = [
            line.strip() for line in text.splitlines() if line.strip() and not line.strip().startswith("//")
        ]
        assert [line for line in shorter_script(text).splitlines() if line] == kept
    style = (files("iodyno.report") / "templates" / "style.css").read_text()
    assert re.sub(r"\s", "", shorter_style(style)) == re.sub(r"/\*.*?\*/|\s", "", style, flags=re.DOTALL)


def test_what_is_put_aside_comes_back_whole() -> None:
    deferred = Deferred({"maps": 10, "windows": 5})
    assert [deferred("maps", str(n), "x" * 5) for n in range(3)] == [False, False, True]
    assert deferred("maps", "3", "x"), "nothing stands between parts that need the script"
    assert deferred("windows", "0", "</script>")
    text = zlib.decompress(base64.b64decode(deferred.packed()))
    assert json.loads(text) == {"maps-2": "xxxxx", "maps-3": "x", "windows-0": "</script>"}


def test_a_page_holds_as_much_as_it_has_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    parts = [("outcomes", 300), *(("panels", 100) for _ in range(8)), *(("windows", 50) for _ in range(4))]

    def rendered(deferred: Deferred) -> str:
        kept = (
            "x" * size
            for number, (kind, size) in enumerate(parts)
            if not deferred(kind, str(number), "x" * size)
        )
        return "base" * 25 + "".join(kept)

    for room, wanted in ((2000, 1400), (1400, 1400), (1000, 900), (50, 100)):
        monkeypatch.setattr("iodyno.report.deferred.PAGE_BYTES", room)
        monkeypatch.setattr("iodyno.report.deferred._LEAST", 10)
        # Numbers come first: pictures have what is left, a seventh of what is put aside taken for its compressed form.
        assert len(fitted(rendered)) == pytest.approx(wanted, abs=100)
        assert len(fitted(rendered)) <= max(room, 100)


def test_every_part_that_is_put_aside_has_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    summary = made_summary.summary()
    whole = page(summary)
    assert "data-deferred=" not in whole, "a small page has no part that needs the script"
    monkeypatch.setattr("iodyno.report.deferred.PAGE_BYTES", 0)
    short = page(summary)
    places = re.findall(r'data-deferred="([\w-]+)"', short)
    packed = re.search(r'id="deferred">([^<]*)<', short)
    assert packed is not None
    parts = json.loads(zlib.decompress(base64.b64decode(packed[1])))
    assert sorted(parts) == sorted(places)
    assert "outcomes-every" in parts
    # Put back, it is the page that it would have been.
    back = re.sub(r'<div data-deferred="([\w-]+)">.*?</div>', lambda found: parts[found[1]], short)
    back = re.sub(r'<script type="application/octet-stream" id="deferred">[^<]*</script>', "", back)
    assert Seen(back).found == Seen(whole).found
