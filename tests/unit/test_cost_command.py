"""`iodyno model cost` on data of one's own: units, formulas, and one clear error for everything that cannot be."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from iodyno.analysis.cost_model.checks import Check
from iodyno.analysis.cost_model.coding import FactorScale
from iodyno.analysis.cost_model.data import Rate, read_csv
from iodyno.analysis.cost_model.fit import fit, prepare
from iodyno.analysis.cost_model.study import study
from iodyno.analysis.cost_model.terms import name_of, parse_formula
from iodyno.analysis.cost_model.variation import lenth_pse
from iodyno.cli.main import run
from iodyno.core.errors import ExperimentError, IodynoError

FACTORS = (
    FactorScale("read", "number", (0.0, 100.0), "%"),
    FactorScale("server.mtu", "size", (1500.0, 9000.0)),
    FactorScale("protocol", "word", ("tcp", "udp", "unix")),
)


def cost_of(size_kib: float, udp: bool, read: float) -> float:
    return 2000 + 150 * size_kib + (-400 if udp else 400) - 3 * read + 20 * size_kib * (-1 if udp else 1)


def table(replicates: int = 3, sizes: tuple[int, ...] = (1, 8), noise: float = 20.0) -> list[str]:
    source = np.random.default_rng(1)
    lines = ["order,block,size,protocol,read [%],cost [ns/operation]"]
    for replicate in range(replicates):
        for size, protocol, read in product(sizes, ("tcp", "udp"), (0, 100)):
            value = cost_of(size, protocol == "udp", read) + source.normal(0, noise)
            lines.append(f"{len(lines)},{replicate},{size}KiB,{protocol},{read},{value:.3f}")
    return lines


def written(folder: Path, lines: list[str]) -> Path:
    path = folder / "trials.csv"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def shown(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = run(["model", "cost", *arguments])
    out = capsys.readouterr()
    return code, out.out, out.err


def test_shares_of_a_line_through_the_origin_are_of_the_variation_about_zero(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As R's summary.lm: about the mean the load alone would explain more than there is."""
    source = np.random.default_rng(3)
    rows = [
        (rate, read, 0.006 * rate * (1 - 0.002 * read) + source.normal(0, 0.3))
        for rate, read, _ in product((1000, 4000), (0, 100), range(8))
    ]
    lines = ["rate,read [%],cpu", *(f"{rate},{read},{cpu:.4f}" for rate, read, cpu in rows)]
    asked = (
        "--csv",
        str(written(tmp_path, lines)),
        "--unit",
        "% of a core",
        "--formula",
        "0 + rate + rate:read",
    )
    code, out, _ = shown(capsys, *asked, "--json")
    variation = json.loads(out)["variation"]
    load, values = np.array([row[0] for row in rows]), np.array([round(row[2], 4) for row in rows])
    coded = np.array([row[1] / 50 - 1 for row in rows])
    matrix = np.column_stack([load, load * coded])
    left = values - matrix @ np.linalg.lstsq(matrix, values, rcond=None)[0]
    assert (code, variation["orthogonal"]) == (0, True)
    assert variation["r_squared"] == pytest.approx(1 - left @ left / (values @ values))
    shares = {one["name"]: one["share_ratio"] for one in variation["sources"]}
    assert (
        shares["rate"] + shares["rate:read"] == pytest.approx(variation["r_squared"]) and shares["rate"] < 1
    )
    df = {one["name"]: one["df"] for one in variation["sources"]}
    assert (df["rate"], df["rate:read"], df["error"], df["total"]) == (1, 1, 30, 32)
    _, out, _ = shown(capsys, *asked)
    assert "% of the variation of cpu about zero: rate " in out


def test_the_equation_and_what_follows_from_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(tmp_path, table())
    code, out, _ = shown(
        capsys, "--csv", str(path), "--at", "size=4KiB,protocol=udp,read=50%", "--ratio", "protocol=tcp/udp",
        "--cores", "--load", "100k/s", "--target-utilisation", "70%", "--json",
    )  # fmt: skip
    assert code == 0
    found = json.loads(out)
    by_name = {one["name"]: one for one in found["derived"]}
    true = cost_of(4, True, 50)
    cost = by_name["CPU per operation"]
    assert cost["low"] < true * 1e-9 < cost["high"] and cost["unit"] == "s/operation"
    assert cost["bootstrap_low"] < true * 1e-9 < cost["bootstrap_high"]
    ratio = by_name["ratio protocol tcp / udp"]
    assert ratio["low"] < cost_of(4, False, 50) / true < ratio["high"]
    # 100 000 operations of 1.97 us keep 0.197 cores busy.
    assert found["cores"]["needed"] == 1
    assert found["cores"]["busy"]["estimate"] == pytest.approx(true * 1e-9 * 100_000, rel=0.03)
    assert found["equation"]["variables"]["protocol_udp"] == "protocol: +1 for udp, -1 for tcp"
    code, out, _ = shown(capsys, "--csv", str(path), "--at", "size=4KiB", "--ratio", "protocol", "-v")
    assert code == 0 and out.startswith("What follows")
    assert "cost = " in out and "size_KiB is size in KiB, 1KiB to 8KiB" in out
    assert "Checks (! is a warning)" in out and "blocks as fixed effects" in out


def test_a_mix_of_words_is_the_mean_of_them(tmp_path: Path) -> None:
    model = fit(read_csv(written(tmp_path, table()))).model
    alone = [model.predict({"protocol": word, "size": "2KiB"}).estimate or 0.0 for word in ("tcp", "udp")]
    mixed = model.predict({"protocol": "tcp:70%+udp:30%", "size": "2KiB"}).estimate
    assert mixed == pytest.approx(0.7 * alone[0] + 0.3 * alone[1])
    even = model.predict({"size": "2KiB"}).estimate
    assert even == pytest.approx(sum(alone) / 2)


def test_trials_without_an_outcome_are_left_out_and_counted(tmp_path: Path) -> None:
    lines = table()
    lines[3] = lines[3].rpartition(",")[0] + ","
    lines[5] = lines[5].rpartition(",")[0] + ",NA"
    data = read_csv(written(tmp_path, lines))
    assert data.left_out == 2 and len(data.values) == 22


def test_one_replicate_says_what_it_can_and_cannot(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(tmp_path, table(1))
    code, out, _ = shown(capsys, "--csv", str(path), "-v")
    assert code == 0
    assert "! lack of fit: one replicate: what the model leaves out cannot be told from the spread" in out
    # As many terms as trials: numbers without intervals, and Lenth's limits still.
    code, out, _ = shown(capsys, "--csv", str(path), "--formula", "size*protocol*read", "--json")
    assert code == 0
    found = json.loads(out)
    assert all(
        one["low"] is None and "replicate the points" in one["missing"] for one in found["coefficients"]
    )
    assert [e["name"] for e in found["half_normal"]["effects"] if e["stands_out"]] != []


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda lines: [lines[0], *(f"{line.rpartition(',')[0]},5" for line in lines[1:])], "all 24 values of cost are equal"),
        (lambda lines: lines[:1], "found no trials"),
        (lambda lines: [lines[0], *(f"{line.rpartition(',')[0]}," for line in lines[1:])], "found no trial with a value of cost"),
        (lambda lines: lines[:3], "expected 3 or more"),
        (lambda lines: [*lines[:4], lines[4] + ",7", *lines[5:]], "trials.csv:5: invalid value: 7 cells; expected 6"),
        (lambda lines: [*lines[:2], lines[2].replace("1KiB", "1ms"), *lines[3:]], "units are mixed in column size"),
        (lambda lines: [*lines[:2], lines[2].replace("1KiB", "1"), *lines[3:]], "units are mixed in column size"),
        (lambda lines: [*lines[:2], lines[2].replace("1KiB", ""), *lines[3:]], "trials.csv:3: the level of size is missing"),
        (lambda lines: [*lines[:2], lines[2].replace("1KiB", "big"), *lines[3:]], "units are mixed in column size"),
        (lambda lines: [*lines[:2], lines[2].rpartition(",")[0] + ",fast", *lines[3:]], "'fast' in column cost"),
        (lambda lines: [*lines[:2], lines[2].rpartition(",")[0] + ",inf", *lines[3:]], "expected a finite number"),
        (lambda lines: [lines[0].replace("read [%]", "size"), *lines[1:]], "'size' stand there twice"),
        (lambda lines: [line.replace("udp", "tcp").replace("8KiB", "1KiB").replace(",100,", ",0,") for line in lines],
         "no factor has two levels"),
    ],
)  # fmt: skip
def test_bad_data_have_one_clear_error(
    change: object, says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(tmp_path, change(table()))  # type: ignore[operator]
    code, out, err = shown(capsys, "--csv", str(path))
    assert (code, out) == (2, "")
    assert says in err
    assert err.count("iodyno: error:") == 1


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--formula", "cost ~ sizes"], "there is no factor sizes"),
        (["--formula", "cost ~ size +"], "the formula is not understood"),
        (["--formula", "cost ~ size + log(size)"], "size is coded in two ways"),
        (["--formula", "cost ~ log(protocol)"], "the levels of protocol are words"),
        (["--formula", "cost ~ I(protocol**2)"], "squares and cubes of numeric factors"),
        (["--formula", "cost ~ I(size**2) + size"], "cannot tell these terms apart: size^2 = intercept"),
        (["--formula", "cost ~ 0 + size + protocol"], "without an intercept"),
        (["--formula", "cost ~ 1"], "the formula has no term"),
        (["--formula", "time ~ size", "--outcome", "cost"], "invalid value 'cost' for --outcome: --formula has 'time'"),
        (["--outcome", "time"], "there is no column 'time'"),
        (["--at", "size=64KiB"], "size=64KiB is outside of the range 1KiB to 8KiB"),
        (["--at", "size=4"], "size=4B is outside of the range"),
        (["--at", "read=50"], "invalid value '50': expected a number with its unit, such as 50%"),
        (["--at", "protocol=sctp"], "invalid value 'sctp': expected one of tcp, udp"),
        (["--at", "protocol=tcp:70%+udp:20%"], "the shares add up to 90%; expected 100%"),
        (["--at", "mtu=9000"], "has no factor mtu"),
        (["--at", "size"], "expected NAME=LEVEL"),
        (["--at", "size=1KiB,size=8KiB"], "size stands there twice"),
        (["--ratio", "protocol=tcp"], "invalid value 'protocol=tcp'"),
        (["--per", "size"], "cost is per operation already"),
        (["--keep", "size", "--format", "csv"], "--keep: it is of the equation of --per"),
        (["--cores"], "--load: --cores needs a load and how busy a core may be"),
        (["--cores", "--load", "1k/s"], "--target-utilisation: --cores needs"),
        (["--cores", "--load", "1k/s", "--target-utilisation", "100%"], "invalid value for --target-utilisation: a target utilisation of 100 %"),  # noqa: E501
        (["--cores", "--load", "1k/s", "--target-utilisation", "0.7"], "expected a share in per cent"),
        (["--cores", "--load", "fast", "--target-utilisation", "70%"], "expected a rate per second"),
        (["--load", "1k/s"], "a load and a target are for --cores"),
        (["--unit", "furlongs", "--cores", "--load", "1k/s", "--target-utilisation", "70%"], "it is no cost of CPU"),
    ],
)  # fmt: skip
def test_bad_questions_have_one_clear_error(
    arguments: list[str], says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(tmp_path, table())
    code, out, err = shown(capsys, "--csv", str(path), *arguments)
    assert (code, out) == (2, ""), err
    assert says in err
    assert err.count("iodyno: error:") == 1


def test_missing_cells_are_named(tmp_path: Path) -> None:
    lines = [line for line in table() if not ("8KiB" in line and "udp" in line)]
    data = read_csv(written(tmp_path, lines))
    with pytest.raises(
        ExperimentError, match=r"size:protocol = .* \(not measured: size=8KiB, protocol=udp\)"
    ) as error:
        fit(data, "cost ~ size*protocol")
    assert "a formula without them: size + protocol" in str(error.value)
    found = study(fit(data))
    aliases = found.checks[0]
    assert aliases.warning is not None and "size:protocol = " in aliases.warning.text, (
        "the default says what it left out"
    )


def test_more_terms_than_trials_are_refused(tmp_path: Path) -> None:
    data = read_csv(written(tmp_path, table(1)[:6]))
    with pytest.raises(ExperimentError, match=r"cannot tell these terms apart"):
        fit(data, "cost ~ size*protocol*read")


def test_neither_and_both_sources_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(tmp_path, table())
    assert "missing: a campaign, or --csv" in shown(capsys)[2]
    assert "a campaign cannot be used with --csv" in shown(capsys, str(tmp_path), "--csv", str(path))[2]
    assert shown(capsys, str(tmp_path))[0] == 6
    assert shown(capsys, "--csv", str(tmp_path / "none.csv"))[0] == 6


def test_a_table_in_the_place_of_a_campaign_is_read_as_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(tmp_path, table())
    named = shown(capsys, "--csv", str(path))
    assert shown(capsys, str(path)) == named
    assert named[0] == 0


def test_a_ratio_to_what_may_be_nothing_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = ["a,b,cost [ns/operation]"]
    source = np.random.default_rng(2)
    lines += [f"{a},{b},{a + source.normal():.4f}" for _ in range(4) for a in (0, 10) for b in (1, 2)]
    _, _, err = shown(capsys, "--csv", str(written(tmp_path, lines)), "--ratio", "a")
    assert "its interval spans 0: no ratio to it has a bound" in err


def test_a_curved_factor_is_warned_of_and_its_square_takes_the_warning_away(tmp_path: Path) -> None:
    source = np.random.default_rng(3)
    lines = ["x,y,cost"]
    lines += [
        f"{x},{y},{5 + x * x + y + source.normal(0, 0.3):.4f}"
        for _ in range(3)
        for x in (0, 1, 2, 3)
        for y in (0, 1)
    ]
    data = read_csv(written(tmp_path, lines))
    curved = study(fit(data))
    texts = " ".join(warning.text for warning in curved.warnings)
    # One of its levels has no logarithm.
    assert "no straight line in x" in texts and "try x + I(x**2) or C(x)" in texts
    squared = study(fit(data, "cost ~ x + I(x**2) + y"))
    assert not squared.warnings
    named = study(fit(data, "cost ~ C(x) + y"))
    assert not named.warnings and named.model.predict({"x": "2"}).estimate == pytest.approx(9.5, abs=0.4)


def curvature(folder: Path, lines: list[str], formula: str | None = None) -> Check:
    """The check of curvature of a table."""
    (found,) = [
        one for one in study(fit(read_csv(written(folder, lines)), formula)).checks if one.name == "curvature"
    ]
    return found


def test_curvature_is_said_of_no_factor_that_it_cannot_be_told_of(tmp_path: Path) -> None:
    source = np.random.default_rng(4)

    def cost(x: float, y: float) -> float:
        return 100 + x + y + 40 * (1 - (x - 1) ** 2) + source.normal(0, 0.3)

    points = [*product((0, 2), (0, 2)), (1, 1), (1, 1)]
    centred = ["x,y,cost", *(f"{x},{y},{cost(x, y):.4f}" for _ in range(4) for x, y in points)]
    # Centre points: the squares of x and y are one column.
    found = curvature(tmp_path, centred)
    assert found.factors == ("x", "y") and found.warning is not None
    assert (
        "x or y (which of them cannot be told)" in found.warning.text and "try log" not in found.warning.text
    )
    # A logarithm is not proposed where it is taken already.
    wide = [
        "size,cost",
        *(
            f"{s}KiB,{s.bit_length() ** 2 + source.normal(0, 0.1):.4f}"
            for _ in range(4)
            for s in (1, 4, 16, 64)
        ),
    ]
    text = curvature(tmp_path, wide, "cost ~ log(size)").warning
    assert (
        text is not None and "in log2(size)" in text.text and "log(size)" not in text.text.partition("try")[2]
    )


def test_curvature_that_is_not_tested_has_its_own_reason(tmp_path: Path) -> None:
    source = np.random.default_rng(5)
    straight = ["x,cost", *(f"{x},{3 * x + source.normal(0, 0.3):.4f}" for _ in range(3) for x in (1, 2, 3))]
    assert "a curve of x already" in curvature(tmp_path, straight, "cost ~ C(x)").found
    assert "a curve of x already" in curvature(tmp_path, straight, "cost ~ x + I(x**2)").found
    assert "no numeric factor has a level inside" in curvature(tmp_path, table()).found
    exact = ["x,cost", *(f"{x},{3 * x}" for _ in range(3) for x in (1, 2, 3))]
    assert "to the last digit" in curvature(tmp_path, exact).found
    few = ["x,cost", "1,1", "2,2.1", "3,2.9"]
    assert "degrees of freedom" in curvature(tmp_path, few).found


def test_shares_of_an_orthogonal_design_add_up(tmp_path: Path) -> None:
    found = study(fit(read_csv(written(tmp_path, table()))))
    assert found.variation.orthogonal
    *parts, _total = found.variation.sources
    assert sum(one.share or 0.0 for one in parts) == pytest.approx(1)
    assert found.variation.r_squared == pytest.approx(1 - (parts[-1].share or 0.0))


def test_lenths_pseudo_standard_error_leaves_large_effects_out() -> None:
    """By hand: the median .30 gives .45; below 2.5 times that are 13, whose median .15 gives .225."""
    sizes = [0.13, 0.15, 0.3, 0.15, 0.4, 0.03, 0.38, 0.4, 0.05, 0.43, 0.13, 0.13, 0.38, 2.15, 3.1]
    assert lenth_pse(np.array(sizes)) == pytest.approx(0.225)


def test_formulas_name_their_terms() -> None:
    found = parse_formula("cost ~ (read + server.mtu + protocol)**2 - read:protocol", FACTORS)
    assert found.outcome == "cost"
    assert [name_of(term) for term in found.terms] == [
        "read", "server.mtu", "protocol", "read:server.mtu", "server.mtu:protocol",
    ]  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(st.text(alphabet="readserver.mtu protocol+*:()-~0123/^|,'\"#[]{}\\é\n", max_size=40))
def test_no_formula_breaks_anything(text: str) -> None:
    try:
        found = parse_formula(text, FACTORS)
    except ExperimentError as error:
        assert error.where
        return
    assert found.terms


@settings(max_examples=60, deadline=None)
@given(st.text(alphabet="ab01,;.KiBms%\n\"'- [] ", max_size=80))
def test_no_file_breaks_anything(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    path = tmp_path_factory.mktemp("csv") / "any.csv"
    path.write_text(text, encoding="utf-8")
    try:
        data = read_csv(path)
        made = study(fit(data))
    except IodynoError:
        return
    assert np.all(np.isfinite(made.model.coefficients))


@given(
    st.lists(
        st.tuples(st.sampled_from([1, 2, 4]), st.sampled_from(["x", "y", "z"]), st.floats(-1e3, 1e3)),
        min_size=8,
        max_size=30,
    )
)
@settings(max_examples=60, deadline=None)
def test_no_number_is_ever_no_number(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[int, str, float]]
) -> None:
    lines = ["n,word,value [ns/operation]", *(f"{n},{word},{value!r}" for n, word, value in rows)]
    path = tmp_path_factory.mktemp("csv") / "rows.csv"
    path.write_text("\n".join(lines), encoding="utf-8")
    try:
        made = study(fit(read_csv(path)))
    except ExperimentError:
        return
    from iodyno.report.cost_model import study_json

    json.dumps(study_json(made), allow_nan=False)


def test_a_prepared_model_drops_blocks_that_are_a_term(tmp_path: Path) -> None:
    lines = table(2)
    lines = [
        lines[0],
        *(line.replace(f",{line.split(',')[1]},", f",{line.split(',')[3]},", 1) for line in lines[1:]),
    ]
    data = read_csv(written(tmp_path, lines))
    assert set(data.blocks) == {"tcp", "udp"}
    assert prepare(data).blocks == 0, "the protocol is the block: its effect cannot be had apart"


def test_one_unit_in_both_equations(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = ["iops [1/s],size,cpu [cores]"]
    source = np.random.default_rng(1)
    for rate, size in [*product((1000, 4000), (4, 64))] * 4:
        lines.append(f"{rate},{size}KiB,{rate * 1e-6 * (20 + size) + source.normal(0, 1e-5):.7f}")
    code, out, _ = shown(capsys, "--csv", str(written(tmp_path, lines)), "--per", "iops", "--json")
    assert code == 0
    found = json.loads(out)
    first, slope = found["factored"]
    # 20 us for an operation, and 1 us more for each KiB of it.
    assert first["estimate"] == pytest.approx(20e-6, rel=0.01)
    assert slope["product"] == "size_KiB" and slope["estimate"] == pytest.approx(1e-6, rel=0.01)
    assert slope["over_first"]["estimate"] == pytest.approx(1 / 20, rel=0.01)
    assert found["factored_variables"]["size_KiB"] == found["equation"]["variables"]["size_KiB"]


def test_a_load_beyond_all_that_was_carried_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = ["iops [1/s],cpu [cores]"]
    lines += [f"{rate},{rate * 2e-5 + n * 1e-4:.6f}" for n, rate in enumerate([1000, 4000] * 4)]
    asked = ("--per", "iops", "--cores", "--target-utilisation", "70%", "--load")
    path = str(written(tmp_path, lines))
    code, out, _ = shown(capsys, "--csv", path, *asked, "70000/s")
    assert code == 0
    assert "warning: a load of 70000/s is 17.5 times the most that was carried, 4000/s" in out
    code, out, _ = shown(capsys, "--csv", path, *asked, "4000/s")
    assert code == 0 and "the most that was carried" not in out


def test_a_size_called_block_is_a_factor_and_a_number_is_one_by_formula(tmp_path: Path) -> None:
    lines = ["block,read [%],cost [ns/operation]"]
    lines += [
        f"{block},{read},{1000 + n}" for n, (block, read) in enumerate(product(("4KiB", "64KiB"), (0, 1)))
    ]
    found = read_csv(written(tmp_path, lines))
    assert [factor.name for factor in found.factors] == ["block", "read"] and not found.blocks
    numbers = [line.replace("KiB", "") for line in lines]
    assert read_csv(written(tmp_path, numbers)).blocks == ("4", "4", "64", "64")
    named = read_csv(written(tmp_path, numbers), formula="cost ~ block + read")
    assert [factor.name for factor in named.factors] == ["block", "read"] and not named.blocks


def test_an_equation_that_misses_its_points_is_marked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = ["load,size,cost"]
    for load, size in product((1, 2, 3), (1, 8)):
        # Bent by as much as gives a chance of about .02.
        middle = 100 + 10 * load + size + (3.2 if load == 2 else 0)
        lines += [f"{load},{size},{middle + noise}" for noise in (-2, 0, 2)]
    file = str(written(tmp_path, lines))
    code, out, _ = shown(capsys, "--csv", file, "--formula", "cost ~ load * size")
    assert code == 0
    assert 0.01 < float(out.partition("p = ")[2].partition(")")[0]) < 0.05
    assert out.startswith("Not to be used: the model misses the means of the points")
    assert out.count("misses") == 1
    # Where no line fits, every level stands for itself; a level between is told by the line alone.
    code, out, _ = shown(capsys, "--csv", file)
    assert code == 0 and "Not to be used" not in out and "load = 2" not in out
    code, out, _ = shown(capsys, "--csv", file, "--at", "load=2.5")
    assert code == 0 and "Not to be used" in out


def test_trials_that_missed_their_rate_are_a_warning(tmp_path: Path) -> None:
    data = read_csv(written(tmp_path, table()))
    kept = tuple(Rate(4000.0, 3990.0) for _ in data.values)
    checks = [check for check in study(fit(replace(data, rates=kept))).checks if check.name == "rates"]
    assert [check.warning for check in checks] == [None]
    missed = study(fit(replace(data, rates=(*kept[1:], Rate(4000.0, 2100.0)))))
    assert any("1 of 24 trials carried less than the rate" in warning.text for warning in missed.warnings)
    assert any("(2100 of 4000/s)" in warning.text for warning in missed.warnings)
