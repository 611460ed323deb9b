"""A family of tunables: one CPU mask for each queue or interrupt of a device, read and written together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from iodyno.core.workload import Level
from iodyno.hosts.guard import Look, Seen, Step
from iodyno.hosts.tunables.tunable import Place, Scope, State, cpus_of, mask_of, write

# Of a virtio device they are its parent's; one without messages has a single interrupt.
_INTERRUPTS = """
cd {device}/device || exit 1
for irq in $(ls msi_irqs 2>/dev/null || ls ../msi_irqs 2>/dev/null || cat irq); do
  grep -H . /proc/irq/$irq/smp_affinity
done
grep -sHx irqbalance /proc/[0-9]*/comm || true
"""
INTERRUPTS = "interrupts"


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
            return {path: (everywhere[n % len(everywhere)],) for n, path in enumerate(sorted(queues))}
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
