"""Every outcome of a trial, by name. To add one: describe it in `core/outcome.py`, and one line here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from iodyno.analysis import cost, cpu_classes, flows, goodput, observer
from iodyno.analysis.cost import CostBasis, Unit
from iodyno.analysis.cpu_classes import BUSY_CLASSES
from iodyno.analysis.dataset import Trial
from iodyno.analysis.measured import Measured, missing


def _start_skew(trial: Trial) -> Measured:
    start = trial.manifest.get("start") or {}
    skew = start.get("skew_ns")
    if skew is None:
        return missing("the start of a host is not known")
    return Measured(float(skew), assumptions=("clock offsets are known to within their stored error",))


def _cost(
    trial: Trial, host: str, basis: CostBasis, *, unit: Unit = "KiB", classes: tuple[str, ...] = ()
) -> Measured:
    return cost.cpu_time(trial, host, basis, unit, *classes)


def _ratio(trial: Trial, host: str, basis: CostBasis, *, classes: tuple[str, ...]) -> Measured:
    return cpu_classes.ratio(trial, host, basis.accounting, *classes)


OF_TRIAL: Mapping[str, Callable[[Trial], Measured]] = {
    "goodput_bits_per_s": goodput.goodput,
    "writes_per_s": goodput.writes,
    "write_service_time_mean_ns": goodput.write_service_time_mean,
    "write_service_time_p50_ns": partial(goodput.write_service_time_quantile, q=0.5),
    "write_service_time_p99_ns": partial(goodput.write_service_time_quantile, q=0.99),
    "write_service_time_p999_ns": partial(goodput.write_service_time_quantile, q=0.999),
    "retransmits_per_segment": flows.retransmits_per_segment,
    "device_segment_bytes": flows.device_segment_bytes,
    "segments_per_ack": flows.segments_per_ack,
    "rwnd_limited_ratio": flows.rwnd_limited_ratio,
    "sndbuf_limited_ratio": flows.sndbuf_limited_ratio,
    "start_skew_ns": _start_skew,
    "observer_cost_ratio": observer.dearest_cost_ratio,
}

OF_HOST: Mapping[str, Callable[[Trial, str, CostBasis], Measured]] = {
    "cycles_per_kbyte": cost.cycles_per_kbyte,
    "cpu_ns_per_kib": cost.cpu_time,
    "cpu_ns_per_operation": partial(_cost, unit="operation"),
    "cpu_ns_per_packet": partial(_cost, unit="packet"),
    **{f"cpu_{kind}_ns_per_kib": partial(_cost, classes=(kind,)) for kind in BUSY_CLASSES},
    "cpu_busy_ratio": lambda trial, host, basis: cpu_classes.busy_ratio(trial, host, basis.accounting),
    **{f"cpu_{kind}_ratio": partial(_ratio, classes=(kind,)) for kind in (*BUSY_CLASSES, "idle")},
    "cpu_intr_ratio": partial(_ratio, classes=("irq", "softirq")),
    "cpu_steal_ratio": lambda trial, host, _: cpu_classes.steal_ratio(trial, host),
    "observer_cost_ratio": lambda trial, host, _: observer.cost_ratio(trial, host),
    "context_switches_per_s": lambda trial, host, _: cost.context_switches(trial, host),
}


def measure(trial: Trial, basis: CostBasis) -> dict[str, Measured]:
    """Every outcome of a finished trial; those of a host are prefixed with its name."""
    found = {name: measure_one(trial) for name, measure_one in OF_TRIAL.items()}
    for host in trial.hosts:
        found |= {f"{host}.{name}": measure_one(trial, host, basis) for name, measure_one in OF_HOST.items()}
    return found
