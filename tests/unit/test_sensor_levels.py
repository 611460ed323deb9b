"""How much is read beside a load: what each level reads, what is missing without it, and where it is said."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import iodyno
from iodyno.campaign.sensors import of_level
from iodyno.core.experiment import NO_SENSORS, SENSOR_LEVELS, Experiment, SensorLevel
from iodyno.formats.experiment_file import experiment_text, parse_experiment, with_sensors
from iodyno.report.headline import limited_by
from iodyno.report.limiter import sentence

CATALOGUE = Path(__file__).parents[2] / "schema" / "metrics.json"
KEYS: Mapping[str, Any] = {
    "name": "levels",
    "hosts": {"client": {"access": "simulated"}, "server": {"access": "simulated"}},
    "workload": {"kind": "stream", "sender": "client", "receiver": "server"},
    "factors": {"connections": [2]},
    "design": {"replicates": 3},
    "windows": {"warm_up": "10ms", "measured": "100ms", "drain": "10ms", "interval": "20ms"},
    "outcomes": ["goodput_bits_per_s", "client.cpu_ns_per_kib", "server.cpu_ns_per_kib"],
}


def of(**more: Any) -> Experiment:
    return parse_experiment(experiment_text({**KEYS, **more}))


def test_a_file_has_all_sensors_if_it_says_nothing_and_none_has_call_stacks() -> None:
    assert of().sensors == "full"
    assert (of(sensors="light").profile_hz, of(sensors="off").profile_hz) == (Experiment.profile_hz, 0)
    assert parse_experiment(experiment_text(KEYS) + "sensors: off\n").sensors == "off"
    with pytest.raises(iodyno.IodynoError, match="'some' for sensors: expected one of off, light, full"):
        of(sensors="some")


@pytest.mark.parametrize("level", SENSOR_LEVELS)
@pytest.mark.parametrize("written", [{}, {"sensors": "light"}])
def test_a_level_on_the_command_line_stands_in_the_file_that_is_kept(
    level: SensorLevel, written: dict[str, str]
) -> None:
    asked = with_sensors(of(**written), level)
    again = parse_experiment(asked.text)
    assert (again.sensors, again.profile_hz) == (level, asked.profile_hz)
    assert with_sensors(again, level).text == asked.text


@pytest.mark.parametrize("storage", [True, False])
def test_each_level_reads_what_the_one_below_does_by_names_that_the_agent_has(storage: bool) -> None:
    known = {each["sensor"] for each in json.loads(CATALOGUE.read_text())["sensors"]}
    off, light, full = (of_level(level, storage=storage, settings={}) for level in SENSOR_LEVELS)
    assert off
    assert light
    assert set(off) < set(light) < known
    assert full is None
    # A program in the kernel for each operation is not light.
    assert "block_times" not in light
    assert "tcp_ip" in (of_level("light", storage=False, settings={"transport": "udp"}) or ())


def test_without_sensors_there_are_rates_and_one_reason_for_all_else(tmp_path: Path) -> None:
    found = iodyno.run(of(sensors="off"), into=tmp_path)
    (point,) = found.summary.points
    assert point.outcomes["goodput_bits_per_s"].estimate
    costs = [point.outcomes[f"{host}.cpu_ns_per_kib"] for host in ("client", "server")]
    assert {cost.missing for cost in costs} == {NO_SENSORS}
    assert NO_SENSORS in sentence(point.limiter)
    assert NO_SENSORS in limited_by(point.limiter)
    assert not found.summary.warnings
    # Of an idle machine nothing would be known.
    assert not (found.folder / "background").exists()


def test_what_light_has_no_sensor_of_says_which_level_has_it(tmp_path: Path) -> None:
    outcome = "client.context_switches_per_s"
    found = iodyno.run(of(sensors="light", outcomes=[*KEYS["outcomes"], outcome]), into=tmp_path)
    (point,) = found.summary.points
    assert all(point.outcomes[name].estimate for name in KEYS["outcomes"])
    assert str(point.outcomes[outcome].missing).endswith("as of `sensors: light`; `full` has it")
