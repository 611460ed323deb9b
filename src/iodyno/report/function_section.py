"""The section "Where the CPU time goes" of a report: contrasts of two points, and every point on a click."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from iodyno.analysis.call_tree import CallTree
from iodyno.analysis.function_study import Contrast, FunctionStudy
from iodyno.analysis.functions import PointProfile
from iodyno.analysis.results import CampaignSummary
from iodyno.core.outcome import Estimate
from iodyno.report.flame_graph import graph_data, script
from iodyno.report.flame_still import still
from iodyno.report.function_sentences import between_places, cost_of, why
from iodyno.report.function_tables import (
    WORK_WORDS,
    basis_note,
    change_table,
    class_table,
    comparison_note,
    function_table,
    layer_table,
    mechanism_change_table,
    mechanism_table,
    not_measured,
    scope_note,
)
from iodyno.report.layout import place_of
from iodyno.report.numbers import digits
from iodyno.report.sentences import Sentence
from iodyno.report.tables import Table

TOP = 15
"""Functions in a table of the page (chosen: `iodyno profile` and `iodyno compare` give them all)."""

Outcomes = Mapping[str, Mapping[str, Estimate]]


@dataclass(frozen=True)
class ContrastView:
    """Why one point costs more than another, on one host."""

    id: str
    title: str
    host: str
    places: tuple[str, str]
    sentences: list[Sentence]
    table: Table
    note: str
    mechanisms: Table
    missing: list[str]
    user_only: bool


@dataclass(frozen=True)
class HostView:
    """The profile of one host at one point."""

    id: str
    host: str
    cost: str
    classes: Table
    layers: Table
    table: Table
    note: str
    warnings: tuple[str, ...]


@dataclass(frozen=True)
class PointView:
    """The profiles and mechanisms of one point."""

    id: str
    place: str
    hosts: list[HostView]
    mechanisms: Table
    missing: list[str]


@dataclass(frozen=True)
class FunctionSection:
    """Contents of the template. `script` is ours; `data` is base64; `stills` are the graphs as pictures, by their ids.

    `user_only`: of some host only user code was sampled. `per`: what the costs are of. `with_programs`: at some point other
    programs are in them.
    """

    contrasts: list[ContrastView]
    points: list[PointView]
    missing: list[str]
    script: Markup
    data: Markup
    stills: dict[str, Markup]
    user_only: bool
    per: str
    with_programs: bool


def function_section(summary: CampaignSummary, study: FunctionStudy) -> FunctionSection | None:
    """The section; None where no profile was taken."""
    if not study:
        return None
    trees: dict[str, tuple[str, CallTree]] = {}
    outcomes = {point.id: point.outcomes for point in summary.points}
    contrasts = [
        _contrast(number, each, study, trees, outcomes) for number, each in enumerate(study.contrasts)
    ]
    points = []
    for point in summary.points:
        profiles = study.hosts(point.id)
        if not profiles:
            continue
        place = place_of(point.labels, study.factors) or "the only point"
        behind = study.mechanisms.get(point.id, ())
        hosts = [_host(profile, place, study, trees) for profile in profiles]
        points.append(PointView(point.id, place, hosts, mechanism_table(behind), not_measured(behind)))
    reasons = sorted({f"{host}: {reason}" for (_, host), reason in study.profiles.missing.items()})
    return FunctionSection(
        contrasts,
        points,
        reasons,
        # Written by us: symbols, which are other people's text, are only in the data, as base64.
        Markup(script()),
        Markup(graph_data(trees)),
        {name: still(title, tree) for name, (title, tree) in trees.items()},
        any(profile.reach == "user" for profile in study.profiles.found.values()),
        next(WORK_WORDS[profile.per] for profile in study.profiles.found.values()),
        any(profile.with_programs for profile in study.profiles.found.values()),
    )


def contrast_sentences(
    study: FunctionStudy,
    summary: CampaignSummary,
    host: str | None = None,
    *,
    void: Collection[tuple[str, str]] = (),
) -> list[Sentence]:
    """Why the costly points of a campaign cost what they do, on one host or on that which comes first. Nothing is said of the
    points and hosts in `void`, of whose cost nothing is claimed.
    """
    if not study.contrasts:
        return []
    wanted = host or study.contrasts[0].change.first.host
    outcomes = {point.id: point.outcomes for point in summary.points}
    return [
        sentence
        for each in study.contrasts
        if each.change.first.host == wanted
        and not any((one.point, wanted) in void for one in (each.change.first, each.change.second))
        for sentence in _why(each, study, outcomes)
    ]


def _why(each: Contrast, study: FunctionStudy, outcomes: Outcomes) -> list[Sentence]:
    first, second = (
        cost_of(profile, outcomes.get(profile.point, {}))
        for profile in (each.change.first, each.change.second)
    )
    return why(each.change, each.mechanisms, study.factors, study.together, (first, second))


def _contrast(
    number: int,
    each: Contrast,
    study: FunctionStudy,
    trees: dict[str, tuple[str, CallTree]],
    outcomes: Outcomes,
) -> ContrastView:
    first, second = each.change.first, each.change.second
    name = f"contrast-{number + 1}"
    title = between_places(first.labels, second.labels, study.factors, study.together)
    trees[name] = (f"{first.host}, {title}{scope_note(second)}", each.tree)
    a, b = (place_of(profile.labels, study.factors) for profile in (first, second))
    return ContrastView(
        id=name,
        title=title[:1].upper() + title[1:],
        host=first.host,
        places=(a, b),
        sentences=_why(each, study, outcomes),
        table=change_table(each.change, TOP),
        note=comparison_note(each.change),
        mechanisms=mechanism_change_table(each.mechanisms),
        missing=not_measured(each.mechanisms),
        user_only=second.reach == "user",
    )


def _host(
    profile: PointProfile, place: str, study: FunctionStudy, trees: dict[str, tuple[str, CallTree]]
) -> HostView:
    name = f"{profile.point}-{profile.host}"
    trees[name] = (f"{profile.host}, {place}{scope_note(profile)}", study.tree(profile))
    view = HostView(
        id=name,
        host=profile.host,
        cost=f"{digits(profile.cost.estimate or 0.0)} {profile.unit}, {profile.samples} samples{scope_note(profile)}",
        classes=class_table(profile),
        layers=layer_table(profile),
        table=function_table(profile, TOP),
        note=basis_note(profile),
        warnings=_texts(profile),
    )
    profile.let_go()
    return view


def _texts(profile: PointProfile) -> tuple[str, ...]:
    warnings: Sequence[str] = [warning.text for warning in profile.warnings]
    return tuple(warnings)
