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
from made_campaign import Call, Layout, Truth, changed, make_campaign
from playwright.sync_api import Browser, Locator, Page, expect

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
def shown(request: pytest.FixtureRequest, browser: Browser, report: Path) -> Iterator[Page]:
    context = browser.new_context(viewport={"width": request.param, "height": 900})
    shown = context.new_page()
    trouble: list[str] = []
    shown.on("console", lambda message: trouble.append(message.text))
    shown.on("pageerror", lambda error: trouble.append(str(error)))
    shown.on(
        "request",
        lambda asked: None if asked.url.startswith(("file:", "data:")) else trouble.append(asked.url),
    )
    shown.goto(report.as_uri())
    shown.wait_for_selector(".flame-tools")
    yield shown
    assert trouble == []
    context.close()


def test_the_cost_of_a_row_leads_to_its_functions(shown: Page) -> None:
    shown.locator("#cost td a[href='#functions-p02']").first.click()
    expect(shown.locator("#functions-p02")).to_have_attribute("open", "")
    expect(shown.locator("#functions-p02 summary").first).to_be_in_viewport()
    assert shown.locator("#functions-p02 table").first.is_visible()


def graph(shown: Page) -> Locator:
    return shown.locator(".flame").first


def box(place: Locator, name: str) -> Locator:
    return place.locator("g", has=place.page.locator(f"text:text-matches('^[▲▼ ]*{name}$')")).first


def width(place: Locator) -> float:
    return float(place.locator("rect").get_attribute("width") or 0)


def test_a_click_zooms_and_the_button_shows_all_again(shown: Page) -> None:
    place = graph(shown)
    whole = width(place.locator("g[data-node='0']"))
    assert whole == pytest.approx(place.bounding_box()["width"], abs=2)  # type: ignore[index]
    # The dearest path of the tree: the load's own.
    inner = place.locator("g").nth(8)
    number = inner.get_attribute("data-node")
    before = width(inner)
    inner.click()
    zoomed = place.locator(f"g[data-node='{number}']")
    assert width(zoomed) == pytest.approx(whole, abs=1) and before < whole
    assert place.locator("g.above").count() > 0
    place.get_by_role("button", name="whole graph").click()
    assert width(place.locator(f"g[data-node='{number}']")) == pytest.approx(before, abs=1)


def test_search_marks_functions_and_says_what_they_take(shown: Page) -> None:
    place = graph(shown)
    place.get_by_role("searchbox").fill("do_syscall")
    assert place.locator("g.hit").count() >= 1
    said = place.locator("output").inner_text()
    share = re.fullmatch(r"matched: (\d+) %, (\d+) ns/KiB", said)
    # Entering the kernel is in almost all of the sender's stacks.
    assert share and int(share[1]) > 50
    place.get_by_role("searchbox").fill("(")  # no regular expression: taken as it is
    assert place.locator("g.hit").count() == 0
    place.get_by_role("searchbox").fill("")
    assert place.locator("g.dim").count() == 0
    assert place.locator("output").inner_text() == ""


def test_keys_walk_the_tree(shown: Page) -> None:
    place = graph(shown)
    svg = place.locator("svg")
    svg.focus()
    svg.press("ArrowDown")
    assert place.locator("g.at").get_attribute("data-node") == "1"
    assert "ns/KiB" in place.locator(".flame-about").inner_text()
    svg.press("Enter")
    assert place.locator("g.above").count() == 1
    svg.press("Escape")
    assert place.locator("g.above").count() == 0


def test_a_difference_shows_what_rises_beyond_noise(shown: Page) -> None:
    place = graph(shown)
    assert place.locator("text", has_text=re.compile("^▲ do_sys")).count() == 1
    # The copy is not among the changed.
    assert place.locator("text", has_text=re.compile("^[▲▼] _copy")).count() == 0
    widths = place.locator("g[data-node='1']")
    before = width(widths)
    place.get_by_role("button", name="widths of A").click()
    assert place.get_by_role("button", name="widths of B").count() == 1
    assert width(widths) != before


def test_a_points_graphs_are_drawn_when_it_is_opened(shown: Page) -> None:
    point = shown.locator("#functions .points > details").first
    assert point.locator(".flame svg:not(.still)").count() == 0
    point.locator("summary").first.click()
    point.locator(".flame-tools").last.wait_for()
    assert point.locator(".flame svg:not(.still)").count() == 2
    assert point.locator("table").count() >= 3
    wide, window = shown.evaluate("[document.documentElement.scrollWidth, innerWidth]")
    assert wide <= window
    heights = shown.evaluate(
        "[...document.querySelectorAll('.flame-svg:not(.still) text')].map(t => t.getBoundingClientRect().height)"
    )
    assert min(heights) >= 9


def test_symbols_stay_text(shown: Page) -> None:
    assert "taken" not in shown.title()
    # The page's own and that of the graphs, each with its data.
    assert shown.locator("script:not([type])").count() == 2
    assert shown.locator("script").count() == 5


def test_without_scripts_the_tables_say_the_same(browser: Browser, report: Path) -> None:
    context = browser.new_context(java_script_enabled=False)
    shown = context.new_page()
    shown.goto(report.as_uri())
    # The graph is there as a picture: names where they have room, the rest under the pointer.
    still = graph(shown).locator("svg.still")
    assert still.is_visible()
    assert "tcp_sendmsg" in " ".join(still.locator("text").all_text_contents())
    told = still.locator("title").all_text_contents()
    assert any(text.startswith("tcp_ack: A ") for text in told)
    assert NASTY.partition(":")[2] in " ".join(shown.locator("svg.still title").all_text_contents())
    row = shown.locator("#functions tr", has_text="tcp_ack").first
    assert "rises" in row.inner_text()
    assert shown.locator("#functions .answer").first.inner_text().startswith("On client, from 64KiB messages")
    context.close()


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


def test_fifty_trials_with_profiles_fit_into_one_and_a_half_megabytes(tmp_path: Path) -> None:
    many = tuple(
        Call((*call.frames, *(f"kernel:function_{b}_{n}" for n in range(12))), call.weight, call.owner, call.mode)
        for call in sender()
        for b in range(40)
    )  # fmt: skip
    levels = [
        (
            {"connections": n, "size": 65536},
            changed(Truth(samples=6000), calls={"client": many, "server": many}),
        )
        for n in range(1, 11)
    ]
    factors = [{"name": "connections", "levels": list(range(1, 11)), "together": {}}]
    folder = make_campaign(tmp_path / "c", levels, factors=factors, layout=Layout(replicates=5, intervals=30))
    assert write_report(folder).stat().st_size <= 1_500_000
