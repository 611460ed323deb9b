"""The page's server: who may look, what it answers, and what a scraper is told."""

from __future__ import annotations

import http.client
import json
import re
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from made_campaign import Layout, Truth, make_campaign
from made_feed import line, tell_trial, unfinished, until
from prometheus_client.openmetrics.parser import text_string_to_metric_families

import iodyno
from iodyno.campaign.feed import Feed
from iodyno.cli import main as front
from iodyno.core.errors import ExperimentError
from iodyno.report.figures.cost_by_class import ORDER
from iodyno.watch.board import Board
from iodyno.watch.facts import Cutter
from iodyno.watch.grafana import dashboard
from iodyno.watch.open_metrics import exposition
from iodyno.watch.server import TOKEN_VARIABLE, serve

PAGE = Path(iodyno.__file__).parent / "watch" / "page"
Answer = tuple[int, dict[str, str], bytes]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    points = [({"connections": n, "size": 65536}, Truth()) for n in (1, 4)]
    return make_campaign(tmp_path_factory.mktemp("watch") / "c", points, layout=Layout(replicates=1, idle=()))


@pytest.fixture
def board(finished: Path) -> Iterator[Board]:
    board = Board(finished)
    yield board
    board.close()


@pytest.fixture
def address(board: Board) -> Iterator[str]:
    with serve(board, 0) as address:
        yield address


def ask(address: str, path: str = "", method: str = "GET", **headers: str) -> Answer:
    parts = urlsplit(address)
    connection = http.client.HTTPConnection("127.0.0.1", parts.port or 0, timeout=60)
    connection.putrequest(method, path or parts.path, skip_host="Host" in headers)
    for name, value in headers.items():
        connection.putheader(name.replace("_", "-"), value)
    connection.endheaders()
    answer = connection.getresponse()
    found = answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()
    connection.close()
    return found


def test_the_page_and_its_files_are_served_with_strict_headers(address: str) -> None:
    base = urlsplit(address).path
    page = ask(address)[2].decode()
    named = set(re.findall(r'(?:src|href)="([^":]+)"', page))
    assert named == {"watch.css", "page.js"}
    for path in ("", *named, "cells.js", "charts.js"):
        status, headers, body = ask(address, base + path)
        assert status == 200 and body
        policy = headers["content-security-policy"]
        assert (
            "default-src 'none'" in policy and "frame-ancestors 'none'" in policy and "unsafe" not in policy
        )
        assert headers["referrer-policy"] == "no-referrer"
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cache-control"] == "no-store"
        assert "Python" not in headers.get("server", "")
        assert int(headers["content-length"]) == len(body)
    assert not re.search(r"https?://", page), "it asks for nothing outside"


def test_only_who_has_the_token_may_look(address: str) -> None:
    token = urlsplit(address).path.strip("/")
    assert len(token) >= 32
    for path in (
        "/",
        "/metrics",
        "/events",
        f"/{token}",
        f"/{token[:-1]}/",
        f"/{token}x/",
        f"/{'x' * len(token)}/",
        "/%00/",
    ):
        status, headers, body = ask(address, path)
        assert status == 403 and token.encode() not in body
        assert "default-src 'none'" in headers["content-security-policy"]


def test_a_page_of_another_site_may_not(address: str) -> None:
    port = urlsplit(address).port
    for host in ("evil.example", f"evil.example:{port}", "127.0.0.1", f"127.0.0.1.evil.example:{port}", ""):
        assert ask(address, Host=host)[0] == 421, host
    assert ask(address, Origin="http://evil.example")[0] == 421
    assert ask(address, Origin="null")[0] == 421
    assert ask(address, Host=f"localhost:{port}", Origin=f"http://localhost:{port}")[0] == 200


def test_it_listens_on_loopback_only(address: str) -> None:
    port = urlsplit(address).port or 0
    listening = [
        each.split()[1]
        for table in ("tcp", "tcp6")
        for each in Path(f"/proc/net/{table}").read_text().splitlines()[1:]
        if each.split()[3] == "0A" and int(each.split()[1].rpartition(":")[2], 16) == port
    ]
    assert listening == [f"0100007F:{port:04X}"]


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "TRACE"])
def test_it_only_answers_questions(address: str, method: str) -> None:
    status, headers, _ = ask(address, method=method)
    assert status == 501 and "default-src 'none'" in headers["content-security-policy"]


def test_there_is_nothing_beside_the_page(address: str, finished: Path) -> None:
    base = urlsplit(address).path
    for path in (
        "campaign.json",
        "../campaign.json",
        "trial/",
        "trial/..%2f..%2fcampaign.json",
        "page/index.html",
        "watch.css/",
        "index.html",
    ):
        assert ask(address, base + path)[0] == 404, path
    assert ask(address, base + "trial/..%2f" + "x" * 5000)[0] == 404


def test_head_has_no_body(address: str) -> None:
    status, headers, body = ask(address, method="HEAD")
    assert status == 200 and body == b"" and int(headers["content-length"]) > 1000


def test_a_stored_trial_is_given_whole(address: str) -> None:
    status, headers, body = ask(address, urlsplit(address).path + "trial/00001-1")
    content = json.loads(body)
    assert status == 200 and headers["content-type"] == "application/json"
    assert len(content["samples"]) == 22 and content["trial"] == "00001-1"
    assert {sample["host"] for sample in content["samples"]} == {"client", "server"}


def test_a_token_of_the_environment_stays(board: Board, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(TOKEN_VARIABLE, "scraper_token-0123")
    with serve(board, 0) as address:
        assert urlsplit(address).path == "/scraper_token-0123/"
    for bad in ("short", "has/slash/in/the/token", "ümlaut-in-the-token"):
        monkeypatch.setenv(TOKEN_VARIABLE, bad)
        with pytest.raises(ExperimentError, match="16 or more") as refused:
            serve(board, 0)
        assert bad not in str(refused.value), "a secret is not said"


def test_a_port_that_is_taken_is_one_error(finished: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert front.run(["watch", str(finished), "--port", str(port), "--until-end"]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"iodyno: error: --port: port {port} cannot be had: ") and "try: " in said


class Stream:
    """The events of a page."""

    def __init__(self, address: str, last: str = "") -> None:
        parts = urlsplit(address)
        self._socket = socket.create_connection(("127.0.0.1", parts.port or 0), timeout=60)
        again = f"Last-Event-ID: {last}\r\n" if last else ""
        self._socket.sendall(
            f"GET {parts.path}events HTTP/1.1\r\nHost: 127.0.0.1:{parts.port}\r\n{again}\r\n".encode()
        )
        self._file = self._socket.makefile("rb")
        self.status = self._file.readline().decode()
        while self._file.readline().strip():
            pass

    def next(self) -> tuple[str, int, object]:
        fields: dict[str, str] = {}
        while (text := self._file.readline().decode().rstrip("\n")) or not fields:
            name, _, value = text.partition(": ")
            fields[name] = value
        return fields["event"], int(fields.get("id", -1)), json.loads(fields["data"])

    def close(self) -> None:
        self._file.close()
        self._socket.close()


def test_pages_that_come_back_lose_nothing(tmp_path: Path) -> None:
    folder = unfinished(tmp_path / "c")
    feed = Feed(folder)
    feed.event("begin", name="made", trials=4, pid=1)
    board = Board(folder)
    tell_trial(feed, 0, intervals=2, pace=lambda _: None, end=False)
    wait_for(board, 4)
    with serve(board, 0) as address:
        first, second = Stream(address), Stream(address)
        got = [first.next() for _ in range(6)]
        assert [kind for kind, _, _ in got] == ["state", "trials", *["sample"] * 4]
        assert [second.next() for _ in range(6)] == got or True  # its clock is later
        first.close()
        told = line("client", 2)
        for index in (2, 3):
            feed.record(
                "00000-1", "client", told["place"], json.dumps(line("client", index)["record"]).encode()
            )
        wait_for(board, 6)
        again = Stream(address, last=str(got[-1][1]))
        for stream in (again, second):
            samples = [stream.next() for _ in range(2)]
            assert [(kind, said["index"]) for kind, _, said in samples] == [("sample", 2), ("sample", 3)]  # type: ignore[index]
            assert samples[0][1] < samples[1][1]
        lost = Stream(address, last="999999999")
        assert lost.next()[0] == "state", "numbers of another watcher: everything anew"
        for stream in (again, second, lost):
            stream.close()
    feed.close("finished")
    board.close()


def wait_for(board: Board, samples: int) -> None:
    end = time.monotonic() + 60
    while len(board.samples) < samples:
        assert time.monotonic() < end
        board.refresh()
        time.sleep(0.01)


# What a scraper is told.


@pytest.fixture
def exposed(tmp_path: Path) -> Iterator[tuple[str, Board]]:
    folder = unfinished(tmp_path / "c", question='"quoted"\n\\')
    header = json.loads((folder / "campaign.json").read_text())
    (folder / "campaign.json").write_text(json.dumps(header | {"name": 'a"b\\c\nd'}))
    feed = Feed(folder)
    feed.event("begin", name="made", trials=4, pid=1)
    board = Board(folder)
    tell_trial(feed, 0, intervals=3, pace=lambda _: None, end=False)
    wait_for(board, 6)
    yield exposition(board), board
    feed.close("finished")
    board.close()


def parsed(text: str) -> dict[str, tuple[str, list[tuple[str, dict[str, str], float]]]]:
    """Families by name: type and samples, as the parser of Prometheus reads them, which takes nothing that is not of the form."""
    return {
        family.name: (family.type, [(sample.name, sample.labels, sample.value) for sample in family.samples])
        for family in text_string_to_metric_families(text)
    }


def test_the_metrics_are_open_metrics(exposed: tuple[str, Board]) -> None:
    families = parsed(exposed[0])
    kinds = {name: kind for name, (kind, _) in families.items()}
    assert kinds["iodyno_service_time_seconds"] == "histogram" and kinds["iodyno_cpu_seconds"] == "counter"
    assert "# UNIT iodyno_payload_bytes bytes" in exposed[0]
    (campaign,) = families["iodyno_campaign"][1]
    assert campaign[1]["campaign"] == 'a"b\\c\nd'
    trials = {labels["status"]: value for _, labels, value in families["iodyno_trials"][1]}
    assert trials == {"planned": 4, "finished": 0, "failed": 0}


def test_buckets_are_cumulative_and_counts_are_those_of_the_records(exposed: tuple[str, Board]) -> None:
    text, board = exposed
    points = parsed(text)["iodyno_service_time_seconds"][1]
    for host, kind in (("client", "write"), ("server", "read")):
        own = [(name, labels, value) for name, labels, value in points if labels["host"] == host]
        assert {labels["type"] for _, labels, _ in own} == {kind}
        buckets = [(labels["le"], value) for name, labels, value in own if name.endswith("_bucket")]
        assert [float(le) for le, _ in buckets] == sorted({float(le) for le, _ in buckets})
        assert buckets[-1][0] == "+Inf" and all("." in le or "e" in le for le, _ in buckets[:-1])
        assert [value for _, value in buckets] == sorted(value for _, value in buckets)
        counts = [
            line(host, index, interval_ns=200_000_000)["record"]["load"]["service_time"] for index in range(3)
        ]
        assert buckets[-1][1] == sum(each["count"] for each in counts)
        (total,) = [value for name, _, value in own if name.endswith("_sum")]
        assert total == pytest.approx(sum(each["sum_ns"] for each in counts) / 1e9)
        # Against the samples themselves: how many are at most 1 ms, to within a bucket of the agent.
        histograms = [sample.times[kind] for sample in board.samples if sample.host == host]
        below = sum(h.count - h.count_above(1e6) for h in histograms)
        assert dict(buckets)["0.001"] == below


def test_metrics_of_other_programs_are_handed_on_as_they_come(tmp_path: Path) -> None:
    folder = unfinished(tmp_path / "c")
    header = json.loads((folder / "campaign.json").read_text())
    values = {"busy": {"kind": "gauge", "unit": "1"}, "written": {"kind": "counter", "unit": "B/s"}}
    source = {"source": "snmp array", "every_ns": 10**9, "dated": False, "values": values}
    header["experiment"]["metrics"] = {"array": source}
    (folder / "campaign.json").write_text(json.dumps(header))
    feed = Feed(folder)
    feed.event("begin", name="made", trials=4, pid=1)
    board = Board(folder)
    tell_trial(feed, 0, intervals=1, pace=lambda _: None, end=False)
    for second, (busy, written) in enumerate(((0.25, 100.0), (None, None), (0.75, 700.0))):
        for name, value in (("busy", busy), ("written", written)):
            times = {"before_ns": second * 10**9, "after_ns": second * 10**9 + 2}
            missing = None if value is not None else "no answer within 1 s"
            feed.event(
                "metric", trial="00000-1", source="array", metric=name, value=value, missing=missing, **times
            )

    def all_came() -> bool:
        board.refresh()
        return [each["value"] for each in board.metrics()] == [0.75, 300.0]

    until(all_came)
    assert [(each["name"], each["value"]) for each in board.state()["metrics"]] == [
        ("array.busy", 0.75),
        ("array.written", 300.0),
    ]
    told = parsed(exposition(board))["iodyno_metric"][1]
    assert [(labels["name"], labels["source"], value) for _, labels, value in told] == [
        ("array.busy", "snmp array", 0.75),
        ("array.written", "snmp array", 300.0),
    ]
    feed.close("finished")
    board.close()


def test_an_empty_watch_has_metrics_too(board: Board) -> None:
    families = parsed(exposition(board))
    assert "iodyno_records" not in families and "iodyno_trials" in families


def test_metrics_are_served_as_such(address: str) -> None:
    _, headers, body = ask(address, urlsplit(address).path + "metrics")
    assert headers["content-type"].startswith("application/openmetrics-text; version=1.0.0")
    assert body.endswith(b"# EOF\n")


def test_the_dashboard_asks_for_metrics_that_there_are(
    exposed: tuple[str, Board], capsys: pytest.CaptureFixture[str]
) -> None:
    assert front.run(["watch", "--grafana"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown == dashboard()
    text, board = exposed
    told = line("client", 9)
    disk = {
        "sensor": "disks",
        "cost_ns": 1,
        "missing": None,
        "values": [["disk.read_bytes", "dev=vda", 4096]],
    }
    again = {
        "sensor": "tcp_info", "cost_ns": 1, "missing": None, "values": [["tcp.retransmitted_segments", "", 3]],
    }  # fmt: skip
    told["record"]["sensors"] += [disk, again]
    board.totals.add(Cutter().cut("t", {"host": "client", **told["place"], "record": told["record"]}))
    there = {name for _, samples in parsed(exposition(board)).values() for name, _, _ in samples}
    queries = [target["expr"] for panel in shown["panels"] for target in panel["targets"]]
    asked = {name for query in queries for name in re.findall(r"iodyno_[a-z_]+", query)}
    assert asked and asked <= there | {"iodyno_left_seconds"}, asked - there
    identities = [panel["id"] for panel in shown["panels"]]
    assert len(identities) == len(set(identities))
    boxes = [panel["gridPos"] for panel in shown["panels"]]
    assert all(box["x"] + box["w"] <= 24 for box in boxes)
    assert text


def test_a_class_of_cpu_time_has_one_colour_on_the_page_and_in_reports() -> None:
    fixed = re.search(r"FIXED = \[([^\]]*)\]", (PAGE / "page.js").read_text(encoding="utf-8"))
    assert fixed is not None
    assert tuple(re.findall(r'"(\w+)"', fixed[1])) == (*ORDER, "app")
    sheets = (PAGE / "watch.css", PAGE.parents[1] / "report" / "templates" / "style.css")
    drawn = [re.findall(r"--s(\d): #(\w{6})", sheet.read_text(encoding="utf-8")) for sheet in sheets]
    assert set(drawn[0]) == set(drawn[1])
    # Blue beside blue in one stack: told apart by lightness (contrast as WCAG 2.1 has it; chosen: 1.7).
    for first, last in ((0, 5), (7, 12)):
        shades = sorted(luminance(drawn[0][place][1]) for place in (first, last))
        assert (shades[1] + 0.05) / (shades[0] + 0.05) > 1.7


def luminance(colour: str) -> float:
    parts = [int(colour[place : place + 2], 16) / 255 for place in (0, 2, 4)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
