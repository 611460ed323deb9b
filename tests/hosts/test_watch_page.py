"""The live page in a real browser: it is quiet, near, loses nothing, and tells who produced what."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest
from contrast import contrast
from made_campaign import Layout, Truth, make_campaign
from made_feed import line, tell_trial, unfinished
from playwright.sync_api import Browser, Page

from iodyno.campaign.feed import Feed
from iodyno.watch.board import Board
from iodyno.watch.server import serve

NASTY = '<img src=x onerror="document.title=1">'


@contextmanager
def served(folder: Path) -> Iterator[tuple[str, Board]]:
    board, stop = Board(folder), Event()
    thread = Thread(target=board.run, args=(stop,))
    thread.start()
    try:
        with serve(board, 0) as address:
            yield address, board
    finally:
        stop.set()
        thread.join()
        board.close()


@contextmanager
def looking(browser: Browser, address: str, width: int = 1400, **more: Any) -> Iterator[Page]:
    """A page at the address, which must say nothing on its console and ask for nothing elsewhere."""
    context = browser.new_context(viewport={"width": width, "height": 900}, **more)
    page, trouble = context.new_page(), []
    page.on("console", lambda message: trouble.append(message.text))
    page.on("pageerror", lambda error: trouble.append(str(error)))
    page.on(
        "request",
        lambda asked: None if asked.url.startswith((address, "data:")) else trouble.append(asked.url),
    )
    page.goto(address)
    page.wait_for_selector(".panel")
    yield page
    assert trouble == []
    context.close()


@pytest.fixture
def live(tmp_path: Path) -> Iterator[tuple[Feed, Path]]:
    folder = unfinished(tmp_path / "c", question=f"What is it? {NASTY}")
    feed = Feed(folder)
    feed.event("begin", name="made", trials=4, pid=1)
    yield feed, folder
    feed.close("finished")


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    points = [({"connections": n, "size": 65536}, Truth()) for n in (1, 4, 16)]
    folder = tmp_path_factory.mktemp("watch") / "c"
    make_campaign(folder, points, layout=Layout(replicates=2, idle=()))
    for place in folder.glob("trials/*/manifest.json"):
        manifest = json.loads(place.read_text())
        manifest["started_wall"] = (
            f"2026-01-02T03:{manifest['order'] // 3:02d}:{manifest['order'] % 3 * 20:02d}.000+00:00"
        )
        manifest["windows"] |= {"warm_up_ns": 10**9, "measured_ns": 10 * 10**9}
        place.write_text(json.dumps(manifest))
    return folder


def told(feed: Feed, index: int, *hosts: str) -> None:
    for host in hosts or ("client", "server"):
        said = line(host, index, interval_ns=200_000_000)
        feed.record("00000-1", host, said["place"], json.dumps(said["record"]).encode())


def when(page: Page, expression: str) -> None:
    """Waits until it is true. The page's policy forbids the text to be evaluated inside, as wait_for_function does it."""
    end = time.monotonic() + 60
    while not page.evaluate(expression):
        assert time.monotonic() < end, f"never: {expression}"
        time.sleep(0.02)


def colours_of(page: Page) -> dict[str, str]:
    """The colours of the hosts in the chart of payload, by name."""
    buttons = page.locator(".panel").nth(2).locator(".legend button")
    texts, marks = buttons.all_inner_texts(), buttons.locator("i")
    styles = [marks.nth(place).get_attribute("style") or "" for place in range(len(texts))]
    return {text.split()[0].rstrip("0123456789.,"): style for text, style in zip(texts, styles, strict=True)}


def test_a_host_has_its_colour_whoever_comes_and_goes(browser: Browser, live: tuple[Feed, Path]) -> None:
    feed, folder = live
    with served(folder) as (address, _):
        with looking(browser, address) as page:
            tell_trial(feed, 0, ("server",), intervals=2, pace=lambda _: None, end=False)
            when(page, "+document.body.dataset.shown === 2")
            alone = colours_of(page)
            told(feed, 2, "client", "server")
            when(page, "+document.body.dataset.shown === 3")
            both = colours_of(page)
        with looking(browser, address) as page:
            when(page, "+document.body.dataset.shown === 3")
            again = colours_of(page)
    assert set(alone) == {"server"} and set(both) == {"client", "server"}
    assert both["server"] == alone["server"] and both["client"] != both["server"]
    assert again == both


def test_a_trial_under_way_is_drawn_as_it_comes(browser: Browser, live: tuple[Feed, Path]) -> None:
    feed, folder = live
    with served(folder) as (address, _), looking(browser, address) as page:
        assert page.locator("#current").inner_text() == "no trial yet"
        tell_trial(feed, 0, intervals=3, pace=lambda _: None, end=False)
        when(page, "+document.body.dataset.shown === 3")
        assert "trial 1: connections 1, size 64KiB" in page.locator("#current").inner_text()
        assert NASTY in page.locator("#question").inner_text(), "names stay text"
        when(page, "document.querySelector('#counts').textContent.endsWith(' s left')")
        legend = page.locator(".panel").first.locator(".legend button")
        assert sorted(text.rstrip("0123456789./ks ") for text in legend.all_inner_texts()) == [
            "read",
            "write",
        ]
        assert "operations by type: read" in (page.locator(".ink").first.get_attribute("aria-label") or "")
        # Paused, it stands still, and takes in what comes all the same.
        page.keyboard.press("Space")
        when(page, "document.querySelector('#play').textContent === 'Go on'")
        standing = page.evaluate("document.body.dataset.newest")
        for index in range(3, 6):
            told(feed, index)
        feed.event("stage", text="six told")
        when(page, "document.querySelector('#phase').textContent === 'six told'")
        assert page.evaluate("document.body.dataset.newest") == standing
        page.locator("#live").click()
        when(page, "+document.body.dataset.shown === 6")
        feed.end_trial("00000-1", status="finished", reason=None)
        feed.close("finished")
        when(page, "document.querySelector('#phase').textContent === 'the campaign has ended'")


def test_a_click_on_a_band_says_who_produced_it(browser: Browser, live: tuple[Feed, Path]) -> None:
    feed, folder = live
    with served(folder) as (address, _), looking(browser, address) as page:
        tell_trial(feed, 0, intervals=5, pace=lambda _: None, end=False)
        when(page, "+document.body.dataset.shown === 5")
        page.select_option("#span", "trial")
        page.keyboard.press("Escape")
        rates = page.locator(".panel").first
        rates.locator(".legend button", has_text="write").click()
        tables = rates.locator(".producers table")
        by_host = tables.filter(has_text="host").inner_text()
        assert "client" in by_host and "server" not in by_host and "100.0 %" in by_host
        # The heat map: the topmost row is the outlier that the client alone has.
        heat = page.locator(".panel").nth(1)
        box = heat.locator(".ink").bounding_box()
        assert box
        for up in range(9, 60, 3):
            page.mouse.click(box["x"] + box["width"] * 0.6, box["y"] + up)
            if heat.locator(".producers tr").count():
                break
        said = heat.locator(".producers").inner_text()
        assert "client" in said and "write" in said and "server" not in said
        # And on from there: a chart of that alone.
        before = page.locator(".panel").count()
        heat.locator(".producers td button", has_text="client").click()
        assert page.locator(".panel").count() == before + 1
        assert "host: client" in page.locator(".panel").last.locator(".chips").inner_text()
        # The address holds what is shown.
        when(page, """decodeURIComponent(location.hash).includes('"dimension":"host","key":"client"')""")
        spec = json.loads(page.evaluate("decodeURIComponent(location.hash.slice(1))"))
        assert spec["span"] == "trial" and spec["charts"][-1]["only"][-1] == {
            "dimension": "host",
            "key": "client",
        }
        page.reload()
        page.wait_for_selector(".panel")
        assert page.locator("#span").input_value() == "trial"
        when(page, f"document.querySelectorAll('.panel').length === {before + 1}")


def test_a_finished_campaign_is_replayed(browser: Browser, finished: Path) -> None:
    with served(finished) as (address, _), looking(browser, address) as page:
        when(page, "+document.body.dataset.shown > 0")
        assert page.locator("#phase").inner_text() == "finished"
        assert not page.locator("#live").is_visible()
        page.select_option("#span", "trial")
        when(page, "+document.body.dataset.shown === 11")
        page.keyboard.press("Home")
        when(page, "document.querySelector('#current').textContent.startsWith('trial 1:')")
        page.select_option("#span", "all")
        when(page, "+document.body.dataset.shown === 66")
        page.select_option("#span", "30")
        page.select_option("#speed", "60")
        page.locator("#play").click()
        when(page, "document.querySelector('#play').textContent === 'Pause'")
        when(page, "document.querySelector('#play').textContent === 'Play'")


def test_keys_do_what_the_help_says(browser: Browser, finished: Path) -> None:
    with served(finished) as (address, _), looking(browser, address) as page:
        when(page, "+document.body.dataset.shown > 0")
        page.select_option("#span", "trial")
        page.locator("h1").click()
        page.keyboard.press("ArrowLeft")
        when(page, "document.querySelector('#when').textContent.startsWith('cursor')")
        page.keyboard.press("Escape")
        when(page, "!document.querySelector('#when').textContent.startsWith('cursor')")
        here = page.locator("#current").inner_text()
        page.keyboard.press("[")
        when(page, f"document.querySelector('#current').textContent !== {json.dumps(here)}")
        page.keyboard.press("+")
        assert page.evaluate("document.querySelector('#span').value") != "trial"
        page.keyboard.press("?")
        assert page.locator("#keys").is_visible()
        page.locator(".remove").first.focus()
        page.keyboard.press("Enter")
        assert page.locator(".panel").count() == 5


@pytest.mark.parametrize("width", [400, 1400])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_fits_and_can_be_read(browser: Browser, finished: Path, width: int, scheme: str) -> None:
    with served(finished) as (address, _), looking(browser, address, width, color_scheme=scheme) as page:
        when(page, "+document.body.dataset.shown > 0")
        page.locator(".legend button").first.click()
        page.locator("#help").click()
        wide, window = page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
        assert wide <= window
        named = page.evaluate(
            """[...document.querySelectorAll('button, select, canvas.ink, canvas#map')].filter(e => !(
              e.getAttribute('aria-label') || e.textContent.trim() || e.closest('label'))).map(e => e.outerHTML)"""
        )
        assert named == [], "everything has a name"
        names = ["--ink", "--soft", "--accent", "--bad", *(f"--s{n}" for n in range(7)), "--h0", "--line"]
        paper, *colours = page.evaluate(
            """names => ['--paper', ...names].map(name => {
              const probe = document.createElement('i'); probe.style.color = `var(${name})`; document.body.append(probe);
              return getComputedStyle(probe).color.match(/[\\d.]+/g).slice(0, 3).map(Number); })""",
            names,
        )
        contrasts = {name: contrast(paper, each) for name, each in zip(names, colours, strict=True)}
        # WCAG 2.2: 4.5 for text, 3 for graphics; --h0 is a single event in the heat map.
        least = {"--ink": 4.5, "--soft": 4.5, "--accent": 4.5, "--bad": 4.5}
        assert all(value >= least.get(name, 3) for name, value in contrasts.items()), contrasts


def test_a_watcher_that_is_gone_is_noticed(browser: Browser, finished: Path) -> None:
    context = browser.new_context()
    page = context.new_page()
    page.clock.install()
    with served(finished) as (address, _):
        page.goto(address)
        page.wait_for_selector(".panel")
    page.clock.run_for(15_000)
    when(page, "document.querySelector('#phase').textContent.startsWith('cut off')")
    context.close()
