"""Two-level fractions: by resolution, by number of runs, by generators, or by the effects that must be clear.

The arithmetic of fractions, with its sources, is in `two_level`. Of a factor with more than two numbers, the least and the
greatest are visited.
"""

from __future__ import annotations

from collections.abc import Sequence

from iodyno.core import effect
from iodyno.core.design import Structure
from iodyno.core.errors import ExperimentError
from iodyno.core.experiment import Experiment
from iodyno.core.invalid import invalid
from iodyno.core.quantity import counted
from iodyno.designs import ranges, two_level
from iodyno.designs.runs import Runs, of_levels
from iodyno.designs.two_level import Fraction

ROMAN = ("", "I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX", "X", "XI", "XII", "XIII", "XIV", "XV")


def roman(resolution: int | None) -> str:
    """A resolution as the field writes it.

    >>> roman(5)
    'V'
    """
    if resolution is None:
        return "full"
    return ROMAN[resolution] if resolution < len(ROMAN) else str(resolution)


def points(experiment: Experiment) -> Runs:
    """The runs of the fraction that the design asks for. Raises ExperimentError."""
    ranges.two_levels(experiment)
    return runs_of(experiment, fraction_of(experiment))


def fraction_of(experiment: Experiment) -> Fraction:
    """The fraction that the design asks for. Raises ExperimentError."""
    spec, count = experiment.design, len(experiment.factors)
    if count > two_level.MOST_FACTORS:
        raise ExperimentError(
            f"invalid value: {count} factors; expected {two_level.MOST_FACTORS} at most in the design fractional",
            where="factors",
            advice="screen them with plackett_burman first",
        )
    names = [factor.name for factor in experiment.factors]
    if spec.generators:
        if spec.runs or spec.clear:
            raise ExperimentError(
                f"generators cannot be used with {'runs' if spec.runs else 'clear'}",
                where="design.generators",
                advice="generators say all: leave the other out",
            )
        fraction = _generated(spec.generators, names)
        return _at_least(fraction, spec.resolution, "the generators give")
    base = _base_of(spec.runs, count)
    if spec.clear:
        wanted = [_effect(written, names, "clear") for written in spec.clear]
        least = spec.resolution or 4
        bases = [base] if base else list(range(max(1, count.bit_length()), count + 1))
        found = two_level.with_clear(count, wanted, least, bases)
        if found is None:
            runs = f" in {spec.runs} runs" if spec.runs else ""
            raise ExperimentError(
                f"no fraction of resolution {roman(least)}{runs} was found with {', '.join(spec.clear)} clear",
                where="design.clear",
                advice="leave runs out, ask for fewer clear effects, or for resolution 5, where all of them are",
            )
        return found
    if base:
        best = two_level.full(count) if base == count else two_level.least_aberration(count, base)
        if best is None:
            raise ExperimentError(
                f"invalid value: {spec.runs} runs, which cannot tell {count} main effects apart",
                where="design.runs",
                advice=f"runs: {1 << count.bit_length()}",
            )
        return _at_least(best, spec.resolution, f"{spec.runs} runs of {count} factors have")
    if spec.resolution:
        if spec.resolution < 3:
            raise ExperimentError(
                f"invalid value: resolution {spec.resolution}; expected 3 or more; with less, main "
                "effects are aliased with each other",
                where="design.resolution",
                advice="resolution: 5 keeps main effects and two-factor interactions apart",
            )
        return two_level.smallest(count, spec.resolution)
    raise ExperimentError(
        "nothing says which fraction; expected resolution, runs, generators or clear",
        where="design",
        advice="resolution: 5 keeps main effects and two-factor interactions apart",
    )


def runs_of(experiment: Experiment, fraction: Fraction) -> Runs:
    """The runs of a fraction, divided into parts when the design asks for it. Raises ExperimentError."""
    spec = experiment.design
    names = [factor.name for factor in experiment.factors]
    ends = ranges.two_levels(experiment)
    coded = list(fraction.rows())
    levels = [
        {
            name: level
            for factor, (low, high), value in zip(experiment.factors, ends, row, strict=True)
            for name, level in ranges.at(factor, low if value < 0 else high).items()
        }
        for row in coded
    ]
    parts: list[int] | None = None
    hidden: Sequence[int] = ()
    if spec.split > 1:
        columns = _block_columns(experiment, fraction, names)
        parts = [two_level.part_of(fraction, columns, row) for row in coded]
        hidden = two_level.hidden_by(fraction, columns)
    return of_levels(levels, parts=parts, structure=_structure(fraction, names, hidden))


def _structure(fraction: Fraction, names: Sequence[str], hidden: Sequence[int]) -> Structure:
    generators = []
    base = [names[index] for index, own in enumerate(fraction.columns) if own.bit_count() == 1]
    for index, own in enumerate(fraction.columns):
        if own.bit_count() > 1:
            sign = "-" if fraction.signs[index] < 0 else ""
            generators.append(f"{names[index]} = {sign}{effect.name_of(own, base)}")
    words = tuple(
        ("-" if fraction.sign_of(word) < 0 else "") + effect.name_of(word, names) for word in fraction.words
    )
    confounded = tuple(effect.name_of(mask, names) for mask in hidden)
    return Structure(tuple(generators), words, fraction.resolution, confounded)


def _block_columns(experiment: Experiment, fraction: Fraction, names: Sequence[str]) -> tuple[int, ...]:
    spec = experiment.design
    if spec.split & (spec.split - 1) or spec.split * 2 > fraction.runs:
        raise ExperimentError(
            f"invalid value: {spec.split} blocks a replicate; expected a power of two, "
            f"{fraction.runs // 2} at most for {fraction.runs} runs",
            where="design.split",
            advice="split: 2",
        )
    asked = [_effect(written, names, "confound") for written in spec.confound]
    if asked and 1 << len(asked) != spec.split:
        raise ExperimentError(
            f"invalid value: {counted(len(asked), 'effect')} to confound; expected "
            f"{spec.split.bit_length() - 1} for {spec.split} blocks a replicate",
            where="design.confound",
            advice="leave confound out: the effects of the highest order are taken",
        )
    columns = two_level.blocks(fraction, spec.split, asked)
    if columns is None:
        what = "these effects" if asked else f"{spec.split} blocks"
        raise ExperimentError(
            f"{what} would hide a main effect in the differences between blocks",
            where="design.confound" if asked else "design.split",
            advice="choose fewer blocks, or effects of a higher order that are no products of each other",
        )
    return columns


def _base_of(runs: int | None, count: int) -> int:
    if runs is None:
        return 0
    if runs & (runs - 1) or not 4 <= runs <= min(two_level.MOST_RUNS, 1 << count):
        raise ExperimentError(
            f"invalid value: {runs} runs; expected a power of two from 4 to "
            f"{min(two_level.MOST_RUNS, 1 << count)} for {count} factors",
            where="design.runs",
            advice="leave runs out and name a resolution",
        )
    return runs.bit_length() - 1


def _at_least(fraction: Fraction, resolution: int | None, what: str) -> Fraction:
    own = fraction.resolution
    if resolution is not None and own is not None and own < resolution:
        raise ExperimentError(
            f"invalid value: resolution {roman(resolution)}, but {what} resolution {roman(own)} at most",
            where="design.resolution",
            advice="leave runs and generators out: the smallest fraction of that resolution is taken",
        )
    return fraction


def _effect(written: str, names: Sequence[str], key: str) -> int:
    try:
        return effect.parse(written, names)
    except ValueError as problem:
        raise ExperimentError(str(problem), where=f"design.{key}", advice=f"{key}: [{names[0]}]") from None


def _generated(generators: Sequence[str], names: Sequence[str]) -> Fraction:
    """The fraction of generators such as `E = ABCD`, or of products alone for the last factors."""

    def wrong(what: str) -> ExperimentError:
        return ExperimentError(
            what,
            where="design.generators",
            advice="write each as FACTOR = PRODUCT, such as E = ABCD or nagle = size:connections",
        )

    count = len(names)
    if len(generators) >= count:
        raise wrong(
            f"invalid value: {counted(len(generators), 'generator')}; expected fewer than the {count} factors"
        )
    products: dict[int, tuple[int, int]] = {}
    for place, written in enumerate(generators):
        left, equals, right = (step.strip() for step in written.rpartition("="))
        sign = -1 if right.startswith("-") else 1
        product = _effect(right.lstrip("+- "), names, "generators")
        own = _effect(left, names, "generators") if equals else 1 << (count - len(generators) + place)
        if effect.order_of(own) != 1:
            raise wrong(invalid(written, "one factor left of the ="))
        index = own.bit_length() - 1
        if index in products:
            raise wrong(f"duplicate generator of {names[index]}")
        products[index] = (product, sign)
    base = [index for index in range(count) if index not in products]
    columns, signs = [0] * count, [1] * count
    for place, index in enumerate(base):
        columns[index] = 1 << place
    for index, (product, sign) in products.items():
        for other in range(count):
            if product >> other & 1:
                if other in products:
                    raise wrong(
                        f"invalid value: {names[index]} from {effect.name_of(product, names)}, where "
                        f"{names[other]} has a generator itself; expected products of the others"
                    )
                columns[index] |= columns[other]
        signs[index] = sign
    fraction = Fraction(len(base), tuple(columns), tuple(signs))
    if fraction.resolution is not None and fraction.resolution < 3:
        pair = effect.name_of(fraction.words[0], names).replace(":", " and ")
        raise wrong(f"{pair} would be the same column: no trial tells them apart")
    if fraction.runs > two_level.MOST_RUNS:
        raise wrong(f"invalid value: {fraction.runs} runs; expected {two_level.MOST_RUNS} at most")
    return fraction
