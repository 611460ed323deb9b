"""A decision as a value: what has to be known before a campaign may stop.

>>> parse_rule("ratio(protocol) > 1.5").bound
1.5
>>> rule = parse_rule("no difference(size=1KiB/size=64KiB, client.cpu_ns_per_kib) beyond 2 %")
>>> rule.kind, rule.factor, rule.numerator, rule.outcome, rule.bound, rule.relative
('no_difference', 'size', '1KiB', 'client.cpu_ns_per_kib', 0.02, True)
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from iodyno.core.factor import Factor, parameter_of
from iodyno.core.invalid import invalid
from iodyno.core.outcome import OUTCOMES
from iodyno.core.workload import Level, Workload

Kind = Literal["ratio", "difference", "no_difference", "width", "steady"]
Answer = Literal["yes", "no", "undecided"]
Of = Literal["ratio", "difference", "mean"]

DEFAULT_OUTCOME = "cpu_ns_per_kib"
"""Outcome of a rule that names none: the sender's CPU time per KiB."""
LEAST_EFFECT = 0.02
"""Smallest relative effect of interest unless another is asked for (chosen: what machines differ by from day to day)."""

MAX_TRIALS = 200
"""Trials after which a campaign without an answer stops, when nothing else is said (chosen: a night at two minutes each)."""
LONGEST = 400
"""Characters of a rule (chosen: twice a line)."""

ALLOWED = (
    "ratio(X) > 1.5, difference(X) > 0, no difference(X) beyond 2%, X=A costs more than X=B, width(ratio(X)) < 5%,"
    " width(OUTCOME) < 5% or steady(OUTCOME); for X a factor, X=A/X=B or either with an outcome, such as X, client.cpu_ns_per_kib"
)
_NAME = r"[A-Za-z][A-Za-z0-9_.-]*"
_LEVEL = r"[^=/,()<>]+?"
_TARGET = (
    rf"\s*(?P<factor>{_NAME})\s*(?:=\s*(?P<a>{_LEVEL})\s*/\s*(?P=factor)\s*=\s*(?P<b>{_LEVEL})\s*)?"
    rf"(?:,\s*(?P<outcome>{_NAME})\s*)?"
)
_NUMBER = r"(?P<sign>-?)(?P<number>\d{1,18}(?:\.\d{1,9})?(?:e[+-]?\d{1,2})?)\s*(?P<percent>%?)"
_FORMS: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (kind, re.compile(rf"\s*{form}\s*"))
    for kind, form in (
        ("compared", rf"(?P<kind>ratio|difference)\s*\({_TARGET}\)\s*(?P<relation>[<>])\s*{_NUMBER}"),
        ("no_difference", rf"no\s+difference\s*\({_TARGET}\)\s*beyond\s*{_NUMBER}"),
        (
            "costlier",
            rf"(?P<factor>{_NAME})\s*=\s*(?P<a>{_LEVEL})\s+costs\s+more\s+than\s+(?P=factor)\s*=\s*(?P<b>{_LEVEL})",
        ),
        (
            "width",
            rf"width\s*\(\s*(?P<kind>ratio|difference)\s*\({_TARGET}\)\s*\)\s*(?P<relation><)\s*{_NUMBER}",
        ),
        ("steady", rf"steady\s*\(\s*(?P<outcome>{_NAME})\s*\)"),
        ("mean_width", rf"width\s*\(\s*(?P<outcome>{_NAME})\s*\)\s*(?P<relation><)\s*{_NUMBER}"),
    )
)


@dataclass(frozen=True)
class Rule:
    """Stopping rule. `numerator` and `denominator` are levels as they were written; None: the last and the first level.

    `bound` is a share where `relative`, else in the unit of the outcome (of a ratio: 1). `of`: what the width of `width`
    is of. A difference in per cent is a ratio.
    """

    text: str
    kind: Kind
    of: Of
    factor: str | None
    numerator: str | None
    denominator: str | None
    outcome: str | None
    relation: Literal["<", ">"]
    bound: float
    relative: bool


@dataclass(frozen=True)
class UntilSpec:
    """A rule bound to an experiment: the levels and the outcome are known ones.

    `numerator` over (or less) `denominator`, levels of `factor`; None for the width of a mean.
    """

    rule: Rule
    outcome: str
    factor: str | None = None
    numerator: Level | None = None
    denominator: Level | None = None
    numerator_label: str = ""
    denominator_label: str = ""
    max_trials: int = MAX_TRIALS


@dataclass(frozen=True)
class Look:
    """State of knowledge after a block: blocks and trials so far, estimate and interval; None where there is none yet."""

    blocks: int
    trials: int
    estimate: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True)
class Standing:
    """State of a decision.

    `answer`: what is known; `ended`: why no more trials are made (`decided`, `limit`), or empty. `interval_kind`:
    `sequence` holds at every look at once, `fixed` only at one; `rounds`: no interval, but the least and the greatest round.
    `more_trials`: about how many more are needed if what was found is the truth; None: cannot be said. `missing`: why there is
    no interval. `coarse`: no number of trials would give the answer, as what windows cut off of whole operations is too much
    for it.
    """

    rule: str
    answer: Answer = "undecided"
    ended: str = ""
    trials: int = 0
    blocks: int = 0
    max_trials: int = MAX_TRIALS
    quantity: str = ""
    outcome: str = ""
    unit: str = "1"
    estimate: float | None = None
    low: float | None = None
    high: float | None = None
    interval_kind: str = "sequence"
    method: str = ""
    more_trials: int | None = None
    tuned_trials: int = 0
    missing: str = ""
    coarse: bool = False
    left_out: int = 0
    looks: tuple[Look, ...] = field(default=())

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Standing:
        """As `campaign.json` has it; what a later version added is passed over. Raises TypeError and KeyError."""
        known = {
            name: stored[name] for name in cls.__dataclass_fields__ if name in stored and name != "looks"
        }
        return cls(**known, looks=tuple(Look(**look) for look in stored.get("looks") or ()))


def parse_rule(written: object) -> Rule:
    """The rule in the text. Raises ValueError with what was found and what is allowed."""
    if not isinstance(written, str) or not written.strip() or len(written) > LONGEST:
        shown = written if isinstance(written, str) and len(written) <= LONGEST else type(written).__name__
        raise ValueError(invalid(shown, ALLOWED))
    text = " ".join(written.split())
    for name, form in _FORMS:
        if match := form.fullmatch(text):
            return _rule(text, name, match.groupdict())
    raise ValueError(invalid(text, ALLOWED))


def _rule(text: str, name: str, part: Mapping[str, str | None]) -> Rule:
    bound, relative = _bound(text, part)
    kind: Kind
    of: Of = "ratio"
    relation: Literal["<", ">"] = "<" if part.get("relation") == "<" else ">"
    if name == "costlier":
        kind, bound = "ratio", 1.0
    elif name == "steady":
        kind, of = "steady", "mean"
    elif name == "compared":
        kind = "ratio" if part["kind"] == "ratio" else "difference"
        of = kind
        if kind == "ratio" and relative:
            raise ValueError(f"invalid value {text!r}: a ratio in per cent; expected a number such as 1.5")
        if kind == "ratio" and bound <= 0:
            raise ValueError(f"invalid value {text!r}: a ratio of {bound:g}; expected more than 0")
        if kind == "difference" and relative:
            # A relative difference is a ratio: both are looked at on a logarithmic scale.
            kind, of, bound, relative = "ratio", "ratio", 1 + bound, False
            if bound <= 0:
                raise ValueError(invalid(text, "a difference above -100 %"))
    elif name == "no_difference":
        kind = "no_difference"
        of = "ratio" if relative else "difference"
        if bound <= 0:
            raise ValueError(f"invalid value {text!r}: a margin of {bound:g}; expected more than 0")
    else:
        kind = "width"
        of = "mean" if name == "mean_width" else ("ratio" if part["kind"] == "ratio" else "difference")
        if bound <= 0:
            raise ValueError(f"invalid value {text!r}: a width of {bound:g}; expected more than 0")
        if of != "difference" and not relative:
            raise ValueError(invalid(text, "a width in per cent of what it is of, such as 5%"))
    return Rule(
        text,
        kind,
        of,
        part.get("factor"),
        part.get("a"),
        part.get("b"),
        part.get("outcome"),
        relation,
        bound,
        relative,
    )


def _bound(text: str, part: Mapping[str, str | None]) -> tuple[float, bool]:
    if not part.get("number"):
        return 1.0, False
    value = float(f"{part['sign']}{part['number']}")
    relative = bool(part.get("percent"))
    if abs(value) > 1e18:
        raise ValueError(f"invalid value {text!r}: a bound of {value:g}; expected 1e18 at most")
    return (value / 100 if relative else value), relative


def bind(
    rule: Rule,
    *,
    factors: Iterable[Factor],
    workload: Workload,
    sender: str,
    hosts: Sequence[str],
    max_trials: int = MAX_TRIALS,
) -> UntilSpec:
    """The rule with its levels and its outcome looked up in the experiment. Raises ValueError with what is allowed."""
    outcome = _outcome(rule, sender, hosts)
    if rule.factor is None:
        return UntilSpec(rule, outcome, max_trials=max_trials)
    known = {factor.name: factor for factor in factors}
    factor = known.get(rule.factor)
    if factor is None:
        listed = ", ".join(known) or "none, as the experiment varies nothing"
        raise ValueError(f"{rule.text!r}: unknown factor {rule.factor!r}: expected {listed}")
    if len(factor.levels) < 2:
        raise ValueError(
            f"{rule.text!r}: {factor.name} has one level; expected a factor with two levels or more"
        )
    parameter = parameter_of(workload, factor.name)

    def shown(level: Level) -> str:
        return parameter.show(level) if parameter else str(level)

    def level_of(written: str) -> Level:
        try:
            level: Level = parameter.parse(written) if parameter else written
        except ValueError as problem:
            raise ValueError(f"{rule.text!r}: {factor.name}: {problem}") from None
        if level not in factor.levels:
            levels = ", ".join(map(shown, factor.levels))
            raise ValueError(f"{rule.text!r}: unknown level {written!r} of {factor.name}: expected {levels}")
        return level

    if rule.numerator is None or rule.denominator is None:
        if len(factor.levels) > 2:
            a, b = shown(factor.levels[0]), shown(factor.levels[-1])
            raise ValueError(
                f"{rule.text!r}: {factor.name} has {len(factor.levels)} levels; expected two of them, "
                f"such as {factor.name}={a}/{factor.name}={b}"
            )
        numerator, denominator = factor.levels[-1], factor.levels[0]
    else:
        numerator, denominator = level_of(rule.numerator), level_of(rule.denominator)
    if numerator == denominator:
        raise ValueError(f"{rule.text!r}: one level twice; expected two different ones of {factor.name}")
    return UntilSpec(
        rule, outcome, factor.name, numerator, denominator, shown(numerator), shown(denominator), max_trials
    )


def _outcome(rule: Rule, sender: str, hosts: Sequence[str]) -> str:
    written = rule.outcome or f"{sender}.{DEFAULT_OUTCOME}"
    host, _, name = written.rpartition(".")
    kind = OUTCOMES.get(name)
    if kind is None:
        raise ValueError(
            f"{rule.text!r}: unknown outcome {written!r}: expected one such as {sender}.{DEFAULT_OUTCOME}"
        )
    if host and (host not in hosts or not kind.per_host):
        allowed = ", ".join(f"{each}.{name}" for each in hosts) if kind.per_host else name
        raise ValueError(f"{rule.text!r}: unknown outcome {written!r}: expected {allowed}")
    if not host and kind.per_host and not kind.of_trial:
        return f"{sender}.{name}"
    return written


def ended(standing: Standing, why: str) -> Standing:
    """The same standing, at its end."""
    return replace(standing, ended=why)
