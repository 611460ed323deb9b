"""Transmit packet steering: which CPUs send on which queue."""

from __future__ import annotations

from iodyno.hosts.knobs.queue_files import QueueMasks

KNOB = QueueMasks("xps", "tx", "xps_cpus")
