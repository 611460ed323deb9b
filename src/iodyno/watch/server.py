"""The local page: HTTP on loopback, for whoever has the address with its secret.

The standard library's threading server carries it: a page is one request for each of a few files and one that stays open
(Server-Sent Events), and a dozen watchers are a dozen threads. A framework would bring an event loop and ten packages for
that.

Safety: it listens on 127.0.0.1 only; the path begins with a random token, compared in constant time; the Host header
must be loopback, so that no web page can reach it under a name of its own (DNS rebinding); it answers GET and HEAD only, reads no
bodies, and its headers forbid everything that the page does not need.
"""

from __future__ import annotations

import hmac
import json
import os
import secrets
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from functools import lru_cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from typing import Any
from urllib.parse import unquote

from iodyno.core.errors import ExperimentError, IodynoError
from iodyno.watch.board import Board, Message

TOKEN_VARIABLE = "IODYNO_WATCH_TOKEN"
"""Environment variable with a token that stays the same, for a scraper."""
_LEAST_TOKEN = 16
_FILES = {
    "": ("index.html", "text/html; charset=utf-8"),
    "watch.css": ("watch.css", "text/css; charset=utf-8"),
    **{name: (name, "text/javascript; charset=utf-8") for name in ("cells.js", "charts.js", "page.js")},
}
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "Content-Security-Policy": _POLICY,
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_MOST_STREAMS = 32
"""Pages that may watch at once (chosen: more than a room full of people; each is a thread)."""
_BEAT_S = 5.0
"""Silence after which a stream says that it lives; a page that hears nothing for longer knows that it is cut off."""
_IDLE_S = 30.0


def serve(board: Board, port: int) -> AbstractContextManager[str]:
    """Serves the page of `board` until the end of the block; gives its address. Raises OSError when the port is taken, and
    ExperimentError when the environment's token is no good.
    """
    return _serving(_Server(("127.0.0.1", port), board, _token()))


@contextmanager
def _serving(server: _Server) -> Iterator[str]:
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.2}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/{server.token}/"
    finally:
        server.ending.set()
        server.shutdown()
        server.server_close()
        thread.join()


def _token() -> str:
    """The token of the environment, else a fresh one of 192 bits. Raises ExperimentError for one that is too weak."""
    given = os.environ.get(TOKEN_VARIABLE, "")
    if not given:
        return secrets.token_urlsafe(24)
    if len(given) < _LEAST_TOKEN or not all(c.isascii() and (c.isalnum() or c in "-_") for c in given):
        raise ExperimentError(
            f"invalid value: a token of {len(given)} characters; expected {_LEAST_TOKEN} or more, "
            "of letters, digits, - and _",
            where=TOKEN_VARIABLE,
            advice="openssl rand -hex 16",
        )
    return given


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self, address: tuple[str, int], board: Board, token: str) -> None:
        self.board = board
        self.token = token
        self.ending = threading.Event()
        self.streams = threading.BoundedSemaphore(_MOST_STREAMS)
        super().__init__(address, _Handler)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A page that was closed is no news."""


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    protocol_version = "HTTP/1.1"
    server_version = "iodyno"
    sys_version = ""
    timeout = _IDLE_S

    def do_GET(self) -> None:
        self._answer(body=True)

    def do_HEAD(self) -> None:
        self._answer(body=False)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Answer a request that is no GET, or no HTTP."""
        self.close_connection = True
        self._refuse(code, message or "not understood")

    def log_message(self, format: str, *args: Any) -> None:
        """Stays silent: the address holds the secret."""

    def _answer(self, *, body: bool) -> None:
        if not self._is_local():
            self._refuse(421, "this is a page of the machine itself")
            return
        token, slash, path = self.path.partition("?")[0].removeprefix("/").partition("/")
        if not hmac.compare_digest(token.encode(), self.server.token.encode()) or not slash:
            self._refuse(403, "the address lacks its secret; `iodyno watch` printed the whole of it")
            return
        if path in _FILES:
            name, kind = _FILES[path]
            self._send(200, kind, _content(name), body=body)
        elif path == "metrics":
            from iodyno.watch.open_metrics import CONTENT_TYPE, exposition  # of a library that few need

            text = exposition(self.server.board)
            self._send(200, CONTENT_TYPE, text.encode(), body=body)
        elif path == "events":
            self._stream(body=body)
        elif path.startswith("trial/"):
            self._send_trial(unquote(path.removeprefix("trial/")), body=body)
        else:
            self._refuse(404, "there is no such page")

    def _is_local(self) -> bool:
        """Tell whether the Host header names this very server, and no other site asked for it."""
        port = self.server.server_port
        allowed = {f"127.0.0.1:{port}", f"localhost:{port}"}
        origin = self.headers.get("Origin")
        return self.headers.get("Host") in allowed and (
            origin is None or origin in {f"http://{host}" for host in allowed}
        )

    def _send_trial(self, name: str, *, body: bool) -> None:
        try:
            samples = self.server.board.samples_of(name)
        except IodynoError as error:
            self._refuse(404, error.what)
            return
        content = {"trial": name, "samples": [sample.as_json() for sample in samples]}
        self._send(200, "application/json", json.dumps(content, separators=(",", ":")).encode(), body=body)

    def _stream(self, *, body: bool) -> None:
        if not self.server.streams.acquire(blocking=False):
            self._refuse(503, f"{_MOST_STREAMS} pages watch already")
            return
        try:
            self._head(200, {"Content-Type": "text/event-stream; charset=utf-8", "Connection": "close"})
            self.close_connection = True
            if body:
                # A page that does not read must not hold the thread for ever.
                self.connection.settimeout(_IDLE_S)
                self._push()
        except (OSError, ValueError):
            return  # the page was closed
        finally:
            self.server.streams.release()

    def _push(self) -> None:
        board = self.server.board
        given = self.headers.get("Last-Event-ID", "")
        number = int(given) if given.isascii() and given.isdecimal() and len(given) < 12 else -1
        if number < 0 or not board.has_all_after(number):
            number = self._write(board.greeting(), number)
        while not self.server.ending.is_set():
            found = board.after(number, _BEAT_S)
            number = self._write(found, number)
            if not found:
                self.wfile.write(b"event: beat\ndata: {}\n\n")

    def _write(self, messages: list[Message], number: int) -> int:
        if messages:
            # One write for all: thirty hosts end their intervals at the same instant.
            self.wfile.write(
                "".join(f"event: {m.kind}\nid: {m.number}\ndata: {m.text}\n\n" for m in messages).encode()
            )
            return messages[-1].number
        return number

    def _send(self, status: int, kind: str, content: bytes, *, body: bool) -> None:
        self._head(status, {"Content-Type": kind, "Content-Length": str(len(content))})
        if body:
            self.wfile.write(content)

    def _head(self, status: int, headers: Mapping[str, str]) -> None:
        self.send_response(status)
        for name, value in {**_HEADERS, **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def _refuse(self, status: int, why: str) -> None:
        self._send(
            status,
            "text/plain; charset=utf-8",
            f"{why}\n".encode(),
            body=getattr(self, "command", "") != "HEAD",
        )


@lru_cache(maxsize=16)
def _content(name: str) -> bytes:
    return files("iodyno.watch").joinpath("page", name).read_bytes()
