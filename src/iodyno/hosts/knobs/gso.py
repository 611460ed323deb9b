"""Segmentation in the kernel, just before the device: LSO in software."""

from __future__ import annotations

from iodyno.hosts.knobs.offload import Offload

KNOB = Offload("gso", ("generic-segmentation-offload",))
