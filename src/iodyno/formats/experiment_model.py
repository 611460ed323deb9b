"""The structure of an experiment file: which keys there are, and what each may hold.

Made from the tables of `iodyno.core`: a new parameter is known here at once. The same models check a file and publish its JSON
Schema (`experiment_schema`). What several keys mean together is checked in `iodyno.formats.experiment_sections`.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Annotated, Any, get_args

from pydantic import Field, create_model

from iodyno.core.access import ACCESSES, AccessKind
from iodyno.core.decision import MAX_TRIALS as UNTIL_TRIALS
from iodyno.core.decision import parse_rule
from iodyno.core.experiment import SENSOR_LEVELS, Between
from iodyno.core.search import TRIALS, parse_goal
from iodyno.core.workload import Workload
from iodyno.formats.section_values import (
    ADDRESS,
    CPUS,
    HOST_NAMES,
    HOUR_NS,
    INVENTORY,
    LINE,
    NAME_TEXT,
    PROSE,
    SHARE,
    FactorSection,
    Reads,
    Section,
    duration_within,
    levels_of,
    limited,
    one_word_of,
    quantity_within,
    switch,
    value_of,
    value_of_option,
)
from iodyno.loads.base.formats import load_named

_GOAL = "What a trial must meet: `loss = 0`, `loss <= 0.1 %`, or p50, p90, p99, p999 or mean `<=` a duration."
_OF_SEARCH = "For this goal; default: the search's"


class WindowsSection(Section):
    """Lengths of the windows of a trial and of an interval record."""

    warm_up: Annotated[Any, duration_within(0)] = Field(
        10**9, description="Load is on, nothing counts yet; may be 0s."
    )
    measured: Annotated[Any, duration_within(10**7)] = Field(10 * 10**9, description="Load is on and counts.")
    drain: Annotated[Any, duration_within(0)] = Field(
        10**8, description="Load stays on, so that no end sees the other stop early."
    )
    interval: Annotated[Any, duration_within(10**7, HOUR_NS)] = Field(
        10**9, description="Length of an interval record; 10ms or more."
    )


class LimitsSection(Section):
    """Limits of a trial before it is retried or marked."""

    retries: Annotated[Any, quantity_within("count", low=0, high=10)] = Field(
        1, description="How often a failed trial is tried again."
    )
    start_skew: Annotated[Any, duration_within(0, HOUR_NS)] = Field(
        None,
        description="Start skew above which a trial is marked; by default warm-up and 1 % of `measured`.",
    )
    background: Annotated[float, SHARE] = Field(
        0.05, description="Busy share of an idle host above which the campaign is marked."
    )
    background_window: Annotated[Any, duration_within(10**7, HOUR_NS)] = Field(
        10**9,
        description="How long the background is measured, before and after; where CPU time comes in ticks, as long as the "
        "measured window at least, up to 1 s.",
    )
    rest: Annotated[Any, duration_within(0, HOUR_NS)] = Field(
        0, description="Rest between two trials, with no load."
    )


MOST_HOSTS = 1000
"""Hosts that one name may have."""


def _host_section(access: AccessKind) -> type[Section]:
    fields: dict[str, Any] = {
        "access": (
            Annotated[str, one_word_of((access.name,))],
            Field(description=f"How iodyno reaches the host. {access.help}"),
        ),
        "cpus": (
            Annotated[Any, CPUS],
            Field(
                [],
                description="CPUs to use there, or those of the device's NUMA node or another, with its memory; left out: iodyno"
                " chooses.",
            ),
        ),
        "address": (
            Annotated[str, ADDRESS],
            Field(None, description="Where the other hosts reach it with data; a numeric address."),
        ),
        "count": (
            Annotated[int, quantity_within("count", low=1, high=MOST_HOSTS)],
            Field(1, description="How many such hosts: NAME-1, NAME-2, ...; {n} in `to` is the number."),
        ),
        "data_port": (
            Annotated[int, quantity_within("count", low=0, high=65535)],
            Field(0, description="Port of the load; 0: any."),
        ),
    }
    if access.target is not None:
        text = "Names of hosts, of which `count` are taken: a file of Ansible, an ssh_config, n[001-100], a list."
        fields["inventory"] = (Annotated[Any, INVENTORY], Field(None, description=text))
        fields["group"] = (
            Annotated[str, LINE],
            Field(
                None,
                description="Group of the inventory, or names such as web-*.",
            ),
        )
    for option in access.options:
        fields[option.name] = (
            Annotated[Any, value_of_option(option)],
            Field(... if option.required else None, description=option.help),
        )
    return create_model(f"{access.name}_host", __base__=Section, __doc__=access.help, **fields)


_ENDS: dict[str, Any] = {
    "sender": (
        Annotated[Any, HOST_NAMES],
        Field(description="The host that sends, or several: those of a name with `count`, or a list."),
    ),
    "receiver": (Annotated[Any, HOST_NAMES], Field(description="The host that receives, or several.")),
}
_EACH_WITH = "Of several: each sender with each receiver (all), or with the one at its place (pairs)."
BETWEEN: Any = (Annotated[str, one_word_of(get_args(Between))], Field("all", description=_EACH_WITH))
_ALONE: dict[str, Any] = {
    "hosts": (
        Annotated[Any, HOST_NAMES],
        Field(description="The host, the hosts of one name with `count`, or a list of hosts, that do it."),
    ),
}


def own_section(workload: Workload) -> type[Section]:
    """The settings of one host."""
    fields: dict[str, Any] = {
        parameter.name: (Annotated[Any, value_of(parameter)], Field(None, description=parameter.help))
        for parameter in workload.parameters
        if parameter.name not in OF_ALL_HOSTS
    }
    return create_model(f"{workload.name}_own", __base__=Section, __doc__="Settings of one host.", **fields)


OF_ALL_HOSTS = (
    *("volume", "server_cached", "file_system", "mount_options"),
    *("clients", "on_client_loss", "verify", "precondition"),
)
"""Settings that one host cannot have of its own: they are about all of them, or about what is on a target they share."""


def workload_section(workload: Workload) -> type[Section]:
    """The section `workload` of an experiment with this workload."""
    fields: dict[str, Any] = {
        "kind": (
            Annotated[str, one_word_of((workload.name,))],
            Field(description=f"Which workload runs. {workload.help}"),
        ),
        **(_ALONE if workload.alone else _ENDS),
        **load_named(workload.name).keys(workload),
    }
    for parameter in workload.parameters:
        fields[parameter.name] = (
            Annotated[Any, value_of(parameter)],
            Field(parameter.default, description=parameter.help),
        )
    return create_model(f"{workload.name}_workload", __base__=Section, __doc__=workload.help, **fields)


def factors_section(workload: Workload) -> type[Section]:
    """The section `factors` of an experiment with this workload."""
    together: dict[str, Any] = {
        p.name: (levels_of(p), Field(None, description=p.help)) for p in workload.parameters
    }
    together_section: Any = create_model(
        f"{workload.name}_together",
        __base__=Section,
        __doc__="Parameters that are set along: one level of each for every level of the factor.",
        **together,
    )
    fields: dict[str, Any] = {}
    for parameter in workload.parameters:
        levels: Any = levels_of(parameter)
        section: Any = create_model(
            f"{workload.name}_{parameter.name}_factor",
            __base__=FactorSection,
            __doc__=parameter.help,
            levels=(levels, Field(description="What the factor is set to, one after the other.")),
            together=(together_section, Field(None, description="Parameters that change with the factor.")),
        )
        fields[parameter.name] = (section, Field(None, description=parameter.help))
    return create_model(
        f"{workload.name}_factors", __base__=Section, __doc__="Parameters that are varied.", **fields
    )


HOST_SECTIONS: Mapping[str, type[Section]] = {name: _host_section(kind) for name, kind in ACCESSES.items()}


@functools.cache
def sections_of(workload: Workload) -> tuple[type[Section], type[Section]]:
    """The sections `workload` and `factors` of an experiment with this workload."""
    return workload_section(workload), factors_section(workload)


class TopSection(Section):
    """The keys at the top of the file that hold one value, and those whose sections are read on their own."""

    name: Annotated[str, NAME_TEXT] = Field(
        description="Name of the experiment; begins the name of its campaigns' folders."
    )
    question: Annotated[str, PROSE] = Field("", description="The question that the experiment answers.")
    hosts: Any = Field(description="The hosts by name.")
    workload: Any = Field(description="What runs between which hosts.")
    bystander: Any = Field(None, description="A workload that runs beside in every trial, or a list of them.")
    tunables: Any = Field(None, description="Tunables of hosts, by host or `all`, set in every trial.")
    factors: Any = Field(None, description="Parameters of the workload, and tunables, that are varied.")
    design: Any = Field(None, description="Which points are visited, how often and in which order.")
    placement: Any = Field(None, description="Pairs of machines that the points run on in turns.")
    windows: Any = Field(None, description="Lengths of the windows of a trial.")
    metrics: Any = Field(None, description="Metrics that other programs hold, by source.")
    outcomes: list[Annotated[str, LINE]] = Field(
        [], description="Outcomes to show; `HOST.` before those of each host. Left out: rate and cost."
    )
    limits: Any = Field(None, description="What a trial may take before it is retried or marked.")
    prove: Annotated[Any, switch("foreign")] = Field(
        False,
        description="Whether trials test what limits; foreign: by what others have set on the hosts, too.",
    )
    profile: Annotated[Any, switch()] = Field(
        True, description="Whether call stacks are sampled, to tell which functions the cost is of."
    )
    sensors: Annotated[Any, one_word_of(SENSOR_LEVELS)] = Field(
        "full",
        description="How much the agents read: full; light: what rates, costs and the limiter need; off: rates and times alone, "
        "and no call stacks.",
    )
    explain: Any = Field(
        None,
        description="Of a factor, the two levels whose difference in cost the report explains by functions.",
    )
    search: Any = Field(None, description="A search for the largest level of a parameter that meets a goal.")
    until: Annotated[Any, Reads(parse_rule, {"type": "string"})] = Field(
        None,
        description="The rule that ends the campaign, such as `ratio(size=1KiB/size=64KiB) > 1.5`; it goes on block by block.",
    )
    max_trials: Annotated[Any, quantity_within("count", low=2, high=99_999)] = Field(
        None, description=f"Trials after which it ends without an answer; left out: {UNTIL_TRIALS}."
    )
    quick: Any = Field(None, description="What `--quick` replaces, key by key.")


_PLACEMENT: dict[str, Any] = {
    "pairs": (
        Annotated[int, quantity_within("count", low=2, high=MOST_HOSTS // 2)],
        Field(description="How many pairs: the first two hosts, the next two, ..."),
    ),
    "of": (
        Annotated[Any, HOST_NAMES],
        Field(description="The hosts: those of a name with `count`, or a list."),
    ),
    "as": (
        Annotated[str, one_word_of(("block",))],
        Field("block", description="block: the pair is a random effect beside the factors."),
    ),
}
PlacementSection: type[Section] = create_model(
    "PlacementSection",
    __base__=Section,
    __doc__="Pairs of machines as blocks: each point runs on several of them, and sender and receiver are names of their places.",
    **_PLACEMENT,
)


class GoalSection(Section):
    """A search goal that differs from the others of its search."""

    goal: Annotated[Any, Reads(limited(parse_goal), {"type": "string"})] = Field(description=_GOAL)
    exceed_ratio: Annotated[float | None, SHARE] = Field(None, description=f"{_OF_SEARCH} exceed_ratio.")
    width: Annotated[float | None, SHARE] = Field(None, description=f"{_OF_SEARCH} width.")
    initial_trial_duration: Annotated[int | None, duration_within(10**7)] = Field(
        None, description=f"{_OF_SEARCH} initial_trial_duration."
    )
    final_trial_duration: Annotated[int | None, duration_within(10**7)] = Field(
        None, description=f"{_OF_SEARCH} final_trial_duration."
    )
    duration_sum: Annotated[int | None, duration_within(10**7)] = Field(
        None, description=f"{_OF_SEARCH} duration_sum."
    )


class SearchSection(Section):
    """A search at each point, instead of the design's trials: the largest loads that meet the goals (RFC 9971)."""

    goals: list[Any] = Field(
        min_length=1,
        max_length=8,
        json_schema_extra={"items": {"anyOf": [{"type": "string"}, GoalSection.model_json_schema()]}},
        description="Goals, such as `loss = 0` or p99 `<=` a duration; or mappings with `goal` and its own keys.",
    )
    parameter: Annotated[str, one_word_of(("rate", "connections", "queue_depth"))] = Field(
        "rate", description="The parameter that is the load."
    )
    min_load: Annotated[int, quantity_within("count", low=1, high=10**9)] = Field(
        100, description="Least load to try."
    )
    max_load: Annotated[int, quantity_within("count", low=2, high=10**9)] = Field(
        10_000_000, description="Greatest load to try."
    )
    exceed_ratio: Annotated[float, SHARE] = Field(
        0.5,
        description="Share of the trials' time at a load that may miss the goal, below 100 %.",
    )
    width: Annotated[float, SHARE] = Field(
        0.05,
        description="How near the relevant bounds are at the end, 0.1% to 50%.",
    )
    initial_trial_duration: Annotated[int | None, duration_within(10**7)] = Field(
        None, description="First trial at a load; default: final_trial_duration."
    )
    final_trial_duration: Annotated[int | None, duration_within(10**7)] = Field(
        None, description="Other trials; default: `measured` of the windows."
    )
    duration_sum: Annotated[int | None, duration_within(10**7)] = Field(
        None,
        description=f"Time of the trials that settle a load; default: {TRIALS} trials.",
    )
    search_duration: Annotated[int, quantity_within("duration", low=10**9, high=24 * HOUR_NS)] = Field(
        180 * 10**9, description="The search of a point ends after this time at the latest."
    )


class QuickSection(Section):
    """Replacements by `--quick`: factors by name, design and windows key by key."""

    factors: Any = Field(None, description="Factors that are replaced, by name.")
    design: Any = Field(None, description="Keys of the design that are replaced.")
    windows: Any = Field(None, description="Windows that are replaced.")
