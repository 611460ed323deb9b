"""`iodyno model pdq`: scripts of Python and of Perl, in the shape of those that ship with PDQ, and what is wrong with others."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from iodyno import pdq
from iodyno.cli.main import run
from iodyno.core.errors import ExperimentError
from iodyno.formats import pdq_perl, python2
from iodyno.formats.pdq_perl import PerlScript

FIXTURES = Path(__file__).parents[1] / "fixtures" / "pdq"
Captured = pytest.CaptureFixture[str]


def printed(capsys: Captured, file: Path, *arguments: str) -> str:
    assert run(["model", "pdq", str(file), *arguments]) == 0
    return capsys.readouterr().out


def written(tmp_path: Path, script: str, name: str = "model.py") -> Path:
    file = tmp_path / name
    file.write_text(script, encoding="utf-8")
    return file


OPEN = '''#!/usr/bin/env python
"""An open queue."""
import pdq
arrivals, service = 0.75, 1.0
pdq.Init("Open")
pdq.SetComment("M/M/1 beside an MSQ of one server.")
pdq.streams = pdq.CreateOpen("work", arrivals)
pdq.SetWUnit("Customers")
pdq.SetTUnit("Seconds")
pdq.nodes = pdq.CreateNode("one", pdq.CEN, pdq.FCFS)
pdq.nodes = pdq.CreateNode("many", 1, pdq.MSQ)
pdq.SetDemand("one", "work", service)
pdq.SetDemand("many", "work", service)
pdq.Solve(pdq.CANON)
print("Using: %s" % pdq.cvar.version)  # PDQ_SetWUnit() in C
pdq.Report()
'''
CLOSED = """from pdq import *
import sys

def throughput(jobs, think):
    Init("Time share")
    CreateClosed("users", TERM, float(jobs), think)
    CreateNode("cpu", CEN, PSHR)
    SetVisits("cpu", "users", 4.0, 0.025)
    Solve(APPROX)
    return GetThruput(TERM, "users"), GetResponse(TERM, "users"), GetLoadOpt(TERM, "users"), GetThruMax(TERM, "users")

for jobs in map(int, sys.argv[1:]):
    print("%d %.4f %.4f %.1f %.4f" % ((jobs,) + throughput(jobs, 1.0)))
"""
MULTI_SERVER = """import pdq
pdq.Init("Farm")
streams = pdq.CreateOpen("mail", float(2376) / 3600)
nodes = pdq.CreateNode("spam", int(4), pdq.MSQ)
pdq.SetDemand("spam", "mail", 6.0)
pdq.Solve(pdq.CANON)
print("%.4f %.4f" % (pdq.GetUtilization("spam", "mail", pdq.TRANS), pdq.GetQueueLength("spam", "mail", pdq.TRANS)))
"""
MULTI_CLASS = """import pdq
if __name__ == "__main__":
    pdq.Init("Three classes")
    for name, kind, jobs, think in (("a", pdq.TERM, 5.0, 20.0), ("b", pdq.TERM, 15.0, 30.0), ("c", pdq.BATCH, 5.0, 0.0)):
        pdq.streams = pdq.CreateClosed(name, kind, jobs, think)
    for k, demands in enumerate(((0.5, 0.04, 0.06), (0.4, 0.2, 0.3), (1.2, 0.05, 0.06))):
        pdq.nodes = pdq.CreateNode("node%d" % k, pdq.CEN, pdq.FCFS)
        for name, demand in zip("abc", demands):
            pdq.SetDemand("node%d" % k, name, demand)
    pdq.Solve(pdq.EXACT)
    jobs = 0.0
    for name, kind in (("a", pdq.TERM), ("b", pdq.TERM), ("c", pdq.BATCH)):
        inside = sum(pdq.GetQueueLength("node%d" % k, name, kind) for k in range(pdq.GetNodesCount()))
        jobs += inside + pdq.GetThruput(kind, name) * {"a": 20, "b": 30, "c": 0}[name]
    print(pdq.GetStreamsCount(), round(jobs, 9))
"""


def test_an_open_script_runs_as_it_is(tmp_path: Path, capsys: Captured) -> None:
    shown = printed(capsys, written(tmp_path, OPEN))
    assert "Using: iodyno" in shown and "M/M/1 beside an MSQ of one server." in shown
    assert "Method: exact" in shown and "0.750 Customers/s" in shown
    rows = [line.split() for line in shown.splitlines()]
    # M/M/1 at three quarters, twice: R = 1 / (1 - .75).
    assert [row for row in rows if row[-2:] == ["4.00", "s"]][-2:] == [
        [name, "75.0", "%", "3.00", "4.00", "s"] for name in ("one", "many")
    ]


def test_a_closed_script_with_arguments_and_names_without_a_module(tmp_path: Path, capsys: Captured) -> None:
    lines = printed(capsys, written(tmp_path, CLOSED), "1", "2").splitlines()
    # D = .1, Z = 1: X(1) = 1 / 1.1; R(2) = .1 (1 + .1 / 1.1); N* = 11.
    second = 0.1 * (1 + 0.1 / 1.1)
    assert lines == [
        f"1 {1 / 1.1:.4f} 0.1000 11.0 {1 / 1.1:.4f}",
        f"2 {2 / (1 + second):.4f} {second:.4f} 11.0 {2 / 1.1:.4f}",
    ]


def test_a_multi_server_node_of_old_scripts_has_its_servers(tmp_path: Path, capsys: Captured) -> None:
    # M/M/4 at .99: C = 7.76 .. by hand: a = 3.96; L = a + C a / (4 - a).
    a = 2376 / 3600 * 6
    last = a**4 / 24 / (1 - a / 4)
    waits = last / (1 + a + a**2 / 2 + a**3 / 6 + last)
    assert printed(capsys, written(tmp_path, MULTI_SERVER)).split() == [
        "0.9900",
        f"{a + waits * a / (4 - a):.4f}",
    ]


def test_classes_keep_all_their_jobs(tmp_path: Path, capsys: Captured) -> None:
    assert printed(capsys, written(tmp_path, MULTI_CLASS)).split() == ["3", "25.0"]


def test_a_script_of_python_2_is_read_as_one(tmp_path: Path, capsys: Captured) -> None:
    script = """import pdq
for jobs in xrange(1, 3):
\tpdq.Init("old")
\tpdq.CreateClosed("w", pdq.TERM, 1.0 * jobs, 7 / 2)
\tpdq.CreateNode("n", pdq.CEN, pdq.FCFS); pdq.SetDemand("n", "w", 1 / 2.0)
\tpdq.Solve(pdq.EXACT)
\tif jobs == 1: print "N", "X",  # a head
\tprint
\tprint "%d %.4f" % (jobs, # the rate
\t    pdq.GetThruput(pdq.TERM, "w"))
jobs /= 3
print (jobs)
"""
    file = written(tmp_path, script)
    assert run(["model", "pdq", str(file)]) == 0
    shown = capsys.readouterr()
    # Z = 3, as 7 / 2 was; X(2) = 2 / (3 + .5 (1 + .5 / 3.5)).
    second = 2 / (3 + 0.5 * (1 + 0.5 / 3.5))
    assert shown.out.split() == ["N", "X", "1", f"{1 / 3.5:.4f}", "2", f"{second:.4f}", "0"]
    assert shown.err == f"iodyno: {file} is read as Python 2: print is a statement, 7 / 2 is 3\n"


def test_the_published_script_prints_the_published_table(capsys: Captured) -> None:
    lines = printed(capsys, FIXTURES / "mm8.pl", "8", "0.000127").splitlines()
    assert lines[0].split() == ["time", "|", "busy"]
    assert [line.split() for line in lines[1:]] == [
        [time, "|", busy]
        for time, busy in (
            ("0.000127", "0"), ("0.000127", "20"), ("0.000127", "40"), ("0.000132", "60"), ("0.000163", "80")
        )
    ]  # fmt: skip


PERL = r"""#! /usr/bin/perl
use strict;
use pdq;   # a comment
my @times = (0.5, 1.0);
my $think = 8 * 1.0e-0 + 2 ** 3 ** 0;
foreach my $n (1..2, 4) {
    pdq::Init("two disks");
    $pdq::streams = pdq::CreateClosed('work', $pdq::TERM, $n, $think);
    for (my $i = 0; $i < 2; $i++) {
        $pdq::nodes = pdq::CreateNode(sprintf("disk%d", $i), $pdq::CEN, $pdq::FCFS);
        pdq::SetVisits("disk" . $i, "work", 2, $times[$i] / 2);
    }
    pdq::Solve($pdq::EXACT);
    printf("%d %.4f %s%%\n", $n, pdq::GetResponse($pdq::TERM, "work"), "${n}0");
}
"""


def test_lists_ranges_and_arithmetic_of_perl(tmp_path: Path, capsys: Captured) -> None:
    lines = printed(capsys, written(tmp_path, PERL, "two.pl")).splitlines()
    x = 1 / 11.5
    by_hand = 0.5 * (1 + x * 0.5) + 1.0 * (1 + x * 1.0)
    assert lines[:2] == ["1 1.5000 10%", f"2 {by_hand:.4f} 20%"] and lines[2].startswith("4 ")


BASE = """use pdq;
pdq::Init("m");
pdq::CreateOpen("o", 0.5);
pdq::CreateNode("n", $pdq::CEN, $pdq::FCFS);
pdq::SetDemand("n", "o", 1);
pdq::Solve($pdq::CANON);
"""
MISTAKES = [
    ('"o", 0.5', '"o", -0.5', 3, "CreateOpen: invalid value -0.5: expected a rate of 0 or more"),
    ('"o", 0.5', '"o", 2', 6, "Solve: stations.n: unstable"),
    ('"o", 0.5', '"o"', 3, "CreateOpen() missing 1 required positional argument: 'rate'"),
    ('"o", 0.5', '"o", "much"', 3, "CreateOpen: invalid value 'much': expected a rate of 0 or more"),
    ('"o", 0.5', "", 3, "missing 2 required"),
    ("CEN, ", "TERM, ", 4, "CreateNode: invalid value 'TERM': expected CEN, DLY"),
    ("FCFS", "EXACT", 4, "CreateNode: invalid value 'EXACT': expected FCFS, PSHR, LCFS, ISRV"),
    ("pdq::CEN, $pdq::FCFS", "pdq::MSQ, $pdq::MSQ", 4, "CreateNode: invalid value 'MSQ': expected a number of servers"),
    ("SetDemand(", "SetDemand('x', ", 5, "SetDemand() takes 3 positional arguments but 4 were given"),
    ('SetDemand("n", "o"', 'SetDemand("x", "o"', 5, "SetDemand: unknown node 'x': expected n"),
    ('SetDemand("n", "o"', 'SetDemand("n", "x"', 5, "SetDemand: unknown class 'x': expected o"),
    ('SetDemand("n", "o", 1', 'SetVisits("n", "o", 1, -1', 5, "SetVisits: invalid value -1"),
    ('SetDemand("n", "o", 1)', 'CreateOpen("o", 1)', 5, "CreateOpen: duplicate class 'o'"),
    ('SetDemand("n", "o", 1)', 'CreateClosed("p", $pdq::TERM, 1.5, 1)', 5, "CreateClosed: invalid value: 1.5 jobs"),
    ('SetDemand("n", "o", 1)', 'CreateMultiNode(2.5, "p", $pdq::MSO, $pdq::FCFS)', 5, "invalid value: 2.5 servers"),
    ("Solve($pdq::CANON)", 'GetResponse($pdq::TRANS, "o")', 6, "GetResponse: called before Solve"),
    ("Solve($pdq::CANON)", "Solve($pdq::TERM)", 6, "Solve: invalid value 'TERM': expected CANON"),
    ('Init("m")', 'SetWUnit("m")', 2, "SetWUnit: called before Init"),
]  # fmt: skip


def translated(text: str) -> str:
    return text.replace("pdq::", "pdq.").replace("$", "")


@pytest.mark.parametrize(("old", "new", "line", "said"), MISTAKES, ids=[new for _, new, _, _ in MISTAKES])
@pytest.mark.parametrize("language", ["perl", "python"])
def test_a_mistake_is_told_with_its_line(
    language: str, old: str, new: str, line: int, said: str, tmp_path: Path, capsys: Captured
) -> None:
    pdq._models.clear()
    assert old in BASE
    script = BASE.replace(old, new)
    file = written(tmp_path, translated(script.replace("use pdq;", "import pdq")), "m.py")
    if language == "perl":
        file = written(tmp_path, script, "m.pl")
    assert run(["model", "pdq", str(file)]) == 2
    shown = capsys.readouterr().err
    assert f"{file}:{line}: " in shown and said in shown.replace(".0,", ",")
    assert shown.count("iodyno: error:") == 1


@pytest.mark.parametrize(
    ("script", "said"),
    [
        (BASE + 'pdq::GetResponse($pdq::TERM, "o");', ":7: GetResponse: invalid value 'TERM': expected TRANS"),
        (BASE + 'pdq::GetLoadOpt($pdq::TRANS, "o");', ":7: GetLoadOpt: the class 'o' has no such bound"),
        (BASE + "$x = 1 / 0;", ":7: ZeroDivisionError"),
        (BASE + "$x = 10 ** 999;", ":7: OverflowError"),
        (BASE + "$x = $y + 1;", ":7: $y has no value here"),
        (BASE + "$x = $ARGV[1];", ":7: the script wants its argument 2, and was given 0"),
        (BASE + "for ($i = 0; $i < 1; $i += 0) { $x = 1; }", ":7: more than 300000 words"),
        (BASE + '$x = "aa"; for $i (1..99) { $x .= $x; }', ":7: more than 300000 words"),
        (BASE + "for $i (1..99999999) { }", ":7: more than 300000 words"),
        (BASE + "system('ls');", ":7: unexpected 'system': expected a call of pdq::"),
        (BASE + "if ($x) { }", ":7: unexpected 'if': expected a call of pdq::"),
        (BASE + "$x = `ls`;", ":7: unexpected '`': expected a value"),
        (BASE + '$x = "open', ":7: unexpected '\"': expected a value"),
        (BASE + "for ($i = 0; $i < 1; $i++) { $x = 1;", ":7: unexpected 'the end of the script': expected"),
        (BASE + "$x = " + "(" * 5000, ":7: found too many brackets"),
        ("#include <stdio.h>\nint main() { PDQ_Init(\"m\"); }", "invalid value: a script in C or R; expected Python or Perl"),
        ("library(pdq)\nInit(\"m\")", "invalid value: a script in C or R"),
        ("import pdq\nprint(1 / 0)\n", ":2: ZeroDivisionError: division by zero"),
        ("import pdq\n\ndef f():\n    return undefined\nf()\n", ":4: NameError"),
        ("import pdq\nx = (\n", ":2: SyntaxError"),
        ("import pdq\n\0", "null bytes"),
        ("import pdq\nx = " + "-" * 100_000 + "1", "too many brackets or calls"),
    ],
)  # fmt: skip
def test_what_cannot_be_run_is_one_error(script: str, said: str, tmp_path: Path, capsys: Captured) -> None:
    name = "model.py" if "import pdq" in script else "model"
    assert run(["model", "pdq", str(written(tmp_path, script, name))]) == 2
    shown = capsys.readouterr().err
    assert said in shown and shown.count("iodyno: error:") == 1 and "Traceback" not in shown


LARGE = """import pdq
pdq.Init("large")
for node in range({nodes}):
    pdq.CreateNode(f"n{{node}}", pdq.CEN, pdq.FCFS)
for work in range({classes}):
    pdq.CreateClosed(f"c{{work}}", pdq.TERM, 10, 5)
    pdq.SetDemand("n0", f"c{{work}}", 1)
pdq.Solve(pdq.APPROX)
"""


@pytest.mark.parametrize(
    ("nodes", "classes", "said"),
    [
        (200_000, 1, "invalid value: 200000 stations; expected up to 10000"),
        (
            200,
            2000,
            "invalid value: 2000 classes at 200 stations; expected up to 70 of so many",
        ),
    ],
)
def test_a_network_that_nothing_solves_in_seconds_is_one_error(
    nodes: int, classes: int, said: str, tmp_path: Path, capsys: Captured
) -> None:
    file = written(tmp_path, LARGE.format(nodes=nodes, classes=classes))
    assert run(["model", "pdq", str(file)]) == 2
    shown = capsys.readouterr().err
    assert said in shown and shown.count("iodyno: error:") == 1


def test_a_script_that_solves_without_end_is_one_error(
    tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pdq_perl, "MOST_S", 0.2)
    script = BASE + "for $i (1..9999) {\npdq::Solve($pdq::CANON); }"
    assert run(["model", "pdq", str(written(tmp_path, script, "m.pl"))]) == 2
    shown = capsys.readouterr().err
    assert "m.pl:8: took more than 0.2 s of a CPU until here" in shown and shown.count("iodyno: error:") == 1


def test_a_file_that_is_none(tmp_path: Path, capsys: Captured) -> None:
    for file in (tmp_path, tmp_path / "no.py"):
        assert run(["model", "pdq", str(file)]) == 2
        assert "cannot be read" in capsys.readouterr().err


def test_times_are_in_the_unit_of_the_script() -> None:
    pdq.Init("units")
    pdq.CreateClosed("w", pdq.TERM, 5, 100)
    pdq.CreateOpen("o", 0.01)
    pdq.CreateNode("cpu", pdq.CEN, pdq.PSHR)
    pdq.CreateNode("wan", pdq.DLY, pdq.ISRV)
    pdq.SetDemand("cpu", "w", 20)
    pdq.SetDemand("cpu", "o", 10)
    pdq.SetDemand("wan", "w", 30)
    pdq.SetTUnit("msec")
    found = pdq.Solve(pdq.EXACT).of("w")
    rate, time = pdq.GetThruput(pdq.TERM, "w"), pdq.GetResponse(pdq.TERM, "w")
    assert (time, rate) == pytest.approx((found.response_time_s * 1e3, found.throughput_per_s / 1e3))
    assert rate * (time + 100) == pytest.approx(5)
    assert pdq.GetResidenceTime("wan", "w", pdq.TERM) == pytest.approx(30)
    assert pdq.GetUtilization("cpu", "w", pdq.TERM) == pytest.approx(20 * rate)
    assert pdq.GetUtilization("wan", "w", pdq.TERM) == pytest.approx(30 * rate)  # the jobs there
    assert pdq.GetQueueLength("wan", "o", pdq.TRANS) == 0
    assert pdq.GetThruMax(pdq.TERM, "w") == pytest.approx(5 / 150)  # before the knee: N / (D + Z)
    # The open class takes a tenth of the CPU.
    assert pdq.GetLoadOpt(pdq.TERM, "w") == pytest.approx(150 * 0.9 / 20)


def test_what_takes_minutes_exactly_is_approximated_where_that_is_asked() -> None:
    pdq.Init("large")
    for name in "abc":
        pdq.CreateClosed(name, pdq.TERM, 1000, 10)
    for k in range(3):
        pdq.CreateNode(f"n{k}", pdq.CEN, pdq.PSHR)
        for rank, name in enumerate("abc"):
            pdq.SetDemand(f"n{k}", name, 0.01 * (rank + k + 1))
    with pytest.raises(ExperimentError, match="exact multi-class MVA needs") as raised:
        pdq.Solve(pdq.EXACT)
    assert (raised.value.where, raised.value.advice) == ("Solve", "Solve(APPROX)")
    assert not pdq.Solve(pdq.APPROX).method.exact


def test_a_unit_that_is_not_known_is_said(capsys: Captured) -> None:
    pdq.Init("m")
    pdq.CreateOpen("o", 0)
    pdq.CreateMultiNode(2, "n", pdq.MSO, pdq.FCFS)
    pdq.SetDemand("n", "o", 1)
    pdq.SetTUnit("moons")
    pdq.Solve(pdq.STREAMING)
    pdq.Report()
    assert "as if 'moons' were seconds" in capsys.readouterr().out
    assert pdq.GetResponse(pdq.TRANS, "o") == 1.0  # an open class at rate 0 sees an empty network


PYTHON_2 = st.sampled_from(
    ["print", '"a"', "x", "=", "/", "/=", "1", "(", ")", "[", ",", ";", ":", "\n", "\n ", "\n\t", "if", "def f()", "# c", "%",
     "\\", "'", "`"]
)  # fmt: skip


@settings(max_examples=200, deadline=None)
@given(st.lists(PYTHON_2, max_size=30).map(" ".join) | st.text(max_size=60))
def test_any_text_is_compiled_as_python_2_or_refused(text: str) -> None:
    with contextlib.suppress(SyntaxError, ValueError):
        assert python2.compiled(text, "text")


def read(text: str) -> None:
    names = {name: getattr(pdq, name) for name in pdq.__all__}
    functions = {name: value for name, value in names.items() if callable(value)}
    reader = PerlScript(functions, names, lambda _text: None)
    begin = time.process_time()
    try:
        reader.run(text, ["8", "1e-4"])
    except (ArithmeticError, ExperimentError, LookupError, RecursionError, TypeError, ValueError) as problem:
        assert str(problem) and reader.line >= 1
    assert time.process_time() - begin < 5


WORDS = st.sampled_from(
    ['pdq::Init("m")', "pdq::CreateOpen(", "pdq::CreateClosed(", '"a"', "$pdq::TERM", "$pdq::CEN", ",", ")", "(", "1", "2.5",
     "pdq::Solve($pdq::EXACT)", "\n", ";", "for", "foreach", "my", "..", "{", "}", "=", "$x", "@x", "$x[", "]", "**", "-", "/",
     "%", "+=", "++", ".", "<", "print", "printf", '"%9d$x%s"', "substr(", "use ", "#", "'", '"', "$ARGV[0]", "1e999", "9999999",
     "“", "”", "if", "while", "->", "\\"]
)  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(st.lists(WORDS, max_size=40).map(" ".join) | st.text(max_size=80))
def test_whatever_stands_in_a_perl_script_ends(text: str) -> None:
    read(text)


@settings(max_examples=200, deadline=None)
@given(st.sampled_from([PERL, BASE]), st.integers(0, 700), st.text(max_size=3), st.integers(0, 3))
def test_a_damaged_perl_script_ends(script: str, at: int, put: str, gone: int) -> None:
    read(script[:at] + put + script[at + gone :])


@pytest.mark.parametrize(
    ("jobs", "servers", "nodes", "classes"),
    [(1_000_000, 1, 30, 1), (100_000, 2, 30, 1), (10_000, 10_000, 1, 1), (1000, 64, 1, 2), (300, 1, 3, 3)],
)
def test_what_takes_minutes_exactly_is_refused_at_once_with_what_to_try(
    jobs: int, servers: int, nodes: int, classes: int
) -> None:
    pdq.Init("large")
    for work in range(classes):
        pdq.CreateClosed(f"work{work}", pdq.TERM, jobs, 1.0)
    for node in range(nodes):
        pdq.CreateMultiNode(servers, f"node{node}", pdq.MSC, pdq.FCFS)
        for work in range(classes):
            pdq.SetDemand(f"node{node}", f"work{work}", 0.01 * (work + 1))
    with pytest.raises(ExperimentError, match="expected") as refused:
        pdq.Solve(pdq.EXACT)
    assert "APPROX" in str(refused.value.advice)
