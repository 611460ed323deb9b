"""Laws of sizes and arrivals as people write them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iodyno.campaign import distributions
from iodyno.core.distribution import LARGEST, checked_zones, parse_sizes, parse_zones
from iodyno.core.errors import ExperimentError, PreflightError
from iodyno.core.workload import REQUEST_RESPONSE


@pytest.mark.parametrize(
    "written, text",
    [
        ("uniform(64, 9000)", "uniform(64B, 9000B)"),
        (" exponential( 1KiB , most = 64KiB )", "exponential(1KiB, most=64KiB)"),
        ("mix(64B: 7, 1500B:1)", "mix(64B: 7, 1500B: 1)"),
        ("trace('sizes.txt')", "trace(sizes.txt)"),
    ],
)
def test_a_law_is_read_and_shown(written: str, text: str) -> None:
    assert parse_sizes(written).text == text
    assert parse_sizes(text) == parse_sizes(written)


@pytest.mark.parametrize(
    "written",
    [
        "", "uniform", "uniform()", "uniform(9, 1)", "uniform(1)", "uniform(0, 5)", "uniform(1, 2GiB)",
        "exponential(1KiB)", "exponential(2KiB, most=1KiB)", "exponential(1KiB, least=1)", "mix()", "mix(64)",
        "mix(64: 0)", "mix(64: -1)", "mix(64: x)", "trace()", "normal(1, 2)", "uniform(64s, 1h)", "uniform(1, 2",
    ],
)  # fmt: skip
def test_what_is_no_law_is_refused_with_what_is_allowed(written: str) -> None:
    with pytest.raises(ValueError, match="invalid value"):
        parse_sizes(written)


@given(st.lists(st.tuples(st.integers(1, LARGEST), st.integers(1, 1000)), min_size=1, max_size=9))
def test_a_mix_survives_being_written(pairs: list[tuple[int, int]]) -> None:
    written = f"mix({', '.join(f'{size}: {weight}' for size, weight in pairs)})"
    law = parse_sizes(written)
    assert list(zip(law.values, law.weights, strict=True)) == pairs
    assert parse_sizes(law.text) == law
    assert law.greatest == max(size for size, _ in pairs)


def test_parameters_take_laws() -> None:
    sizes, arrivals = REQUEST_RESPONSE.parameter("sizes"), REQUEST_RESPONSE.parameter("arrivals")
    assert sizes is not None and arrivals is not None
    assert sizes.parse("uniform(1, 2KiB)") == "uniform(1B, 2KiB)"
    assert arrivals.parse("poisson") == "poisson"
    assert arrivals.parse("trace( gaps.txt )") == "trace(gaps.txt)"
    for wrong in ("often", "uniform(1, 2)", 7):
        with pytest.raises(ValueError, match="expected"):
            arrivals.parse(wrong)


def test_what_the_agent_is_told(tmp_path: Path) -> None:
    assert distributions.arrivals({}, 1) is None
    assert distributions.arrivals({"rate": 10, "arrivals": "closed"}, 1) is None
    found = distributions.arrivals({"rate": 10, "burst": 4}, 1)
    # 10 operations a second in bursts of 4: 10 arrivals in 4 seconds.
    assert found is not None
    assert (found["law"], found["operations"], found["period_ns"]) == ({"law": "constant"}, 10, 4 * 10**9)
    gaps = tmp_path / "gaps.txt"
    gaps.write_text("1ms # first\n\n3ms\n", encoding="utf-8")
    found = distributions.arrivals({"arrivals": f"trace({gaps})"}, 1)
    assert found is not None
    assert found["law"] == {"law": "trace", "gaps_ns": [1_000_000, 3_000_000]}
    assert (found["operations"], found["period_ns"]) == (2, 4_000_000)
    assert distributions.sizes({"size": 64}) == (64, None)
    assert distributions.sizes({"size": 64, "sizes": "uniform(1B, 9KiB)"})[0] == 9216


@pytest.mark.parametrize(
    "text, said", [("x", "gaps.txt:1"), ("", "0 values"), ("0ns", "all times"), (None, "cannot be read")]
)
def test_a_trace_that_cannot_be_used_says_why(text: str | None, said: str, tmp_path: Path) -> None:
    file = tmp_path / "gaps.txt"
    if text is not None:
        file.write_text(text, encoding="utf-8")
    with pytest.raises(ExperimentError) as raised:
        distributions.arrivals({"arrivals": f"trace({file})"}, 1)
    assert said in f"{raised.value} {raised.value.where}"
    with pytest.raises(PreflightError):
        distributions.arrivals({"arrivals": "poisson"}, 1)


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("zones(10%: 90%)", "the shares of space are 10%; expected 100%"),
        ("zones(10%: 90%, 90%: 20%)", "the shares of operations are 110%; expected 100%"),
        ("zones(0%: 50%, 100%: 50%)", "a zone without space"),
        ("zones(10%, 90%)", "expected zones("),
        ("zones(10%: many, 90%: few)", "a share such as"),
        ("zones()", "expected zones("),
    ],
)
def test_zones_that_are_no_whole_are_refused(written: str, said: str) -> None:
    with pytest.raises(ValueError, match=re.escape(said)):
        parse_zones(written)


def test_zones_have_one_usual_form() -> None:
    assert checked_zones(" zones( 0.5 : 10%,50%:0.9 )") == "zones(50%: 10%, 50%: 90%)"


def test_constant_arrivals_of_several_senders_lie_between_each_others() -> None:
    settings = {"rate": 1000, "arrivals": "constant"}
    jobs = [distributions.arrivals(settings, 7, (sender, 4)) for sender in range(4)]
    assert [job["law"].get("earlier_ns", 0) for job in jobs if job] == [0, 10**6, 2 * 10**6, 3 * 10**6]
    assert [job["period_ns"] // job["operations"] for job in jobs if job] == 4 * [4 * 10**6]
