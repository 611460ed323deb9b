"""Options of kinds of designs, beside those that all of them have: which options belong to which kinds.

The keys of the section `design` of an experiment file, and the options of `iodyno plan` and `iodyno run`, are these.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from iodyno.core.design import DESIGN_KINDS

EVERY = tuple(DESIGN_KINDS)
_RANDOM = tuple(kind for kind in EVERY if kind not in ("ladder", "csv"))
_MIDDLE = (
    "full_factorial",
    "fractional",
    "plackett_burman",
    "definitive_screening",
    "central_composite",
    "box_behnken",
)


@dataclass(frozen=True)
class DesignOption:
    """An option: what it says, and the kinds of design that it belongs to."""

    name: str
    help: str
    kinds: tuple[str, ...]


OPTIONS_OF: Mapping[str, DesignOption] = {
    option.name: option
    for option in (
        DesignOption("resolution", "Least resolution, 3 (III) or more: the shortest product that is constant.", ("fractional",)),
        DesignOption("runs", "Trials of a replicate: a power of two in fractional and sobol.",
                     ("fractional", "latin_hypercube", "sobol", "d_optimal")),
        DesignOption("generators", "What added factors equal: `E = ABCD`, `nagle = size:connections`.",
                     ("fractional",)),
        DesignOption("clear", "Effects aliased with no main effect and no two-factor interaction.", ("fractional",)),
        DesignOption("split", "Blocks that each replicate is divided into, by confounding.", ("full_factorial", "fractional")),
        DesignOption("confound", "Effects that the blocks of a replicate may hide.", ("full_factorial", "fractional")),
        DesignOption("centre_points", "How often each replicate visits the middle of the factors that are numbers.", _MIDDLE),
        DesignOption("slow", "Factors that are slow to change: trials of one level stay together.", _RANDOM),
        DesignOption("log", "Factors whose middle lies between the logarithms of their ends.", EVERY),
        DesignOption("axial", "Where the points on the axes are.",
                     ("central_composite",)),
        DesignOption("model", "What is to be estimated: main, interactions, quadratic, or effects by name.", ("d_optimal",)),
        DesignOption("augment", "A campaign, or a file of points, that the points are added to.", ("d_optimal",)),
        DesignOption("along", "The factor whose levels make the ramp.", ("ladder",)),
        DesignOption("direction", "Direction of the ramp.", ("ladder",)),
        DesignOption("base", "Level of each factor at the base point; left out: the first of the file.", ("one_factor",)),
        DesignOption("file", "The file of the design, beside the experiment file.", ("csv",)),
        DesignOption("rows", "The text of that file itself.", ("csv", "d_optimal")),
    )
}  # fmt: skip
"""By name. An option that is not here belongs to all kinds: replicates, blocks, seed."""
