"""The report as one HTML file: no request, readable narrow, wide, dark, on paper and without scripts.

Two scripts may be in it, allowed by their hashes: one selects times and themes, one draws flame graphs where there are any.
"""

from __future__ import annotations

import base64
import gzip
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.resources import files
from itertools import groupby
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from iodyno.analysis.alike import groups_of
from iodyno.analysis.dataset import Dataset, read_dataset
from iodyno.analysis.function_study import TRIALS_OF_POINT, FunctionStudy, study_functions
from iodyno.analysis.heat_map.points import MapFindings, examine_points, worst
from iodyno.analysis.results import CampaignSummary, HostSummary, PointSummary, TrialSummary
from iodyno.analysis.summary import analyse
from iodyno.analysis.trial_views import SHOWN_BY_ITSELF, TRIALS_MOST, TrialStudy, shown_points, study_trials
from iodyno.analysis.two_processes import can_share, in_halves
from iodyno.core.errors import StoreError
from iodyno.core.limiter import Finding
from iodyno.loads.base.report import load_of
from iodyno.report.answer import answer, limiters_of
from iodyno.report.cost_model import cost_section
from iodyno.report.cost_words import cost_outcome
from iodyno.report.deferred import Deferred, fitted
from iodyno.report.figures import FIGURES, cut, draw
from iodyno.report.file_systems import file_system_table
from iodyno.report.finite_buffer import buffer_tables
from iodyno.report.flame_graph import script_source
from iodyno.report.function_section import contrast_sentences, function_section
from iodyno.report.heat_map.sentences import worst_sentence
from iodyno.report.hints import Hints
from iodyno.report.interrupts import interrupt_table
from iodyno.report.json import as_json
from iodyno.report.layout import figure_layout, layout_of, line_name, place_name
from iodyno.report.limiter import Line, lines, name_of, short
from iodyno.report.method import method_rows
from iodyno.report.numbers import quantity, with_interval
from iodyno.report.observer import observer_note
from iodyno.report.page_script import page_script, page_script_source, shorter_style
from iodyno.report.path_facts import path_rows
from iodyno.report.placement import placement_tables
from iodyno.report.plain_numbers import figure_rows, packed, table_rows
from iodyno.report.search import answering, search_answers
from iodyno.report.sentence import Sentence
from iodyno.report.sentences import extremes, sentences
from iodyno.report.tables import Table, load_tables, outcome_table
from iodyno.report.terminal import tier_note
from iodyno.report.trial_panels.section import Panels, drawings_of
from iodyno.report.void import claimed, of_claimed, void_costs
from iodyno.report.warnings import grouped
from iodyno.store.files import write_file

PAGE = "report.html"
LINES_MOST = 8
"""Lines of a figure that can be told apart (chosen: as many as there are colours); beyond, a cost's effects say it better."""
_DIGITS = 7
"""Of the numbers in a page's JSON (chosen: more than an interval ever has; half of the JSON's bytes are digits)."""
FAILED_MOST = 200
"""Trials that did not finish, of which a page has a line each (chosen: whoever has more reads their reasons in the JSON)."""
_CUT = " A bar without a cap goes on beyond the axis."


@dataclass(frozen=True)
class Tile:
    """One number of the first screen: what it is, its value with interval, and where it was measured."""

    what: str
    value: str
    unit: str
    interval: str
    place: str


@dataclass(frozen=True)
class TrialRow:
    """A line of the list of trials, and its panels; None without records, or where there are too many."""

    trial: TrialSummary
    place: str
    goodput: str
    cost: str
    panels: Panels | None


def write_report(folder: Path | str) -> Path:
    """Writes `report.html` into the campaign's folder and returns its path. Raises StoreError."""
    dataset = read_dataset(folder)
    summary = analyse(dataset)
    return write_dataset(
        dataset, summary, Path(folder) / PAGE, study_functions(dataset, shown_points(summary))
    )


def write_dataset(
    dataset: Dataset,
    summary: CampaignSummary,
    path: Path,
    functions: FunctionStudy,
    shown: Collection[str] | None = None,
) -> Path:
    """Writes the page of a campaign that has been read and analysed, with the trials `shown` over time. Raises StoreError when
    that cannot be done.
    """
    trials = study_trials(dataset, summary, shown)
    if dataset.stored:
        dataset.stored.let_go()
    return write_page(summary, path, functions, trials, chosen=shown is not None)


def write_page(
    summary: CampaignSummary,
    path: Path,
    functions: FunctionStudy | None = None,
    trials: TrialStudy | None = None,
    *,
    chosen: bool = False,
) -> Path:
    """Writes the page of a campaign to `path`. Raises StoreError when that cannot be done."""
    try:
        write_file(path, page(summary, functions, trials, chosen=chosen).encode())
    except OSError as error:
        raise StoreError(
            f"the report cannot be written: {error.strerror or error}",
            where=str(path),
            advice="name another place with --html",
        ) from error
    return path


def page(
    summary: CampaignSummary,
    functions: FunctionStudy | None = None,
    trials: TrialStudy | None = None,
    *,
    chosen: bool = False,
) -> str:
    """The page of a campaign, with what is known of its functions and of its trials over time. `chosen`: these were asked for."""
    templates = Environment(
        loader=PackageLoader("iodyno.report", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    tables = [*load_tables(summary), *buffer_tables(summary), *placement_tables(summary)]
    every = outcome_table(summary)
    study = functions or FunctionStudy()
    found = examine_points(trials.points) if trials else ()
    figures = _figures(summary)
    said = answer(
        summary,
        [
            *sentences(summary),
            *contrast_sentences(study, summary, void=void_costs(summary)),
            *_hidden(summary, found),
        ],
        [each["name"] for each in figures if each["section"] != "effects" or _lines(summary) > LINES_MOST],
    )
    picture = next((figure for figure in figures if figure["name"] == said.picture), None)
    # The two that take longest, and have nothing to do with each other.
    make: dict[str, Callable[[], Any]] = {
        "drawings": partial(drawings_of, summary, trials or TrialStudy(), found),
        "functions": partial(function_section, summary, study),
    }

    def each_made(names: Sequence[str]) -> dict[str, Any]:
        return {name: make[name]() for name in names}

    made = in_halves(each_made, [*make]) if study and trials and can_share() else each_made([*make])
    sources = [page_script_source(), *([script_source()] if study else [])]
    failed = [trial for trial in summary.trials if trial.status != "finished"]
    held = {
        "s": summary,
        "load": load_of(summary),
        "several": {name: len(hosts) for name, hosts in groups_of(summary.workload).items()},
        "functions": made["functions"],
        "script_sources": " ".join(sources),
        "script": Markup(page_script()),
        "style": Markup(_style("style.css", *(["functions.css"] if study else []))),
        "tiles": tiles(summary),
        "answer": said,
        "script_sentences": load_of(summary).remarks(summary),
        "picture": picture,
        "limited": limiters_of(summary),
        "numbers": packed(
            {figure["name"]: figure["rows"] for figure in figures}
            | {f"table-{number}": table_rows(table) for number, table in enumerate(tables, 1)}
        ),
        "figures": {
            section: [f for f in figures if f["section"] == section and f["name"] != said.picture]
            for section in ("cost", "load", "effects")
        },
        "cost_model": cost_section(summary.costs) if summary.costs else None,
        "tables": tables,
        "every": every,
        "interrupts": interrupt_table(summary),
        "file_systems": file_system_table(summary),
        "limiters": _limiters(summary),
        "limiter_name": name_of,
        "leads": _targets(summary, study).__contains__,
        "tier_note": tier_note(summary),
        "observer": observer_note(summary),
        "failed": failed,
        "failed_most": FAILED_MOST,
        "of_point": TRIALS_OF_POINT,
        "part": sum(trial.status == "finished" for trial in summary.trials) > TRIALS_MOST,
        "ran": sum(point.finished > 0 for point in summary.points),
        "rule": "those asked for" if chosen else SHOWN_BY_ITSELF,
        "hosts": [(host, host_facts(host)) for host in summary.hosts],
        "warnings": grouped(summary),
        "cost": cost_outcome(summary),
        "method": method_rows(summary),
        "json_data": _packed(as_json(summary, indent=None, digits=_DIGITS)),
        "rerun": f"iodyno run experiment.yaml{' --quick' if summary.quick else ''}",
        "experiment_data": _download(summary.experiment_text, "text/yaml"),
        "quantity": quantity,
        "percent": _percent,
        "option": _option,
        "spans": _spans,
    }
    template = templates.get_template("report.html.j2")
    drawings = made["drawings"]

    def rendered(deferred: Deferred) -> str:
        panels = drawings.section(deferred.fits) if drawings else None
        shown_panels = panels.panels if panels else {}
        unread = [trial.name for trial in summary.trials if trial.name not in shown_panels]
        listed = {
            *shown_panels,
            *[trial.name for trial in failed][:FAILED_MOST],
            *([] if shown_panels else unread[:TRIALS_MOST]),
        }
        rows = [_trial_row(summary, trial, shown_panels) for trial in summary.trials if trial.name in listed]
        return template.render(held, panels=panels, trials=rows, hints=Hints(), deferred=deferred)

    return fitted(rendered)


def _style(*names: str) -> str:
    """Style sheets of the page, one after the other."""
    texts = ((files("iodyno.report") / "templates" / name).read_text(encoding="utf-8") for name in names)
    return "\n".join(shorter_style(text) for text in texts)


def _lines(summary: CampaignSummary) -> int:
    """Count the lines of a figure over the points."""
    layout = figure_layout(summary)
    return len({line_name(layout, point) for point in summary.points})


def _hidden(summary: CampaignSummary, found: Sequence[MapFindings]) -> list[Sentence]:
    """State the findings that averages hide, where it matters: the worst of what the heat maps hold."""
    most = worst(found)
    if most is None:
        return []
    point = next((point for point in summary.points if point.id == most.of.point), None)
    place = place_name(point, layout_of(summary).factors) if point is not None else ""
    return [Sentence(worst_sentence(most, place), about="hidden")]


def tiles(summary: CampaignSummary) -> list[Tile]:
    """The ends of the range of rate and cost; of a search what was found, and rate and cost there."""
    layout = layout_of(summary)
    found = [Tile(what, value, "", "", rests_on) for what, value, rests_on in search_answers(summary)]
    if summary.search is not None:
        summary = answering(summary)
    for end in load_of(summary).ends(summary):
        # What the sentence beside says, too: an end of the range is none of which nothing is claimed.
        ends = extremes(claimed(summary, end.outcome), end.outcome)
        if ends is None or (ends[0] is ends[1] and not end.most):
            continue
        point = ends[end.most]
        estimate = point.outcomes[end.outcome]
        shown = with_interval(estimate, end.outcome, unit=False)
        value, _, interval = shown.partition(" ±") if " ±" in shown else shown.partition(" [")
        unit = quantity(estimate.estimate, estimate.unit, end.outcome).rpartition(" ")[2]
        sign = "±" if " ±" in shown else "[" if " [" in shown else ""
        name = end.only if ends[0] is ends[1] else end.several
        of = of_claimed(summary, end.outcome)
        place = "; ".join(filter(None, (place_name(point, layout.factors), of and f"of {of}")))
        found.append(Tile(name, value, unit, f"{sign}{interval}", place))
    return found


def host_facts(host: HostSummary) -> list[tuple[str, str]]:
    """List the facts of a host, as names and values; what is not known is said too."""
    facts, clock = host.facts, host.clock
    rows = [
        ("Access", host.access + (f", address {host.address}" if host.address else "")),
        ("Hostname", _known(facts.get("hostname"))),
        *runs_in(facts),
        ("CPUs used", ", ".join(map(str, host.cpus)) or "not known"),
        ("Kernel", _known(facts.get("kernel"))),
        ("CPU", _known(facts.get("cpu_model"))),
        ("CPUs online", str(len(facts.get("cpus_online") or ())) or "not known"),
        *((f"NUMA node {node['node']}", _node(node)) for node in facts.get("numa_nodes") or ()),
        ("Memory", quantity(facts.get("memory_bytes"), "B")),
        ("Hypervisor", facts.get("hypervisor") or "none seen"),
        ("SMT, governor", f"{_switch(facts.get('smt'))}, {facts.get('governor') or 'none'}"),
        ("Interrupt time accounted", _switch(facts.get("irq_time_accounting"))),
        ("CPU quota", _quota(facts.get("cpu_quota_cpus"))),
        ("Clock source", _known(clock.get("clocksource"))),
        ("Operations timed with", _clock(clock)),
        ("Time-stamp counter", _hertz(clock.get("tsc_hz"))),
        ("Own time for one write", _overhead(host.write_overhead_ns)),
        ("The instrument's own cost", _percent(sum(host.observer.values()) or None, 2) + " of a CPU at most"),
    ]
    if host.receive_shares:
        shares = ", ".join(f"CPU {cpu}: {_percent(share)}" for cpu, share in host.receive_shares.items())
        rows.append(("Packets were received on", shares))
    rows += path_rows(host.path, host.address)
    rows += [("Note", note) for note in host.notes]
    # What a sensor lacks may be a capability of its own.
    missing = {
        c["name"].removeprefix("sensor."): c.get("reason") or "no reason known"
        for c in host.capabilities
        if not c.get("available")
    }
    if missing:
        said = (f"{name.replace('.', ' ').replace('_', ' ')} ({reason})" for name, reason in missing.items())
        rows.append(("Not to be had here", "; ".join(said)))
    return rows


def _node(node: Mapping[str, Any]) -> str:
    return f"CPUs {', '.join(map(str, node['cpus']))}; {', '.join(node['devices']) or 'no device'}"


def runs_in(facts: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The row about the container, the pod, the node and the job that a host is; none where it is an ordinary machine."""
    told = [f"{name} {facts[name]}" for name in ("container", "pod", "node", "job") if facts.get(name)]
    return [("Runs in", ", ".join(told))] if told else []


def _targets(summary: CampaignSummary, study: FunctionStudy) -> set[str]:
    """Return the targets of links in tables: the evidence of each point, and its functions where it has a profile."""
    profiled = {f"functions-{point}" for point, _ in study.profiles.found}
    return profiled | {f"evidence-{point.id}" for point in summary.points}


def _limiters(summary: CampaignSummary) -> list[tuple[str, str, Finding, str, list[Line]]]:
    """Per point: its id, where it is, what was found, in short, and the evidence."""
    factors = layout_of(summary).factors
    return [
        (point.id, place_name(point, factors), point.limiter, short(point.limiter), lines(point.limiter))
        for point in summary.points
    ]


def _figures(summary: CampaignSummary) -> list[dict[str, Any]]:
    made = [(entry, entry.make(summary)) for entry in FIGURES]
    return [
        {
            "name": entry.name,
            "section": entry.section,
            "title": figure.title,
            "caption": f"{figure.caption}{_CUT if cut(figure) else ''} {observer_note(summary)}",
            # Drawn by us from escaped text: the only markup that is not the template's.
            "panels": [Markup(svg) for svg in draw(figure)],
            "rows": figure_rows(figure),
        }
        for entry, figure in made
        if figure is not None
    ]


def _trial_row(summary: CampaignSummary, trial: TrialSummary, panels: Mapping[str, Panels]) -> TrialRow:
    levels = PointSummary(trial.point, {}, trial.labels, {}, (), 0, 0)
    rate, cost = load_of(summary).trial(summary, trial)
    place = place_name(levels, layout_of(summary).factors)
    return TrialRow(trial, place, rate, cost, panels.get(trial.name))


def _spans(table: Table) -> list[tuple[str, int]]:
    """Heads above heads: each group of neighbouring columns, and how many they are."""
    return [
        (group, len(list(columns))) for group, columns in groupby(column.group for column in table.columns)
    ]


def _download(text: str, kind: str) -> str:
    return f"data:{kind};base64,{base64.b64encode(text.encode()).decode()}"


def _packed(text: str) -> str:
    """Compressed: the largest piece of a page by far. No time in it, so that a page is the same when made again."""
    packed = gzip.compress(text.encode(), 9, mtime=0)
    return f"data:application/gzip;base64,{base64.b64encode(packed).decode()}"


def _percent(share: float | None, places: int = 1) -> str:
    return "not known" if share is None else f"{100 * share:.{places}f} %"


def _known(value: object) -> str:
    return str(value) if value not in (None, "") else "not known"


def _switch(value: bool | None) -> str:
    return "not known" if value is None else "on" if value else "off"


def _quota(value: float | None) -> str:
    return "none" if value is None else f"{value:g} CPUs"


def _hertz(value: float | None) -> str:
    return "none that is constant" if not value else f"{value / 1e9:.6f} GHz, measured"


def _overhead(by_engine: Mapping[str, float | None]) -> str:
    """The load loop without what it drives: loop, clock, counters, histogram."""
    known = [f"{cost:.1f} ns (engine {engine})" for engine, cost in by_engine.items() if cost is not None]
    return ", ".join(known) or "not known"


def _clock(clock: Mapping[str, Any]) -> str:
    if not clock:
        return "not known"
    step, cost = clock.get("step_ns"), clock.get("read_cost_ns")
    return f"{clock.get('operations_timed_with')}, step {step or 0:.3g} ns, {cost or 0:.3g} ns a reading"


def _option(value: object) -> str:
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "on" if value else "off"
    return f"{value:,}".replace(",", " ") if isinstance(value, int) else str(value)
