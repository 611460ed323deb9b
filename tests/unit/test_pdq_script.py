"""Scripts that call PDQ: four languages say the same, and what cannot be carried out is one error with its line."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from iodyno.cli.model.pdq_script import solution_of, solved_script
from iodyno.core.errors import ExperimentError
from iodyno.core.network import ClosedClass, OpenClass
from iodyno.formats.pdq import Run, is_pdq
from iodyno.formats.pdq.tokens import language_of

FIXTURES = Path(__file__).parents[1] / "fixtures" / "pdq"

PERL = r"""
#!/usr/bin/perl
use strict;
use pdq;   # a comment
my $jobs = 4;
my $think = 8 * 1.0e-0 + 2;
my $scale = 2 ** 3 / 8;
for (my $n = 1; $n <= $jobs; $n++) {
    pdq::Init("two disks");
    $pdq::streams = pdq::CreateClosed("work", $pdq::TERM, $n, $think);
    foreach my $i (1..2) {
        $pdq::nodes = pdq::CreateNode("disk$i", $pdq::CEN, $pdq::FCFS);
        pdq::SetVisits("disk" . $i, "work", 2 * $i, 0.25 * $scale);
    }
    pdq::Solve($pdq::EXACT);
    printf("%d %.3f\n", $n, pdq::GetResponse($pdq::TERM, "work"));
}
pdq::Report();
"""
C = r"""
#include <stdio.h>
#include "PDQ_Lib.h"
#define THINK 10.0
/* a
   comment */
int main(int argc, char *argv[]) {
    extern int nodes, streams;
    int n, i = 7 / 2 - 3;       // whole numbers: 0
    double jobs = 4, scale = 1.0;
    char name[20];
    for (n = 1; n <= jobs; n++) {
        PDQ_Init("two disks");
        streams = PDQ_CreateClosed("work", TERM, (float) n, THINK);
        for (i = 1; i < 3; ++i) {
            sprintf(name, "disk%d", i);
            nodes = PDQ_CreateNode(name, CEN, FCFS);
            PDQ_SetVisits(name, "work", 2.0 * i, 0.25 * scale);
        }
        PDQ_Solve(EXACT);
        printf("%f\n", PDQ_GetResponse(TERM, "work"));
    }
    PDQ_Report();
    return 0;
}
"""
PYTHON = r'''
#!/usr/bin/env python
"""Two disks."""
import sys
import pdq
jobs = 4
for n in range(1, jobs + 1):
    pdq.Init("two disks")
    pdq.streams = pdq.CreateClosed("work", pdq.TERM, float(n), 10.0)

    for i in [1, 2]:
        # a comment
        name = "disk%d" % i
        pdq.nodes = pdq.CreateNode(name, pdq.CEN, pdq.FCFS)
        pdq.SetVisits(name, "work",
                      2.0 * i, 1 / 4)
    pdq.Solve(pdq.EXACT)
    print("%d %f" % (n, pdq.GetResponse(pdq.TERM, "work")))
pdq.Report()
'''
R = r"""
library(pdq)
jobs <- 4
for (n in 1:jobs) {
  Init("two disks")
  CreateClosed("work", TERM, n, 10)
  for (i in c(1, 2))
  {
    name <- paste("disk", i, sep="")
    CreateNode(name, CEN, FCFS)
    SetVisits(name, "work", 2 * i,
              0.5 ^ 2)
  }
  Solve(EXACT)
  cat(GetResponse(TERM, "work"), "\n")
}
Report()
"""
BASE = """Init("m")
CreateOpen("o", 0.5)
CreateNode("n", CEN, FCFS)
SetDemand("n", "o", 1)
Solve(CANON)
"""


def solved(script: str, *arguments: str) -> list[Run]:
    return solved_script(script, arguments, "script", "auto")


@pytest.mark.parametrize(("language", "script"), [("perl", PERL), ("c", C), ("python", PYTHON), ("r", R)])
def test_four_languages_say_the_same(language: str, script: str) -> None:
    assert is_pdq(script)
    assert language_of(script) == language
    runs = solved(script)
    assert [run.network.closed_classes for run in runs] == [
        (ClosedClass("work", n, 10.0),) for n in (1, 2, 3, 4)
    ]
    # By hand: D = .5 and 1; one job: 1.5. Two: the second finds X(1) D^2 of the first.
    x = 1 / 11.5
    by_hand = 0.5 * (1 + x * 0.5) + 1.0 * (1 + x * 1.0)
    assert [run.answers[0] for run in runs[:2]] == [
        ("GetResponse(work)", pytest.approx(1.5)),
        ("GetResponse(work)", pytest.approx(by_hand)),
    ]
    assert [(d.visits, d.service_time_s) for d in runs[0].network.demands["work"].values()] == [
        (2, 0.25),
        (4, 0.25),
    ]


def test_curly_quotes_arguments_and_loops_of_floating_numbers() -> None:
    runs = solved((FIXTURES / "mm8.pl").read_text(encoding="utf-8"), "8", "0.000127")
    assert [run.network.open_classes[0].rate_per_s for run in runs] == pytest.approx(
        [i * 8 / 0.000127 / 5 for i in range(5)]
    )
    assert runs[0].work_unit == "IO" and runs[0].comment == "Transactions on m cores."


def test_every_question_is_answered_in_the_units_of_the_script() -> None:
    (run,) = solved(
        """
        Init("units")
        CreateClosed("w", TERM, 5, 100)
        CreateOpen("o", 0.01)
        CreateNode("cpu", CEN, PSHR)
        CreateNode("wan", DLY, ISRV)
        SetDemand("cpu", "w", 20); SetDemand("cpu", "o", 10)
        SetDemand("wan", "w", 30)
        SetTUnit("msec")
        Solve(EXACT)
        r <- GetResponse(TERM, "w"); x <- GetThruput(TERM, "w")
        print(GetResidenceTime("wan", "w", TERM)); print(GetUtilization("cpu", "w", TERM))
        q <- GetQueueLength("cpu", "w", TERM); m <- GetThruMax(TERM, "w"); n <- GetLoadOpt(TERM, "w")
        s <- GetResponse(TRANS, "o")
        """
    )
    assert run.network.closed_classes[0].think_time_s == pytest.approx(0.1)
    answers = dict(run.answers)
    found = solution_of(run).of("w")
    assert answers["GetResponse(w)"] == pytest.approx(found.response_time_s * 1e3)
    assert answers["GetThruput(w)"] == pytest.approx(found.throughput_per_s / 1e3)
    assert answers["GetThruput(w)"] * (answers["GetResponse(w)"] + 100) == pytest.approx(5)
    assert answers["GetResidenceTime(wan, w)"] == pytest.approx(30)
    assert answers["GetUtilization(cpu, w)"] == pytest.approx(20 * answers["GetThruput(w)"])
    assert answers["GetThruMax(w)"] == pytest.approx(5 / 150)  # before the knee: N / (D + Z)
    assert answers["GetLoadOpt(w)"] == pytest.approx(
        150 * 0.9 / 20
    )  # the open class takes a tenth of the CPU


def test_units_that_are_not_known_are_said() -> None:
    (run,) = solved(BASE.replace("Solve", 'SetTUnit("moons"); Solve'))
    assert "'moons'" in run.notes[0]


@pytest.mark.parametrize(
    ("old", "new", "line", "said"),
    [
        ('CreateOpen("o", 0.5)', 'CreateOpen("o", -0.5)', 2, "found -0.5, allowed: a rate of 0 or more"),
        ('CreateOpen("o", 0.5)', 'CreateOpen("o", 2)', 5, "unstable"),
        ('CreateOpen("o", 0.5)', 'CreateOpen("o")', 2, "CreateOpen was given 1 arguments, allowed: 2 (class, rate)"),
        ('CreateOpen("o", 0.5)', 'CreateClosed("o", TERM, 0, 1)', 5, "1 job or more"),
        ('CreateOpen("o", 0.5)', 'CreateClosed("o", TERM, 1.5, 1)', 2, "found 1.5 jobs"),
        ('CreateOpen("o", 0.5)', 'CreateClosed("o", TRANS, 1, 1)', 2, "allowed: TERM, BATCH"),
        ('CreateOpen("o", 0.5)', 'CreateOpened("o", 0.5)', 2, "did you mean CreateOpen?"),
        ('CreateOpen("o", 0.5)', 'CreateOpen("o", rate)', 2, "rate has no value here"),
        ('CreateOpen("o", 0.5)', 'CreateOpen("o", 1 / 0)', 2, "cannot be calculated"),
        ('CreateOpen("o", 0.5)', 'CreateOpen("o", 10 ^ 999)', 2, "cannot be calculated"),
        ('CreateOpen("o", 0.5)', 'CreateOpen("o", system("ls"))', 2, "not one of PDQ's or of arithmetic"),
        ("CEN, FCFS", "CEN, LIFO", 3, "LIFO has no value here"),
        ("CEN, FCFS", "TERM, FCFS", 3, "allowed: CEN, DLY"),
        ('SetDemand("n", "o", 1)', 'SetDemand("x", "o", 1)', 4, "found 'x', allowed: n"),
        ('SetDemand("n", "o", 1)', 'SetDemand("n", "x", 1)', 4, "found 'x', allowed: o"),
        ('SetDemand("n", "o", 1)', 'SetDemand("n", "o", -1)', 4, "service time of 0 or more"),
        ('SetDemand("n", "o", 1)', "", 5, "the class 'o' demands nothing"),
        ('SetDemand("n", "o", 1)', 'else SetDemand("n", "o", 1)', 4, "found 'else', which is not carried out here"),
        ('SetDemand("n", "o", 1)', "x[99999] <- 1", 4, "found the element 99998 of a list"),
        ('SetDemand("n", "o", 1)', "while (1 > 0) { x <- 1 }", 4, "does this loop end?"),
        ('SetDemand("n", "o", 1)', "for (i in 1:99999999) { x <- i }", 4, "a range of 99999999 numbers"),
        ('Init("m")\n', "", 1, "CreateOpen stands before Init"),
        ("Solve(CANON)", "Solve(FAST)", 5, "FAST has no value here"),
        ("Solve(CANON)", 'r <- GetResponse(TRANS, "o")', 5, "stands before Solve"),
        ("Solve(CANON)", 'Solve(CANON); r <- GetResponse(TERM, "o")', 5, "found 'TERM' for the class o, allowed: TRANS"),
        ("Solve(CANON)", 'Solve(CANON); r <- GetLoadOpt(TRANS, "o")', 5, "has no such bound"),
        ("Solve(CANON)", "Solve(CANON", 6, "found"),
        ("Solve(CANON)", "Solve(CANON) @ 3", 5, "which cannot be read"),
    ],
)  # fmt: skip
def test_a_mistake_is_told_with_its_line(old: str, new: str, line: int, said: str) -> None:
    assert old in BASE
    with pytest.raises(ExperimentError) as raised:
        solved(BASE.replace(old, new))
    assert said in raised.value.what
    assert raised.value.where == f"script:{line}"


def test_a_script_that_solves_nothing_and_one_without_its_arguments() -> None:
    with pytest.raises(ExperimentError, match="never calls Solve"):
        solved('Init("m")')
    with pytest.raises(ExperimentError, match="wants its argument 2, and was given 1") as raised:
        solved((FIXTURES / "mm8.pl").read_text(encoding="utf-8"), "8")
    assert "iodyno model solve FILE ARGUMENT" in raised.value.advice


def test_a_model_file_is_no_script() -> None:
    assert not is_pdq("name: Init(x)\nclasses: {}\n")


def test_an_open_class_at_rate_0_sees_an_empty_network() -> None:
    (run,) = solved(BASE.replace("0.5", "0"))
    assert isinstance(run.network.classes[0], OpenClass)
    assert solution_of(run).of("o").response_time_s == 1.0


WORDS = st.sampled_from(
    ["Init(\"m\")", "CreateOpen(", "CreateClosed(", '"a"', "TERM", "CEN", ",", ")", "(", "1", "2.5", "Solve(EXACT)", "\n", ";",
     "for", "in", "1:3", "{", "}", "<-", "=", "x", "$x", "pdq::", "PDQ_", "import pdq", "**", "-", "/", "%", "[", "]", "'", '"',
     "  ", "\t", "print", "int main(", "#", "/*", "..", "++", "range(", "while",
     "if", "else", "elif", "@x", "x[", "]", "!", "c(", "sprintf ", "and", "sprintf(",
     "%d", "shift", "$ARGV[0]", "1e999"]
)  # fmt: skip


@settings(max_examples=500, deadline=None)
@given(st.lists(WORDS, max_size=40).map(" ".join) | st.text(max_size=80))
def test_whatever_stands_in_it_is_solved_or_one_error(text: str) -> None:
    try:
        solved(text)
    except ExperimentError as error:
        assert error.what


@settings(max_examples=300, deadline=None)
@given(st.sampled_from([PERL, C, PYTHON, R]), st.integers(0, 700), st.text(max_size=3), st.integers(0, 3))
def test_a_damaged_script_is_solved_or_one_error(script: str, at: int, put: str, gone: int) -> None:
    try:
        solved(script[:at] + put + script[at + gone :])
    except ExperimentError as error:
        assert error.where.startswith("script")


@pytest.mark.parametrize(
    "script",
    [
        """use pdq;
@times = (1.0, 0.5);
for ($n = 1; $n <= 300; $n++) {
    if ( ($n == 1) or ($n % 100 == 0) ) {
        pdq::Init("lists");
        $streams = pdq::CreateClosed("w", $pdq::TERM, $n, 10);
        for ($k = 0; $k < 2; $k++) {
            $name = sprintf "node%d", $k;
            $nodes = pdq::CreateNode($name, $pdq::CEN, $pdq::FCFS);
            pdq::SetDemand($name, "w", $times[$k]);
        }
        pdq::Solve($pdq::APPROX);
        $x[$n] = pdq::GetThruput($pdq::TERM, "w") * 100;
    } elsif ($n == 2) { $a = 1; } else { $a = 2; }
}
""",
        """library(pdq)
jobs <- c(1, seq(100, 300, 100))
names <- paste("node", 0:1, sep="")
times <- c(1, 0.5)
xx <- NULL
for (i in 1:length(jobs)) {
  pdq::Init("")
  pdq::CreateClosed("w", TERM, jobs[i], 10)
  for (k in 1:2) {
    pdq::CreateNode(names[k], CEN, FCFS)
    pdq::SetDemand(names[k], "w", times[k])
  }
  pdq::Solve(EXACT)
  xx[i] <- pdq::GetThruput(TERM, "w")
}
plot(jobs, xx, type="b")
""",
        """import pdq
tech = pdq.APPROX
if tech == pdq.EXACT:
    jobs = [7]
elif tech == pdq.APPROX and abs(1) > 2:
    jobs = [8]
else:
    jobs = [1, 100, 200, 300]
times = [1.0, 0.5]
for n in jobs:
    pdq.Init("lists")
    pdq.streams = pdq.CreateClosed("w", pdq.TERM, n, 10.0)
    for k in range(2):
        pdq.nodes = pdq.CreateNode("node" + str(k), pdq.CEN, pdq.FCFS)
        pdq.SetDemand("node" + str(k), "w", times[k])
    pdq.Solve(tech)
    print(pdq.GetThruput(pdq.TERM, "w"))
""",
    ],
)
def test_lists_and_conditions_are_carried_out(script: str) -> None:
    runs = solved(script)
    assert [run.network.closed_classes[0].population for run in runs] == [1, 100, 200, 300]
    assert [d.service_time_s for d in runs[0].network.demands["w"].values()] == [1.0, 0.5]
    assert runs[0].answers == [("GetThruput(w)", pytest.approx(1 / 11.5))]
