"""What sources of metrics answer: right values out of right answers, a reason out of anything else."""

from __future__ import annotations

import json
import math

from hypothesis import example, given
from hypothesis import strategies as st

from iodyno.core.metric_source import MetricValue
from iodyno.formats.metric_answers import (
    Found,
    number,
    of_csv,
    of_exposition,
    of_lines,
    of_range,
    of_snmp,
    server_time,
    time_of,
)

PAGE = """\
# HELP array_read_seconds Time in reads.
# TYPE array_read_seconds counter
array_read_seconds_total{volume="v1",site="a b"} 12.5
array_read_seconds_total{volume="v2",site="a b"} 7 1795748400000
array_busy 0.97
array_busy_max 1
array_nothing NaN
"""
V1 = MetricValue("array_read_seconds_total", "counter", "s", {"volume": "v1"})


def of_page(name: str, **labels: str) -> Found:
    return of_exposition(PAGE, {"it": MetricValue(name, "gauge", labels=labels)})["it"]


def test_a_page_has_the_one_sample_with_name_and_labels() -> None:
    assert of_exposition(PAGE, {"read": V1}) == {"read": 12.5}
    assert of_page("array_busy") == 0.97
    assert of_page("array_read_seconds_total", volume="v2", site="a b") == 7.0


def test_a_value_that_a_page_lacks_says_why_and_is_never_0() -> None:
    assert of_page("array_bus") == "array_bus is not on the page"
    assert of_page("array_read_seconds_total", site="a b") == (
        "2 of 2 samples of array_read_seconds_total have the labels asked for; expected one"
    )
    assert "none of 2 samples" in str(of_page("array_read_seconds_total", volume="v3"))
    assert of_page("array_nothing") == "its value is nan"
    large = {"it": MetricValue("large", "gauge")}
    assert of_exposition(f"# TYPE large gauge\nlarge {'9' * 400}\n", large) == {"it": "its value is inf"}


def test_a_wrong_line_costs_the_metric_that_it_is_of_alone() -> None:
    broken = PAGE + 'array_other{volume="v1 3\n{{{\n'
    values = {"read": V1, "other": MetricValue("array_other", "gauge")}
    found = of_exposition(broken, values)
    assert found["read"] == 12.5 and "array_other cannot be read" in str(found["other"])


def test_lines_of_a_command_and_of_snmpget() -> None:
    values = {
        "a": MetricValue("load", "gauge"),
        "b": MetricValue("queue", "gauge"),
        "c": MetricValue("x", "gauge"),
    }
    assert of_lines("load 1.5\nno value here\nqueue many\n", values) == {
        "a": 1.5,
        "b": "'many' is no number",
        "c": "x was not printed",
    }
    assert of_snmp("17\n4\n-1\n", values) == {"a": 17.0, "b": 4.0, "c": -1.0}
    assert of_snmp("17\n", values)["a"] == "snmpget printed 1 line for 3 objects"
    assert of_snmp("17\nNo Such Object\n1\n", values)["b"] == "'No Such Object' is no number"


def test_times_are_told_by_their_size_or_their_zone() -> None:
    second = 1_795_748_400 * 10**9
    for text in ("1795748400", "1795748400.0", "1795748400000", "1795748400000000", str(second)):
        assert time_of(text) == second
    assert time_of("2026-11-27T03:00:00Z") == time_of("2026-11-27T05:00:00+02:00") == second
    assert time_of("2026-11-27T03:00:00") is None and time_of("-3") is None and time_of("noon") is None


def test_columns_of_a_csv_between_two_times() -> None:
    text = "at,busy,note\n1,0.1,x\n2,0.2,y\n3,oops,z\n4,0.4\n5\n"
    values = {"busy": MetricValue("busy", "gauge"), "gone": MetricValue("gone", "gauge")}
    found = of_csv(text, values, "at", (2 * 10**9, 5 * 10**9))
    assert found == {"busy": [(2 * 10**9, 0.2), (4 * 10**9, 0.4)], "gone": "no column gone"}
    assert of_csv(text, values, "when", (0, 1))["busy"] == "no column when"


def test_answers_of_a_server() -> None:
    def answer(*series: list[list[object]]) -> str:
        return json.dumps({"status": "success", "data": {"result": [{"values": v} for v in series]}})

    assert of_range(answer([[1.5, "2"], [2.5, "NaN"], [3.5, "4"]])) == [
        (1_500_000_000, 2.0),
        (3_500_000_000, 4.0),
    ]
    assert of_range(answer()) == "the query has 0 series; expected one"
    assert of_range(answer([], [])) == "the query has 2 series; expected one"
    assert of_range('{"status": "error", "error": "parse error"}') == "the server says: parse error"
    assert "cannot be read" in str(of_range("<html>")) and "cannot be read" in str(of_range("[" * 100_000))
    assert server_time('{"data": {"result": [1795748400.25, "1795748400.25"]}}') == 1_795_748_400_250_000_000


ANY = st.one_of(
    st.text(max_size=200),
    st.lists(
        st.sampled_from(
            ["array_busy", "array_read_seconds_total", "{", "}", '"', "=", ",", "\\", " ", "\n", "1e999", "-", "NaN", "#",
             "volume", "v1", "0x1", "1_0", "# TYPE", "[", "]", '{"status":"success","data":', '"result":', "9" * 400, "\0"]
        ),
        max_size=40,
    ).map("".join),
)  # fmt: skip
VALUES = {"busy": MetricValue("array_busy", "gauge"), "read": V1}


@given(ANY)
@example('array_busy{volume="' + "\\" * 5000)
@example("array_busy " + "9" * 5000)
@example('"' + "a," * 70_000)
def test_whatever_comes_is_a_finite_number_or_a_reason(text: str) -> None:
    for found in (of_exposition(text, VALUES), of_lines(text, VALUES), of_snmp(text, VALUES)):
        assert found.keys() == VALUES.keys()
        for value in found.values():
            assert value if isinstance(value, str) else math.isfinite(value)
    for dated in (*of_csv(text, VALUES, "", (0, 1 << 62)).values(), of_range(text)):
        assert dated if isinstance(dated, str) else all(math.isfinite(value) for _, value in dated)
    assert isinstance(number(text), (float, str)) and (time_of(text) or 0) < 1 << 62
