"""iodyno: the dynamometer for network and storage I/O. What the command line does, these names do."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from iodyno.analysis.decisions.sides import PairVerdicts
    from iodyno.api import Campaign, compare, disk, explore, load, noise, plan, read, rr, run, search, tcp
    from iodyno.campaign.strategy import Answer, Strategy, TrialResult
    from iodyno.core.design import Design, Point
    from iodyno.core.errors import ExperimentError, IodynoError, TrialError
    from iodyno.core.experiment import Experiment
    from iodyno.core.outcome import Estimate
    from iodyno.core.warnings import Warning
    from iodyno.strategies.base import outcome

__all__ = [
    "Answer",
    "Campaign",
    "Design",
    "Estimate",
    "Experiment",
    "ExperimentError",
    "IodynoError",
    "PairVerdicts",
    "Point",
    "Strategy",
    "TrialError",
    "TrialResult",
    "Warning",
    "compare",
    "disk",
    "explore",
    "load",
    "noise",
    "outcome",
    "plan",
    "read",
    "rr",
    "run",
    "search",
    "tcp",
]

_PLACES = {
    "iodyno.analysis.decisions.sides": ("PairVerdicts",),
    "iodyno.campaign.strategy": ("Answer", "Strategy", "TrialResult"),
    "iodyno.core.design": ("Design", "Point"),
    "iodyno.core.errors": ("ExperimentError", "IodynoError", "TrialError"),
    "iodyno.core.experiment": ("Experiment",),
    "iodyno.core.outcome": ("Estimate",),
    "iodyno.core.warnings": ("Warning",),
    "iodyno.strategies.base": ("outcome",),
}
_PLACE_OF = {name: place for place, names in _PLACES.items() for name in names}


def __getattr__(name: str) -> Any:
    """A public name, imported when it is asked for: the command line needs none of them."""
    if name not in __all__:
        raise AttributeError(f"module 'iodyno' has no attribute {name!r}")
    found = getattr(import_module(_PLACE_OF.get(name, "iodyno.api")), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return [*__all__]
