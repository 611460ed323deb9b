"""Interrupts by CPU and queue: rates and shares of known counts, in JSON and on the page."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from made_campaign import Truth, make_campaign

from iodyno.analysis.dataset import read_dataset
from iodyno.analysis.interrupt_rates import REST, ROWS_MOST, InterruptCounts, adapter_of, rates
from iodyno.analysis.summary import analyse
from iodyno.report.html import page
from iodyno.report.json import campaign
from iodyno.store.writer import write_document

COUNTS = {
    "cpu=0,irq=LOC": 250,
    "cpu=1,irq=LOC": 250,
    "cpu=3,irq=38:eth0-rx-0": 700,
    "cpu=2,irq=38:eth0-rx-0": 100,
    "cpu=1,irq=39:eth0-rx-1": 150,
    "cpu=0,irq=40:eth0-rx-2": 50,
    "cpu=0,irq=9:acpi": 5,
}
"""Of a second: of 1000 interrupts of three queues, 800 are of the first."""


def test_the_queue_that_takes_most_is_seen_with_the_cpu_it_fills(tmp_path: Path) -> None:
    # A label that no agent writes is in nobody's way.
    strange = {"cpu=x,irq=LOC": 7, "": 7}
    made = make_campaign(tmp_path / "c", [({}, Truth(interrupts=COUNTS | strange)), ({}, Truth())])
    summary = analyse(read_dataset(made))
    counted, none = summary.points
    assert none.interrupts == ()
    mine = counted.interrupts
    assert [one.name for one in mine] == ["38:eth0-rx-0", "39:eth0-rx-1", "40:eth0-rx-2", "9:acpi", "LOC"]
    assert [one.per_s.estimate for one in mine] == pytest.approx([800, 150, 50, 5, 500])
    assert [one.of_queues.estimate if one.of_queues else None for one in mine] == [
        *(pytest.approx(share) for share in (0.8, 0.15, 0.05)),
        None,
        None,
    ]
    assert list(mine[0].by_cpu.items()) == [(3, pytest.approx(700)), (2, pytest.approx(100))]
    assert mine[0].per_s.n == 3 and mine[0].queues == 3

    told, without = campaign(summary)["points"]
    assert without["interrupts"] == []
    first = told["interrupts"][0]
    assert first["name"] == "38:eth0-rx-0" and first["by_cpu_per_s"] == {"3": 700.0, "2": 100.0}
    assert first["per_s"]["estimate"] == 800 and first["queue_share"]["estimate"] == pytest.approx(0.8)
    shown = page(summary)
    assert "80 % of 3" in shown and "CPU 3: 700, CPU 2: 100" in shown
    assert shown.count('id="interrupts"') == 1


def test_those_of_hosts_on_one_machine_are_told_once(tmp_path: Path) -> None:
    made = make_campaign(tmp_path / "c", [({}, Truth(interrupts=COUNTS))])
    (point,) = analyse(read_dataset(made)).points
    assert {one.host for one in point.interrupts} == {"client"}
    header = json.loads((made / "campaign.json").read_text())
    header["hosts"]["server"]["hello"]["host"]["boot_id"] = "two"
    write_document(made / "campaign.json", header)
    (point,) = analyse(read_dataset(made)).points
    assert {one.host for one in point.interrupts} == {"client", "server"}


def test_a_page_without_interrupts_has_no_table_of_them(tmp_path: Path) -> None:
    summary = analyse(read_dataset(make_campaign(tmp_path / "c", [({}, Truth())])))
    assert 'id="interrupts"' not in page(summary)


def test_what_is_beyond_the_first_is_one_row_and_nothing_is_lost() -> None:
    counts = {f"{number}:nvme0q{number}": {number: 100 + number} for number in range(20)} | {"LOC": {0: 9000}}
    found = rates("host", [InterruptCounts(2 * 10**9, counts)])
    assert len(found) == ROWS_MOST + 1 and found[-1].name == REST
    assert found[0].name == "19:nvme0q19" and found[0].queues == 20
    total = sum(sum(each.values()) for each in counts.values()) / 2
    assert sum(one.per_s.estimate or 0 for one in found) == pytest.approx(total)
    assert sum(sum(one.by_cpu.values()) for one in found) == pytest.approx(total)


def test_a_queue_without_interrupts_in_one_trial_counts_as_zero_there() -> None:
    first, second = {"1:eth0-rx-0": {0: 100}}, {"2:eth0-rx-1": {1: 300}}
    one, other = rates("host", [InterruptCounts(10**9, counts) for counts in (second, first)])
    assert (one.name, one.per_s.estimate, one.per_s.n) == ("2:eth0-rx-1", 150, 2)
    assert (other.name, other.per_s.estimate, other.per_s.n) == ("1:eth0-rx-0", 50, 2)
    assert one.of_queues and one.of_queues.estimate == 0.5


@pytest.mark.parametrize(
    ("name", "queues"),
    [
        ("38:eth0-rx-3", "eth0-rx-#"),
        ("38:ice-ens1f0-TxRx-12", "ice-ens1f0-TxRx-#"),
        ("38:eth0-Tx-Rx-0", "eth0-Tx-Rx-#"),
        ("38:eth0-rx3", "eth0-rx#"),
        ("38:virtio2-input.0", "virtio2-input.#"),
        ("38:nvme0q3", "nvme0q#"),
        ("38:mlx5_comp3@pci:0000:01:00.0", "mlx5_comp#@pci:0000:01:00.0"),
        ("38:gve-ntfy-blk3@pci:0000:00:04.0", "gve-ntfy-blk#@pci:0000:00:04.0"),
        ("38:eth0", None),
        ("38:virtio2-config", None),
        ("9:acpi", None),
        ("7", None),
        ("LOC", None),
    ],
)
def test_queues_of_drivers_are_told_from_adapters(name: str, queues: str | None) -> None:
    assert adapter_of(name) == queues
