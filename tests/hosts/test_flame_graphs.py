"""Flame graphs of a report in a real browser: drawn without a request, zoomed, searched, walked, and told without scripts."""

from __future__ import annotations

import base64
import json
import re
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from made_calls import cost, receiver, sender
from made_campaign import Call, Truth, changed, make_campaign
from pages import IN_SIGHT, Browser, opened
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement

from iodyno.report import write_report

NASTY = "kernel:</script><script>document.title='taken'</script>"
FACTORS = [
    {"name": "connections", "levels": [1, 32], "together": {}},
    {"name": "size", "levels": [65536, 1024], "together": {}},
]


def points() -> list[tuple[dict[str, int], Truth]]:
    found = []
    for connections in (1, 32):
        for size, calls in ((65536, sender()), (1024, sender(calls=60.0, ack=70.0))):
            seen = (*calls, Call((NASTY,), 2.0))
            truth = changed(
                Truth(background=0.0),
                cost_ns_per_kib={"client": cost(seen), "server": cost(receiver())},
                calls={"client": seen, "server": receiver()},
            )
            found.append(({"connections": connections, "size": size}, truth))
    return found


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = make_campaign(tmp_path_factory.mktemp("flames") / "c", points(), factors=FACTORS)
    return write_report(folder)


@pytest.fixture(params=[420, 1400])
def shown(request: pytest.FixtureRequest, browser: Browser, report: Path) -> Iterator[Browser]:
    with opened(browser, report, request.param) as shown:
        shown.unfold()
        shown.first(".flame-tools")
        yield shown


def test_the_cost_of_a_row_leads_to_its_functions(shown: Browser) -> None:
    shown.click(shown.first("#cost td a[href='#functions-p02']"))
    shown.when("document.querySelector('#functions-p02').open")
    shown.when(IN_SIGHT, shown.first("#functions-p02 summary"))
    assert shown.first("#functions-p02 table").is_displayed()


def node(shown: Browser, number: str | None) -> WebElement:
    return shown.first(f".flame g[data-node='{number}']")


def width(place: WebElement) -> float:
    return float(place.find_element("css selector", "rect").get_attribute("width") or 0)


def test_a_click_zooms_and_the_button_shows_all_again(shown: Browser) -> None:
    place = shown.first(".flame")
    whole = width(node(shown, "0"))
    assert whole == pytest.approx(shown.box(place)[2], abs=2)
    # The costliest path of the tree: the load's own.
    inner = shown.all("g", place)[8]
    number = inner.get_attribute("data-node")
    before = width(inner)
    shown.click(inner)
    assert width(node(shown, number)) == pytest.approx(whole, abs=1) and before < whole
    assert shown.all("g.above", place)
    shown.click(shown.named("whole graph", within=place))
    assert width(node(shown, number)) == pytest.approx(before, abs=1)


def test_search_marks_functions_and_says_what_they_take(shown: Browser) -> None:
    place = shown.first(".flame")
    search, told = shown.first("input[type=search]", place), shown.first("output", place)
    search.send_keys("do_syscall")
    assert shown.all("g.hit", place)
    share = re.fullmatch(r"matched: (\d+) %, (\d+) ns/KiB", told.text)
    # Entering the kernel is in almost all of the sender's stacks.
    assert share and int(share[1]) > 50
    search.clear()
    search.send_keys("(")  # no regular expression: taken as it is
    assert not shown.all("g.hit", place) and shown.all("g.dim", place)
    search.send_keys(Keys.BACKSPACE)
    assert not shown.all("g.dim", place)
    assert told.text == ""


def test_keys_walk_the_tree(shown: Browser) -> None:
    place = shown.first(".flame")
    shown.evaluate("arguments[0].focus()", shown.first("svg", place))
    shown.press(Keys.ARROW_DOWN)
    assert shown.first("g.at", place).get_attribute("data-node") == "1"
    assert "ns/KiB" in shown.first(".flame-about", place).text
    shown.press(Keys.ENTER)
    assert len(shown.all("g.above", place)) == 1
    shown.press(Keys.ESCAPE)
    assert not shown.all("g.above", place)


def test_a_difference_shows_what_rises_beyond_noise(shown: Browser) -> None:
    place = shown.first(".flame")
    names = shown.texts("text", place)
    assert sum(name.startswith("▲ do_sys") for name in names) == 1
    # The copy is not among the changed.
    assert not any(re.match("[▲▼] _copy", name) for name in names)
    before = width(node(shown, "1"))
    shown.click(shown.named("widths of A", within=place))
    assert shown.named("widths of B", within=place)
    assert width(node(shown, "1")) != before


def test_a_points_graphs_are_drawn_when_it_is_opened(shown: Browser) -> None:
    point = shown.first("#functions .points > details")
    drawn = ".flame svg:not(.still)"
    assert not shown.all(drawn, point)
    shown.click(shown.first("summary", point))
    shown.when("arguments[0].querySelectorAll('.flame-tools').length === 2", point)
    assert len(shown.all(drawn, point)) == 2
    assert len(shown.all("table", point)) >= 3
    wide, window = shown.evaluate("[document.documentElement.scrollWidth, innerWidth]")
    assert wide <= window
    heights = shown.evaluate(
        "[...document.querySelectorAll('.flame-svg:not(.still) text')].map(t => t.getBoundingClientRect().height)"
    )
    assert min(heights) >= 9


def test_paper_has_the_graphs_of_a_part_that_was_never_opened(browser: Browser, report: Path) -> None:
    with opened(browser, report) as shown:
        drawn = "#functions > .flame svg:not(.still)"
        shown.when("document.querySelector('#functions > .flame')")
        assert not shown.all(drawn)
        # What the printer gets is the page as it is when this event is over.
        shown.when("(dispatchEvent(new Event('beforeprint')), document.querySelector(arguments[0]))", drawn)
        # All of its width, however wide the window was.
        box = shown.evaluate("document.querySelector(arguments[0]).getAttribute('viewBox')", drawn)
        assert box.startswith("0 0 688 ")
        shown.evaluate("dispatchEvent(new Event('afterprint'))")


def test_symbols_stay_text(shown: Browser) -> None:
    assert "taken" not in shown.title
    # The page's own and that of the graphs, each with its data.
    assert len(shown.all("script:not([type])")) == 2
    assert len(shown.all("script")) == 6


def test_without_scripts_the_tables_say_the_same(browser: Browser, report: Path) -> None:
    with opened(browser, report, scripts=False) as shown:
        shown.unfold()
        # The graph is there as a picture: names where they have room, the rest under the pointer.
        still = shown.first(".flame svg.still")
        assert still.is_displayed()
        assert "tcp_sendmsg" in " ".join(shown.texts("text", still))
        assert any(text.startswith("tcp_ack: A ") for text in shown.texts("title", still))
        assert NASTY.partition(":")[2] in " ".join(shown.texts("svg.still title"))
        row = next(row for row in shown.texts("#functions tr") if "tcp_ack" in row)
        assert "rises" in row
        assert shown.first("#functions .answer").text.startswith("On client, from 64KiB messages")


# Without a browser.


def test_only_this_script_may_run(report: Path) -> None:
    text = report.read_text()
    policy = re.search(r'Content-Security-Policy" content="([^"]+)"', text)
    assert policy and "default-src 'none'" in policy[1]
    assert re.search(r"script-src( 'sha256-[A-Za-z0-9+/]{43}='){2};", policy[1])
    assert "unsafe-inline" not in policy[1].split("script-src")[1].split(";")[0]


def test_the_data_of_a_graph_adds_up(report: Path) -> None:
    text = report.read_text()
    found = re.search(r'<script type="[a-z/-]+" id="flame-data">([A-Za-z0-9+/=]*)</script>', text)
    assert found
    data = json.loads(zlib.decompress(base64.b64decode(found[1])))
    for tree in data["graphs"].values():
        open_: list[tuple[int, int]] = []
        for depth, value in zip(tree["d"], tree["v"], strict=True):
            open_ = [(d, left) for d, left in open_ if d < depth]
            if open_:
                d, left = open_[-1]
                assert value <= left + 1
                open_[-1] = (d, left - value)
            open_.append((depth, value))
