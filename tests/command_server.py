"""The command `iodyno` without its start: a process that has imported all of it forks for each command.

Imports take most of the time of a short command. Tests that are not about the start of a process run
`iodyno()` from here: a program that hands its words, folder, environment and files to that process and leaves with the exit
code of the command. With IODYNO_FULL=1 it is the real command, which `make docs` runs.

    python command_server.py SOCKET
"""

from __future__ import annotations

import ast
import atexit
import contextlib
import functools
import gc
import importlib
import importlib.util
import io
import os
import pkgutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import warnings
from pathlib import Path

_MOST = 1 << 20
_CLIENT = """#!{python} -IS
import os, socket, sys
lab = socket.socket(socket.AF_UNIX)
lab.connect({place!r})
said = [{kind!r}, os.getcwd(), str(len(sys.argv) - 1), *sys.argv[1:]]
said += [name + "=" + value for name, value in os.environ.items()]
socket.send_fds(lab, ["\\0".join(said).encode("utf-8", "surrogateescape") + b"\\0\\0"], [0, 1, 2])
code = lab.recv(8)
os._exit(int(code) if code else 137)
"""


@functools.cache
def folder() -> Path:
    """A folder with the programs `iodyno` and `script`; the latter runs the text of a Python program, its one word."""
    made = Path(tempfile.mkdtemp(prefix="iodyno-command-"))
    place = str(made / "socket")
    for kind in ("iodyno", "script"):
        program = made / kind
        program.write_text(_CLIENT.format(python=sys.executable, place=place, kind=kind), encoding="utf-8")
        program.chmod(0o755)
    # The listening socket is handed over, so that a client may connect before all is imported.
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(place)
        listener.listen(64)
        server = subprocess.Popen(
            [sys.executable, __file__, str(listener.fileno())],
            pass_fds=[listener.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            start_new_session=True,
        )

    def end() -> None:
        server.kill()
        server.wait()
        for path in made.iterdir():
            path.unlink()
        made.rmdir()

    atexit.register(end)
    return made


def iodyno() -> list[str]:
    """The words that begin a command line."""
    if os.environ.get("IODYNO_FULL"):
        return [sys.executable, "-m", "iodyno"]
    return [str(folder() / "iodyno")]


def _import_all() -> None:
    """All modules of the package, and what they import within functions, too."""
    import iodyno

    names = {"iodyno.__main__"}
    for module in pkgutil.walk_packages(iodyno.__path__, "iodyno."):
        names.add(module.name)
        found = importlib.util.find_spec(module.name)
        if found is None or not (found.origin or "").endswith(".py"):
            continue
        for node in ast.walk(ast.parse(Path(found.origin or "").read_bytes())):
            if isinstance(node, ast.Import):
                names |= {each.name for each in node.names}
            elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
                names |= {node.module, *(f"{node.module}.{each.name}" for each in node.names)}
    # Dask, a second of it, is for the tests of workers alone.
    for name in sorted(name for name in names if not name.startswith("distributed")):
        with contextlib.suppress(ImportError), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            importlib.import_module(name)


def _heard(client: socket.socket) -> tuple[list[str], list[int]]:
    """What a client says, and its files."""
    data, files, _, _ = socket.recv_fds(client, _MOST, 3)
    while not data.endswith(b"\0\0"):
        data += client.recv(_MOST)
    return data[:-2].decode("utf-8", "surrogateescape").split("\0"), files


def _stream(descriptor: int, errors: str, *, by_line: bool) -> io.TextIOWrapper:
    encoding, _, asked = os.environ.get("PYTHONIOENCODING", "utf-8").partition(":")
    raw = io.FileIO(descriptor, "w", closefd=False)
    buffered = io.BufferedWriter(raw)
    at_once = bool(os.environ.get("PYTHONUNBUFFERED"))
    return io.TextIOWrapper(
        buffered,
        encoding,
        asked or errors,
        line_buffering=by_line or os.isatty(descriptor),
        write_through=at_once,
    )


def _carry_out(client: socket.socket) -> None:
    """In the child: becomes what the client asks for, and tells it the exit code."""
    words, files = _heard(client)
    kind, where, count, rest = words[0], words[1], int(words[2]), words[3:]
    for number, descriptor in enumerate(files):
        os.dup2(descriptor, number)
        os.close(descriptor)
    os.chdir(where)
    os.environ.clear()
    for each in rest[count:]:
        name, _, value = each.partition("=")
        os.environ[name] = value
    sys.argv = ["iodyno", *rest[:count]]
    sys.stdin = io.TextIOWrapper(io.BufferedReader(io.FileIO(0, closefd=False)), "utf-8")
    sys.stdout = _stream(1, "strict", by_line=False)
    sys.stderr = _stream(2, "backslashreplace", by_line=True)
    ended = threading.Event()

    def end_with_client() -> None:
        if not client.recv(1) and not ended.is_set():
            os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=end_with_client, daemon=True).start()
    code: object = 0
    try:
        if kind == "iodyno":
            from iodyno.__main__ import run

            code = run()
        else:
            sys.argv = ["-c", *rest[1:count]]
            exec(compile(rest[0], "<string>", "exec"), {"__name__": "__main__"})
    except SystemExit as left:
        code = left.code
    except BaseException:  # noqa: BLE001 - as Python does at its end: it is shown
        sys.excepthook(*sys.exc_info())
        code = 1
    if not isinstance(code, int):
        if code is not None:
            print(code, file=sys.stderr)
        code = int(code is not None)
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError, AttributeError):
            stream.flush()
    if "coverage" in sys.modules and (measured := sys.modules["coverage"].Coverage.current()):
        # This end is none of Python's, at which it would be kept.
        measured.stop()
        measured.save()
    ended.set()
    client.sendall(str(code & 0xFF).encode())


def _serve(listener: socket.socket) -> None:
    """Until the process that tests is gone."""
    _import_all()
    atexit._clear()
    gc.collect()
    gc.freeze()

    tester = os.getppid()
    listener.settimeout(2.0)
    while os.getppid() == tester:
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        try:
            client, _ = listener.accept()
        except TimeoutError:
            continue
        client.setblocking(True)
        if os.fork() == 0:
            try:
                listener.close()
                _carry_out(client)
            finally:
                os._exit(1)
        client.close()


if __name__ == "__main__":
    _serve(socket.socket(fileno=int(sys.argv[1])))
