"""A published table of coefficients by the command: what the article made of it, and each mistake in such a file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from iodyno.analysis.cost_model.published import read_published
from iodyno.cli.model.cost import command
from iodyno.core.errors import ExperimentError, StoreError

ROOT = Path(__file__).parents[2]
TABLE = ROOT / "docs" / "examples" / "published-nfs-fc.csv"
SURE = ("--unit", "% of 8 cores", "--standard-error", "0.01813", "--residual-df", "624", "--outcome", "cpu")


def said(*words: str) -> str:
    done = CliRunner().invoke(command, ["--published", str(TABLE), *SURE, *words], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


def test_equation_1_and_the_headline_come_out() -> None:
    told = json.loads(
        said("--per", "iops", "--keep", "read,protocol", "--ratio", "protocol", "--at", "read=0%", "--json")
    )
    first, read, protocol = told["factored"]
    assert (first["product"], first["over_first"]) == ("", None)
    # Printed as 60.9384e-4 of one core, in per cent, with factors of -1.92928e-3 and 0.323579.
    assert 8 * first["estimate"] == pytest.approx(60.9384e-4, rel=3e-6)
    assert read["over_first"]["estimate"] == pytest.approx(-1.92928e-3, rel=5e-6)
    assert protocol["over_first"]["estimate"] == pytest.approx(0.323579, rel=3e-6)
    assert first["low"] < first["estimate"] < first["high"]
    (ratio,) = [one for one in told["derived"] if one["name"].startswith("ratio protocol")]
    assert ratio["estimate"] == pytest.approx(1.957, abs=6e-4)


def test_the_text_has_the_equation_and_the_cores() -> None:
    text = said("--per", "iops", "--keep", "read,protocol", "--at", "read=1%,protocol=nfs",
                "--cores", "--load", "70000/s", "--target-utilisation", "70%")  # fmt: skip
    assert "cpu per iops = 0.000761729 * (1 - 0.00192928 * read + 0.323579 * protocol[nfs])" in text
    # Who pastes it must know what its numbers are.
    assert "in % of 8 cores for each 1/s of iops, where\n" in text
    assert "  read is read in %, 0% to 100%\n" in text
    assert "  protocol[nfs] is protocol: +1 for nfs, -1 for " in text
    assert "80.5 us/operation" in text and "12420 /s" in text
    assert "9 cores" in text


@pytest.mark.parametrize(
    ("text", "where", "found"),
    [
        ("", "", "invalid value 'nothing'"),
        ("term,value\nintercept,1\n", ":1", "invalid value 'term,value'"),
        (
            "term,coefficient,low,high\nintercept,1,,\nread,x,0,1\n",
            ":3",
            "invalid value: 'x' as a coefficient",
        ),
        ("term,coefficient,low,high\nread,nan,0,1\n", ":2", "invalid value: 'nan' as a coefficient"),
        ("term,coefficient,low,high\nread,1,,\n", ":2", "read has no range"),
        ("term,coefficient,low,high\nread,1,3,3\n", ":2", "both ends of read are 3"),
        ("term,coefficient,low,high\nread,1,3,1\n", ":2", "the low end of read is above the high one"),
        ("term,coefficient,low,high\nread,1,0,1\nread,2,0,1\n", ":3", "stands there twice"),
        ("term,coefficient,low,high\nread,1,0,1\nread:iops,2,,\n", "", "there is no term read:iops"),
        ("term,coefficient,low,high\nread,1,0\n", ":2", "invalid value: 3 cells"),
        ("term,coefficient,low,high\nread:iops,1,0,1\n", ":2", "which only a factor has"),
    ],
)
def test_each_mistake_has_its_line(text: str, where: str, found: str, tmp_path: Path) -> None:
    file = tmp_path / "table.csv"
    file.write_text(text)
    with pytest.raises(ExperimentError) as caught:
        read_published(file, outcome="cpu", unit="cores", standard_error=0.1, residual_df=10)
    assert found in str(caught.value) and f"{file}{where}" in str(caught.value)


def test_what_is_missing_or_too_much_is_said(tmp_path: Path) -> None:
    for words, found in (
        (("--published", str(TABLE)), "--unit"),
        (("--published", str(TABLE), "--unit", "cores"), "--standard-error"),
        (("--published", str(TABLE), *SURE, "--csv", str(TABLE)), "--csv"),
        (("--published", str(TABLE), *SURE, "--keep", "read"), "--keep"),
        (("--published", str(TABLE), *SURE, "--per", "iops", "--keep", "size"), "invalid value 'size'"),
        (("--csv", str(TABLE), "--residual-df", "3"), "it is for --published"),
    ):
        done = CliRunner().invoke(command, list(words))
        assert isinstance(done.exception, ExperimentError) and found in str(done.exception), words
    with pytest.raises(StoreError):
        read_published(tmp_path / "none", outcome="cpu", unit="cores", standard_error=0.1, residual_df=10)
