"""Receive packet steering: the CPU that took the packets hands them to others, as soft rings do."""

from __future__ import annotations

from iodyno.hosts.knobs.queue_files import QueueMasks

KNOB = QueueMasks("rps", "rx", "rps_cpus")
