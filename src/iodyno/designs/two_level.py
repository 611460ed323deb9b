"""Regular fractions of two-level designs: which product of others each added factor is set equal to, and what that costs.

Box, Hunter and Hunter, Statistics for Experimenters, chapter 12; minimum aberration: Fries and Hunter 1980, "Minimum
aberration 2^(k-p) designs"; blocks: Montgomery, Design and Analysis of Experiments, chapters 7 and 8. Factors are bits of a
number, so that products of columns are exclusive ors.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from iodyno.core import effect

MOST_RUNS = 2**14
"""Runs of a fraction at most (chosen: a day of trials of six seconds)."""
MOST_FACTORS = 20
"""Factors at most (chosen: 2^15 words of the defining relation; plackett_burman screens more)."""
_WORK = 1_500_000
"""Words looked at in a search at most (chosen: about a second). The tables of minimum aberration up to 11 factors and 64 runs
are reached with less (tests); above, the best that was found is taken."""


@dataclass(frozen=True)
class Fraction:
    """A fraction: of each factor, the product of base factors that its column is, and its sign.

    `columns` has a number for each of the factors, with a bit for each of the `base` base factors. A full factorial has
    as many base factors as factors.
    """

    base: int
    columns: tuple[int, ...]
    signs: tuple[int, ...]

    @property
    def factors(self) -> int:
        """Number of factors."""
        return len(self.columns)

    @property
    def runs(self) -> int:
        """Number of runs: 2 to the number of base factors."""
        return 1 << self.base

    def rows(self) -> Iterator[tuple[int, ...]]:
        """Every run as -1 and 1 for each factor; the first base factor changes slowest."""
        for levels in itertools.product((0, 1), repeat=self.base):
            low = sum((1 - level) << index for index, level in enumerate(levels))
            yield tuple(
                sign * (-1 if (column & low).bit_count() % 2 else 1)
                for column, sign in zip(self.columns, self.signs, strict=True)
            )

    def column(self, mask: int) -> int:
        """The column of an effect, as a product of base factors: effects with the same column are aliased."""
        column = 0
        for index, own in enumerate(self.columns):
            if mask >> index & 1:
                column ^= own
        return column

    @cached_property
    def words(self) -> tuple[int, ...]:
        """The defining relation: every product of factors that is constant, shortest first."""
        places = {own: index for index, own in enumerate(self.columns) if own.bit_count() == 1}
        generators = []
        taken = set(places.values())
        for index, own in enumerate(self.columns):
            if index not in taken:
                bits = [1 << places[1 << bit] for bit in range(self.base) if own >> bit & 1]
                generators.append(1 << index | sum(bits))
        words = [0]
        for generator in generators:
            words += [word ^ generator for word in words]
        return tuple(sorted(words[1:], key=lambda word: (word.bit_count(), word)))

    @property
    def resolution(self) -> int | None:
        """Length of the shortest word; None for a full factorial, which has none."""
        return self.words[0].bit_count() if self.words else None

    @property
    def word_lengths(self) -> dict[int, int]:
        """The word-length pattern: how many words there are of each length, from 3."""
        counted: dict[int, int] = {}
        for word in self.words:
            counted[word.bit_count()] = counted.get(word.bit_count(), 0) + 1
        return counted

    def sign_of(self, word: int) -> int:
        """The value of a constant product, 1 or -1."""
        sign = 1
        for index, own in enumerate(self.signs):
            if word >> index & 1:
                sign *= own
        return sign

    def classes(self) -> dict[int, list[int]]:
        """Main effects and two-factor interactions by column: those in one list cannot be told apart."""
        found: dict[int, list[int]] = {}
        for mask in effect.up_to_second(self.factors):
            found.setdefault(self.column(mask), []).append(mask)
        return found

    def clear(self) -> list[int]:
        """Main effects and two-factor interactions that are aliased with no other of them."""
        return [masks[0] for masks in self.classes().values() if len(masks) == 1]


def full(factors: int) -> Fraction:
    """All combinations."""
    return Fraction(factors, tuple(1 << index for index in range(factors)), (1,) * factors)


def least_aberration(factors: int, base: int, resolution: int = 3) -> Fraction | None:
    """The fraction in 2^base runs with the fewest short words; None when none of that resolution was found."""
    best: list[tuple[tuple[int, ...], tuple[int, ...]]] = []

    def take(columns: tuple[int, ...], lengths: tuple[int, ...]) -> bool:
        if not best or lengths < best[0][0]:
            best[:] = [(lengths, columns)]
        return False

    def bound(lengths: tuple[int, ...]) -> bool:
        return bool(best) and lengths >= best[0][0]

    # Long words first: what is asked for prunes the search, and no word is longer than the base factors and one.
    for shortest in range(base + 1, resolution - 1, -1):
        _search(factors, base, shortest, take, bound)
        if best:
            return Fraction(base, best[0][1], (1,) * factors)
    return None


def smallest(factors: int, resolution: int) -> Fraction:
    """The fraction of that resolution with the fewest runs; the full factorial when there is no smaller one."""
    for base in range(max(1, factors.bit_length()), factors):
        found = least_aberration(factors, base, resolution)
        if found is not None:
            return found
    return full(factors)


def with_clear(factors: int, wanted: Sequence[int], resolution: int, bases: Sequence[int]) -> Fraction | None:
    """The fraction with the fewest runs in which each wanted effect is aliased with no main effect and no other
    two-factor interaction; None when none was found with 2^base runs of any of the bases.
    """
    for base in bases:
        if base == factors:
            return full(factors)
        found: list[Fraction] = []

        def take(
            columns: tuple[int, ...],
            lengths: tuple[int, ...],
            base: int = base,
            found: list[Fraction] = found,
        ) -> bool:
            arranged = _arranged(Fraction(base, columns, (1,) * factors), wanted)
            if arranged is not None:
                found.append(arranged)
            return arranged is not None

        _search(factors, base, resolution, take, lambda lengths: False)
        if found:
            return found[0]
    return None


def _search(
    factors: int,
    base: int,
    resolution: int,
    take: Callable[[tuple[int, ...], tuple[int, ...]], bool],
    bound: Callable[[tuple[int, ...]], bool],
) -> None:
    """Tries added columns in a fixed order, depth first, with no word shorter than the resolution.

    `take` is given columns and word lengths of each complete fraction, and ends the search with True; `bound` says that
    words so far are too many already, as more columns only add words.
    """
    candidates = sorted(
        (mask for mask in range(1, 1 << base) if mask.bit_count() >= max(2, resolution - 1)),
        key=lambda mask: (-mask.bit_count(), mask),
    )
    # Columns of one weight differ by a permutation of base factors only, so one of each is enough to begin with.
    first = [
        next(c for c in candidates if c.bit_count() == w)
        for w in sorted({c.bit_count() for c in candidates}, reverse=True)
    ]
    work = 0

    def extend(columns: tuple[int, ...], words: list[int], lengths: tuple[int, ...], after: int) -> bool:
        nonlocal work
        if len(columns) == factors:
            return take(columns, lengths)
        bit = 1 << len(columns)
        for place in range(after, len(candidates)):
            mask = candidates[place]
            if len(columns) == base and mask not in first:
                continue
            if len(candidates) - place < factors - len(columns) or work > _WORK:
                return False
            work += len(words) + 1
            new = [word ^ mask ^ bit for word in (0, *words)]
            counted = list(lengths)
            short = False
            for word in new:
                length = word.bit_count()
                if length < resolution:
                    short = True
                    break
                counted[length] += 1
            if short or bound(tuple(counted)):
                continue
            if extend((*columns, mask), [*words, *new], tuple(counted), place + 1):
                return True
        return False

    extend(tuple(1 << index for index in range(base)), [], (0,) * (factors + 1), 0)


def _arranged(fraction: Fraction, wanted: Sequence[int]) -> Fraction | None:
    """The fraction with its columns given to other factors so that the wanted effects are clear, if there is a way."""
    clear = set(fraction.clear())
    count = fraction.factors
    places: list[int] = []
    work = 0

    def fits(factor: int, place: int) -> bool:
        for mask in wanted:
            if mask >> factor & 1 and not mask >> (factor + 1):
                others = [places[f] for f in range(factor) if mask >> f & 1]
                if (1 << place | sum(1 << other for other in others)) not in clear:
                    return False
        return True

    def arrange() -> bool:
        nonlocal work
        work += 1
        if len(places) == count:
            return True
        for place in range(count):
            if place not in places and work < 5000 and fits(len(places), place):
                places.append(place)
                if arrange():
                    return True
                places.pop()
        return False

    if not arrange():
        return None
    return Fraction(fraction.base, tuple(fraction.columns[p] for p in places), fraction.signs)


def blocks(fraction: Fraction, parts: int, asked: Sequence[int] = ()) -> tuple[int, ...] | None:
    """The effects that parts of the fraction in time are told by, as columns; None when a main effect would be hidden.

    Chosen so that as few two-factor, then three-factor interactions as possible differ between parts. `asked`: the
    effects that were asked for instead.
    """
    needed = parts.bit_length() - 1
    # Of many factors, only what could matter is counted.
    sizes = range(1, min(fraction.factors, 6 if fraction.factors <= 12 else 3) + 1)
    hidden: dict[int, list[int]] = {column: [0] * len(sizes) for column in range(1, fraction.runs)}
    for size in sizes:
        for factors in itertools.combinations(range(fraction.factors), size):
            column = fraction.column(sum(1 << f for f in factors))
            if column:
                hidden[column][size - 1] += 1

    def cost(columns: Sequence[int]) -> tuple[int, ...]:
        return tuple(sum(hidden[c][size] for c in columns) for size in range(len(sizes)))

    if asked:
        chosen = _spanned([fraction.column(mask) for mask in asked])
        usable = len(chosen) == parts - 1 and 0 not in chosen and cost(chosen)[0] == 0
        return tuple(fraction.column(mask) for mask in asked) if usable else None
    best: tuple[tuple[int, ...], tuple[int, ...]] | None = None
    work = 0
    candidates = sorted((c for c in hidden if not hidden[c][0]), key=lambda c: (hidden[c], c))

    def extend(columns: tuple[int, ...], spanned: list[int], after: int) -> None:
        nonlocal best, work
        so_far = cost(spanned)
        if so_far[0] or (best is not None and so_far >= best[0]):
            return
        if len(columns) == needed:
            best = (so_far, columns)
            return
        for place in range(after, len(candidates)):
            column = candidates[place]
            work += len(spanned) + 1
            if work > _WORK // 4:
                return
            if column not in spanned:
                extend((*columns, column), [*spanned, column, *(s ^ column for s in spanned)], place + 1)

    extend((), [], 0)
    return best[1] if best else None


def hidden_by(fraction: Fraction, columns: Sequence[int]) -> list[int]:
    """Main effects and two-factor interactions that differences between parts hide, and of each part's own effect one of
    the least order where there is none of these.
    """
    masks = []
    for column in sorted(_spanned(columns)):
        second = [mask for mask in effect.up_to_second(fraction.factors) if fraction.column(mask) == column]
        masks += second or [_shortest(fraction, column)]
    return masks


def part_of(fraction: Fraction, columns: Sequence[int], row: Sequence[int]) -> int:
    """The part of a run, counted from 0: the signs of the effects in that run, as a number."""
    base = {own: index for index, own in enumerate(fraction.columns) if own.bit_count() == 1}
    part = 0
    for place, column in enumerate(columns):
        sign = 1
        for bit in range(fraction.base):
            if column >> bit & 1:
                index = base[1 << bit]
                sign *= row[index] * fraction.signs[index]
        part |= (sign > 0) << place
    return part


def _spanned(columns: Sequence[int]) -> list[int]:
    spanned = [0]
    for column in columns:
        spanned += [other ^ column for other in spanned]
    return spanned[1:]


def _shortest(fraction: Fraction, column: int) -> int:
    for size in range(3, fraction.factors + 1):
        for factors in itertools.combinations(range(fraction.factors), size):
            mask = sum(1 << f for f in factors)
            if fraction.column(mask) == column:
                return mask
    raise AssertionError("every column is that of an effect")
