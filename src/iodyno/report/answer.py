"""The first screen of a report: the answer in three sentences, and the one picture that shows it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from iodyno.analysis.results import CampaignSummary
from iodyno.core.limiter import UNKNOWN
from iodyno.loads.base.report import load_of
from iodyno.report.limiter import name_of
from iodyno.report.sentence import About, Sentence

SENTENCES = 3
_QUESTIONS: tuple[About, ...] = ("decision", "placement", "search", "buffer", "wall", "fit")
"""Topics that an experiment was made to settle, told before those that every campaign has."""
_RATE: tuple[About, ...] = ("peak", "rate")
"""Topics of the rate; the place where it is greatest says more than its range."""
_ORDER: tuple[tuple[About, ...], ...] = (_QUESTIONS, ("beside",), ("cost",), ("change",), _RATE)
_ASKS_LIMITER = re.compile(r"\blimit", re.IGNORECASE)
_PICTURES: dict[About, tuple[str, ...]] = {
    "decision": ("decision",),
    "buffer": ("finite-buffer",),
    "wall": ("fit", "rate"),
    "fit": ("fit",),
    "search": ("rate",),
    "peak": ("rate",),
    "rate": ("disk-rate", "rate"),
    "times": ("disk-times",),
    "cost": ("effects",),
}
"""Figures that show what a sentence says, the best first; else the first figure that there is."""


@dataclass(frozen=True)
class Answer:
    """First sentences of the answer, further ones, and the name of the picture (None without any figure)."""

    first: tuple[Sentence, ...]
    more: tuple[Sentence, ...]
    picture: str | None


def answer(summary: CampaignSummary, said: Sequence[Sentence], figures: Sequence[str]) -> Answer:
    """Chooses of all sentences the three that answer, each about something else as long as there is something else; a question
    that names two factors has the change by either.

    What averages hide is said only where it matters (`analysis.heat_map.points`), and then it is one of the three.
    """
    every = [*said, *(Sentence(text, about="limiter") for text in limiter_sentence(summary))]
    chosen: list[Sentence] = []
    order, asks_limiter = _ORDER, _ASKS_LIMITER.search(summary.question) is not None
    late: tuple[About, ...] = ()
    if load_of(summary).asks and not asks_cost(summary):
        # Of who serves, how much it serves comes before what that costs.
        order, late = (
            (_QUESTIONS, ("beside",), _RATE, ("cost",), ("change",), ("latency",)),
            ("cost", "change"),
        )
    if any(sentence.about == "times" for sentence in said):
        order, late = (_QUESTIONS, ("times",), ("spread",), ("change",)), ()
    if asks_limiter:
        # What was asked for in words is answered, and beside it what the experiment names first.
        order = (_QUESTIONS, ("limiter",), ("cost",) if asks_cost(summary) else _RATE, ("change",))
    for kinds in order:
        # Of the changes of several factors one that is decided, where there is one.
        found = next((s for decided in (True, False) for kind in kinds for s in every
                      if s.about == kind and s.decided is decided), None)  # fmt: skip
        if found is not None and len(chosen) < SENTENCES:
            chosen.append(found)
    for sentence in sorted(every[-1:] + every, key=lambda sentence: not sentence.decided):
        if len(chosen) < SENTENCES and sentence not in chosen:
            chosen.append(sentence)
    least = chosen[-1:]
    chosen += _other_change(summary, every, chosen)
    # In the order in which they are said of any campaign; of who serves, how much and how fast before what that costs.
    chosen.sort(key=lambda s: (s.caveat, s.about in late, every.index(s)))
    hidden = next((s for s in every if s.about == "hidden"), None)
    if hidden is not None and hidden not in chosen:
        # It drives out what is said last, but neither what an operation costs nor what one workload costs the other; of what
        # was asked in words, what was chosen last.
        others = least if asks_limiter else [s for s in chosen[1:] if s.about not in ("cost", "beside")]
        others = others or chosen[1:]
        # How many, how fast and at what cost are one question.
        whole = any(s.about == "latency" for s in chosen)
        chosen = [s for s in chosen if whole or len(chosen) < SENTENCES or s is not others[-1]] + [hidden]
    wanted = _PICTURES.get(chosen[0].about, ()) if chosen else ()
    picture = next((name for name in (*wanted, *figures) if name in figures), None)
    return Answer(tuple(chosen), tuple(s for s in every if s not in chosen), picture)


def _other_change(
    summary: CampaignSummary, every: Sequence[Sentence], chosen: Sequence[Sentence]
) -> list[Sentence]:
    """Return the change by a second factor that the question names, where one of the chosen sentences is a change by another."""
    changed = [sentence for sentence in chosen if sentence.about == "change"]
    named = [factor.name for factor in summary.factors if factor.varies and factor.name in summary.question]
    if not changed:
        return []
    what = changed[0].text.partition(", ")[0]
    others = (
        sentence
        for sentence in every
        if sentence.about == "change"
        and (place := sentence.text.partition(", ")[0]) != what
        and any(name in place for name in named)
    )
    return [found] if (found := next(others, None)) is not None else []


def asks_cost(summary: CampaignSummary) -> bool:
    """Tell whether the first outcome that the experiment names is a cost."""
    return bool(summary.asked) and summary.asked[0].rpartition(".")[2].startswith(("cpu_", "cycles_"))


def limiter_sentence(summary: CampaignSummary) -> list[str]:
    """Name the limiters of the rate, each with its number of points of those that ran; nothing when none did."""
    found = limiters_of(summary)
    if found == "not known":
        return ["What limits the rate is not known: no evidence holds long enough."]
    return [f"What limits the rate is {found}."] if found else []


def limiters_of(summary: CampaignSummary) -> str:
    """Return the limiters of the rate in a few words: `client: CPU at 20 of 30 points; not known at 10 of 30 points`."""
    ran = [point for point in summary.points if point.limiter.verdict.trials]
    tally = Counter(point.limiter.name for point in ran)
    proved = Counter(point.limiter.name for point in ran if point.limiter.status == "proved")
    if list(tally) == [UNKNOWN]:
        return "not known"
    parts = []
    for name, count in tally.most_common():
        at = f" at {count} of {len(ran)} points" if len(ran) > 1 else ""
        if name == UNKNOWN:
            parts.append(f"not known{at}")
            continue
        sure = (
            f", proved at {proved[name]}"
            if proved[name] and len(ran) > 1
            else ", proved"
            if proved[name]
            else ""
        )
        parts.append(f"{name_of(name)}{at}{sure}")
    return "; ".join(parts)
