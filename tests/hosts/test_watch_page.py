"""The live page in a real browser: it is quiet, near, loses nothing, and tells who produced what."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from threading import Event, Thread

import pytest
from contrast import contrast
from made_campaign import Layout, Truth, make_campaign
from made_feed import line, tell_trial, unfinished
from pages import Browser, opened
from selenium.webdriver.common.keys import Keys

from iodyno.campaign.feed import Feed
from iodyno.store.writer import write_document
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
def looking(browser: Browser, address: str, width: int = 1400, **media: str) -> Iterator[Browser]:
    with opened(browser, address, width, **media) as page:
        page.first(".panel")
        yield page


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
        write_document(place, manifest)
    return folder


def told(feed: Feed, index: int, *hosts: str) -> None:
    for host in hosts or ("client", "server"):
        said = line(host, index, interval_ns=200_000_000)
        feed.record("00000-1", host, said["place"], json.dumps(said["record"]).encode())


def choose(page: Browser, name: str, value: str) -> None:
    """Leaves the choice as well, which would take the keys of the page."""
    next(each for each in page.all(f"{name} option") if each.get_property("value") == value).click()
    page.evaluate("document.activeElement.blur()")


def colours_of(page: Browser) -> dict[str, str]:
    """The colours of the hosts in the chart of payload, by name."""
    buttons = page.all(".legend button", page.all(".panel")[2])
    return {
        button.text.split()[0].rstrip("0123456789.,"): page.first("i", button).get_attribute("style") or ""
        for button in buttons
    }


def test_a_host_has_its_colour_whoever_comes_and_goes(browser: Browser, live: tuple[Feed, Path]) -> None:
    feed, folder = live
    with served(folder) as (address, _):
        with looking(browser, address) as page:
            tell_trial(feed, 0, ("server",), intervals=2, pace=lambda _: None, end=False)
            page.when("+document.body.dataset.shown === 2")
            alone = colours_of(page)
            told(feed, 2, "client", "server")
            page.when("+document.body.dataset.shown === 3")
            both = colours_of(page)
        with looking(browser, address) as page:
            page.when("+document.body.dataset.shown === 3")
            again = colours_of(page)
    assert set(alone) == {"server"} and set(both) == {"client", "server"}
    assert both["server"] == alone["server"] and both["client"] != both["server"]
    assert again == both


def test_a_trial_under_way_is_drawn_as_it_comes(browser: Browser, live: tuple[Feed, Path]) -> None:
    feed, folder = live
    with served(folder) as (address, _), looking(browser, address) as page:
        assert page.first("#current").text == "no trial yet"
        tell_trial(feed, 0, intervals=3, pace=lambda _: None, end=False)
        page.when("+document.body.dataset.shown === 3")
        assert "trial 1: connections 1, size 64KiB" in page.first("#current").text
        assert NASTY in page.first("#question").text, "names stay text"
        page.when("document.querySelector('#counts').textContent.endsWith(' s left')")
        legend = page.all(".legend button", page.first(".panel"))
        assert sorted(each.text.rstrip("0123456789./ks \n") for each in legend) == ["read", "write"]
        assert "operations by type: read" in page.first(".ink").get_attribute("aria-label")
        # Paused, it stands still, and takes in what comes all the same.
        page.press(" ")
        page.when("document.querySelector('#play').textContent === 'Go on'")
        standing = page.evaluate("document.body.dataset.newest")
        # What comes late for a time before the pause is drawn all the same: these lie far behind it, however slow the page.
        for index in range(203, 206):
            told(feed, index)
        feed.event("stage", text="six told")
        page.when("document.querySelector('#phase').textContent === 'six told'")
        assert page.evaluate("document.body.dataset.newest") == standing
        page.click(page.first("#live"))
        page.when("+document.body.dataset.shown === 6")
        feed.close("finished")
        page.when("document.querySelector('#phase').textContent === 'the campaign has ended'")


def test_a_click_on_a_band_says_who_produced_it(browser: Browser, live: tuple[Feed, Path]) -> None:
    feed, folder = live
    with served(folder) as (address, _), looking(browser, address) as page:
        tell_trial(feed, 0, intervals=5, pace=lambda _: None, end=False)
        page.when("+document.body.dataset.shown === 5")
        choose(page, "#span", "trial")
        page.press(Keys.ESCAPE)
        rates, heat = page.all(".panel")[:2]
        page.click(page.named("write", ".legend button", rates))
        (by_host,) = (each.text for each in page.all(".producers table", rates) if "host" in each.text)
        assert "client" in by_host and "server" not in by_host and "100.0 %" in by_host
        # The heat map: the topmost row is the outlier that the client alone has.
        left, top, width, _ = page.box(page.first(".ink", heat))
        for up in range(9, 60, 3):
            page.point((left + width * 0.6, top + up))
            if page.all(".producers tr", heat):
                break
        said = page.first(".producers", heat).text
        assert "client" in said and "write" in said and "server" not in said
        # And on from there: a chart of that alone.
        before = len(page.all(".panel"))
        page.click(page.named("client", ".producers td button", heat))
        assert len(page.all(".panel")) == before + 1
        assert "host: client" in page.first(".chips", page.all(".panel")[-1]).text
        # The address holds what is shown.
        page.when("""decodeURIComponent(location.hash).includes('"dimension":"host","key":"client"')""")
        spec = json.loads(page.evaluate("decodeURIComponent(location.hash.slice(1))"))
        assert spec["span"] == "trial" and spec["charts"][-1]["only"][-1] == {
            "dimension": "host",
            "key": "client",
        }
        page.refresh()
        page.first(".panel")
        assert page.first("#span").get_property("value") == "trial"
        page.when(f"document.querySelectorAll('.panel').length === {before + 1}")


def test_a_finished_campaign_is_replayed(browser: Browser, finished: Path) -> None:
    with served(finished) as (address, _), looking(browser, address) as page:
        page.when("+document.body.dataset.shown > 0")
        assert page.first("#phase").text == "finished"
        assert not page.first("#live").is_displayed()
        choose(page, "#span", "trial")
        page.when("+document.body.dataset.shown === 11")
        page.press(Keys.HOME)
        page.when("document.querySelector('#current').textContent.startsWith('trial 1:')")
        choose(page, "#span", "all")
        page.when("+document.body.dataset.shown === 66")
        choose(page, "#span", "30")
        choose(page, "#speed", "60")
        page.click(page.first("#play"))
        page.when("document.querySelector('#play').textContent === 'Pause'")
        page.when("document.querySelector('#play').textContent === 'Play'")


def test_keys_do_what_the_help_says(browser: Browser, finished: Path) -> None:
    with served(finished) as (address, _), looking(browser, address) as page:
        page.when("+document.body.dataset.shown > 0")
        choose(page, "#span", "trial")
        page.click(page.first("h1"))
        page.press(Keys.ARROW_LEFT)
        page.when("document.querySelector('#when').textContent.startsWith('cursor')")
        page.press(Keys.ESCAPE)
        page.when("!document.querySelector('#when').textContent.startsWith('cursor')")
        here = page.first("#current").text
        page.press("[")
        page.when(f"document.querySelector('#current').textContent !== {json.dumps(here)}")
        page.press("+")
        assert page.evaluate("document.querySelector('#span').value") != "trial"
        page.press("?")
        assert page.first("#keys").is_displayed()
        page.evaluate("arguments[0].focus()", page.first(".remove"))
        page.press(Keys.ENTER)
        assert len(page.all(".panel")) == 5


@pytest.mark.parametrize("width", [400, 1400])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_fits_and_can_be_read(browser: Browser, finished: Path, width: int, scheme: str) -> None:
    with served(finished) as (address, _), looking(browser, address, width, color_scheme=scheme) as page:
        page.when("+document.body.dataset.shown > 0")
        page.click(page.first(".legend button"))
        page.click(page.first("#help"))
        wide, window = page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
        assert wide <= window
        named = page.evaluate(
            """[...document.querySelectorAll('button, select, canvas.ink, canvas#map')].filter(e => !(
              e.getAttribute('aria-label') || e.textContent.trim() || e.closest('label'))).map(e => e.outerHTML)"""
        )
        assert named == [], "everything has a name"
        names = ["--ink", "--soft", "--accent", "--bad", *(f"--s{n}" for n in range(7)), "--h0", "--line"]
        paper, *colours = page.colours("--paper", *names)
        contrasts = {name: contrast(paper, each) for name, each in zip(names, colours, strict=True)}
        # WCAG 2.2: 4.5 for text, 3 for graphics; --h0 is a single event in the heat map.
        least = {"--ink": 4.5, "--soft": 4.5, "--accent": 4.5, "--bad": 4.5}
        assert all(value >= least.get(name, 3) for name, value in contrasts.items()), contrasts


def test_a_watcher_that_is_gone_is_noticed(browser: Browser, finished: Path) -> None:
    with ExitStack() as shown:
        with served(finished) as (address, _):
            page = shown.enter_context(looking(browser, address))
        page.execute_cdp_cmd("Emulation.setVirtualTimePolicy", {"policy": "advance", "budget": 15_000})
        page.when("document.querySelector('#phase').textContent.startsWith('cut off')")
        page.get("about:blank")
        assert all(address in said and "net::ERR_" in said for said in page.trouble((address,)))
