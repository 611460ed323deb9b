"""A family of tunables: one CPU mask for each queue or interrupt of a device, read and written together."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from iodyno.core.workload import Level
from iodyno.hosts.guard import Look, Seen, Step
from iodyno.hosts.tunables.tunable import Place, Scope, State, cpus_of, mask_of, run, write

# Of a virtio device they are its parent's; one without messages has a single interrupt.
_INTERRUPTS = """
cd {device}/device || exit 1
for irq in $(ls msi_irqs 2>/dev/null || ls ../msi_irqs 2>/dev/null || cat irq); do
  grep -H . /proc/irq/$irq/smp_affinity
done
grep -sHx irqbalance /proc/[0-9]*/comm || true
"""
INTERRUPTS = "interrupts"
_MASK = re.compile(r"/(?:sys|proc)/[\w./-]+:[0-9a-f,]+")
_BACK = """for one in {masks}; do
  at=${{one%:*}} mask=${{one##*:}}
  [ ! -e $at ] || [ "$(cat $at)" = $mask ] || echo $mask >$at
done"""


@dataclass(frozen=True)
class CpuMasks:
    """CPU masks of the queues of one direction (`queues/<of>-<n>/<file>` of the device), or of its interrupts.

    A level that the words do not fit is shown as the CPUs of the first one, and is brought back as it was.
    """

    name: str
    of: str
    file: str
    scope: Scope = "device"

    def looks(self, place: Place) -> list[Look]:
        """All of them, each with its name before it."""
        script = f"grep -H . {place.sysfs}/queues/{self.of}-*/{self.file}"
        if self.of == INTERRUPTS:
            script = _INTERRUPTS.format(device=place.sysfs)
        return [{"run": ["sh", "-c", script]}]

    def state(self, place: Place, seen: Sequence[Seen]) -> State:
        """The word for the masks, where there is one."""
        lines = [line.rpartition(":") for line in (seen[0].text or "").splitlines()]
        moved = any(word == "irqbalance" for _, _, word in lines)
        before = {
            path: mask for path, _, mask in lines if path.startswith("/") and not path.endswith("/comm")
        }
        if not before:
            lacks = (
                "interrupts of its own"
                if self.of == INTERRUPTS
                else f"{self.file}: with one queue there is nothing to choose"
            )
            return State(unsupported=f"the device has no {lacks}")
        masks = {path: cpus_of(mask) for path, mask in before.items()}
        words = [word for word in ("off", "own", "others", "all", "spread") if self._fits(word, masks, place)]
        shown = ",".join(map(str, next(iter(masks.values()))))
        needs = "only while irqbalance is off, which moves interrupts by itself" if moved else None
        return State(level=words[0] if words else f"cpus {shown}", needs=needs, before=before)

    def steps(self, place: Place, state: State, level: Level) -> list[Step]:
        """A mask for each."""
        if state.needs:
            raise ValueError(state.needs)
        return [
            write(path, mask_of(cpus)) for path, cpus in self._masks(str(level), state.before, place).items()
        ]

    def undo(self, place: Place, state: State) -> list[Step]:
        """Each mask as it was."""
        return [write(path, mask) for path, mask in state.before.items()]

    def _fits(self, word: str, masks: Mapping[str, tuple[int, ...]], place: Place) -> bool:
        try:
            return self._masks(word, masks, place) == masks
        except ValueError:
            return False

    def _masks(self, word: str, queues: Mapping[str, object], place: Place) -> dict[str, tuple[int, ...]]:
        own, everywhere = tuple(sorted(place.cpus)), tuple(sorted(place.machine_cpus))
        if word == "spread":
            if not everywhere:
                raise ValueError("the CPUs of the machine are not known")
            in_order = sorted(queues, key=_numbers)
            return {path: (everywhere[n % len(everywhere)],) for n, path in enumerate(in_order)}
        if word == "others" and not own:
            raise ValueError("the host's own CPUs are not known")
        cpus = {
            "off": (),
            "own": own,
            "others": tuple(cpu for cpu in everywhere if cpu not in own),
            "all": everywhere,
        }[word]
        if not cpus and word != "off":
            raise ValueError(f"no CPU is meant by {word}: the host's own are {own or 'not known'}")
        return dict.fromkeys(queues, cpus)


def _numbers(path: str) -> list[int]:
    """Sort key of a queue or an interrupt: as text the tenth would come before the second."""
    return [int(number) for number in re.findall(r"\d+", path)]


def every_mask(place: Place) -> Look:
    """Look at all masks of a device, which drivers choose anew when the number of its queues changes."""
    interrupts = _INTERRUPTS.format(device=place.sysfs)
    script = f"grep -sH . {place.sysfs}/queues/*/[rx]ps_cpus; ({interrupts}) 2>/dev/null; true"
    return {"run": ["sh", "-c", script]}


def masks_back(seen: Seen) -> list[Step]:
    """Return the step that writes those masks that are not as they were; a queue or an interrupt may be gone by then."""
    masks = [line.split(":") for line in (seen.text or "").splitlines() if _MASK.fullmatch(line)]
    each = " ".join(f"{path}:{mask}" for path, mask in masks)
    return [run("sh", "-c", _BACK.format(masks=each))] if masks else []
