"""The section `workload` of a load whose hosts need no other end, such as `disk`: where it runs, and on what."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from iodyno.core.experiment import WorkloadSpec
from iodyno.core.factor import Factor
from iodyno.core.invalid import found, invalid
from iodyno.core.volume import CREATE_FILES, FOR_MANY, MAY_BE_SLOWER, MOST_CLIENTS
from iodyno.core.workload import Workload
from iodyno.formats import experiment_model as model
from iodyno.formats.factor_points import points, varied_at
from iodyno.formats.mistakes import Path, unknown
from iodyno.formats.reading import Reading
from iodyno.loads.disk.core import parameters as disk_parameters
from iodyno.loads.files.core.parameters import kinds_of
from iodyno.loads.files.core.values import Personality

_OPEN = ("iops", "offered_operations_per_s", "response_time_p50_ns", "response_time_p99_ns")
_CLOSED = ("iops", "read_service_time_p50_ns", "read_service_time_p99_ns", "write_service_time_p99_ns")


def read(
    reading: Reading, described: Workload, written: Any, path: Path, program: Personality | None = None
) -> WorkloadSpec | None:
    """The workload, when it can be read; what cannot is noted."""
    section = reading.section(model.sections_of(described)[0], written, path)
    hosts = written.get("hosts")
    named = [hosts] if isinstance(hosts, str) else hosts if isinstance(hosts, list) else []
    for name in named:
        if isinstance(name, str) and name not in reading.groups and name not in reading.host_names:
            reading.note((*path, "hosts"), unknown(name, [*reading.groups]))
            return None
    if section is None:
        return None
    held = section.model_dump(exclude_unset=True)
    settings = {p.name: held[p.name] for p in described.parameters if p.name in held}
    clients = tuple(dict.fromkeys(host for name in named for host in reading.groups.get(name, (name,))))
    kinds = kinds_of(program) if program else {}
    own = held.get("each") or {}
    for host in own:
        if host not in clients:
            reading.note((*path, "each", host), unknown(host, clients))
    return WorkloadSpec(
        described.name, settings=settings, hosts=clients, program=program, variables=kinds, own=own
    )


def check(reading: Reading, workload: WorkloadSpec, factors: Mapping[str, Factor]) -> None:
    """Check the settings together with the factors."""
    varied = {name for f in factors.values() for name in (f.name, *f.together)}
    own = {name for settings in workload.own.values() for name in settings}
    for name in sorted(own & varied):
        reading.note(("workload", "each"), f"{name} is a factor, which has one level for all hosts")
    if own and workload.settings.get("verify", "off") != "off":
        reading.note(("workload", "each"), "with verify all hosts have the same settings")
    given = {*workload.settings, *varied}
    for host in workload.hosts:
        _check_host(reading, workload, given, varied, host)
    if "volume" in given and "target" in given:
        reading.note(("workload", "target"), "cannot be used with volume, which is the target")
    # Also a volume with a wrong level is one, so that no target is asked for beside it.
    if "volume" in given or reading.has(("factors", "volume")):
        _check_volume(reading, workload, given, factors)
    elif CREATE_FILES in {workload.settings.get("work"), *_levels(factors, "work")}:
        reading.note_missing(
            ("workload",), "volume", f"what {CREATE_FILES} makes files on: nbd, nfs or iscsi"
        )
    elif "device_delay" in given:
        reading.note_missing(("workload",), "volume", f"what is to be slower: {', '.join(MAY_BE_SLOWER)}")
    elif not workload.own and "target" not in given and not reading.has(("workload", "target")):
        reading.note_missing(("workload",), "target", "the file or device that is read and written")
    check_server_cache(reading, workload, factors)
    for name, text in disk_parameters.mistakes_of(workload.settings, varied | own):
        reading.note(("workload", name), text)
    _check_points(reading, workload, factors)
    targets = [workload.settings.get("target"), *_levels(factors, "target")]
    files = [t for t in targets if isinstance(t, str) and disk_parameters.kind_of(t) == "file"]
    shared = any(host not in workload.own for host in workload.hosts)
    if files and shared and "working_set" not in given and not reading.mistakes:
        reading.note_missing(
            ("workload",), "working_set", f"the bytes of {files[0]} that are used, such as 1GiB"
        )
    most, clients = len(workload.hosts), [workload.settings.get("clients"), *_levels(factors, "clients")]
    for count in clients:
        if isinstance(count, int) and count > most:
            where = ("factors", "clients") if reading.has(("factors", "clients")) else ("workload", "clients")
            reading.note(where, invalid(count, f"1 to {most}, as many as there are hosts"))


def _check_host(
    reading: Reading, workload: WorkloadSpec, given: set[str], varied: set[str], host: str
) -> None:
    """Check the settings of one host together with those of all."""
    own = workload.own.get(host)
    if own is None:
        return
    here = ("workload", "each", host)
    for name, text in disk_parameters.mistakes_of(workload.settings_of(host, workload.settings), varied):
        reading.note((*here, name), text)
    if not {"target", "volume"} & {*given, *own}:
        reading.note_missing(here, "target", "the file or device that is read and written")
    target = own.get("target", workload.settings.get("target"))
    is_file = isinstance(target, str) and disk_parameters.kind_of(target) == "file"
    if is_file and "working_set" not in {*given, *own} and not reading.mistakes:
        reading.note_missing(here, "working_set", f"the bytes of {target} that are used, such as 1GiB")


def _check_points(reading: Reading, workload: WorkloadSpec, factors: Mapping[str, Factor]) -> None:
    """Check all settings of a host together at each point, before a host is opened: a layout may take minutes."""
    varied = varied_at(factors)

    def place(names: tuple[str, ...], host: str) -> Path:
        own = workload.own.get(host, {})
        for name in names:
            if name in own:
                return ("workload", "each", host, name)
            if name in varied:
                return varied[name]
            if name in workload.settings:
                return ("workload", name)
        return ("workload", names[0])

    noted: set[tuple[Path, str]] = set()
    for levels in points(reading, factors, disk_parameters.CONCERNED):
        for host in [*workload.own, *(host for host in workload.hosts[:1] if host not in workload.own)]:
            if host not in workload.hosts:
                continue  # which is noted
            point = workload.settings_of(host, {**workload.settings, **levels})
            mistakes = [((name,), text) for name, text in disk_parameters.mistakes_of(point, varied)]
            for names, text in (*mistakes, *disk_parameters.mistakes_of_point(point)):
                where = place(names, host)
                if (where, text) not in noted:
                    noted.add((where, text))
                    reading.note(where, text)


def _check_volume(
    reading: Reading, workload: WorkloadSpec, given: set[str], factors: Mapping[str, Factor]
) -> None:
    """A volume is made on the lab's machine; over a network, for any number of clients."""
    where = ("factors", "volume") if reading.has(("factors", "volume")) else ("workload", "volume")
    levels = {str(level) for level in (workload.settings.get("volume"), *_levels(factors, "volume")) if level}
    if len(workload.hosts) > 1 and (alone := sorted(levels - FOR_MANY)):
        many = ", ".join(sorted(FOR_MANY))
        reading.note(
            where,
            f"invalid value: {', '.join(alone)} with {len(workload.hosts)} hosts; expected "
            f"{many}, or one host",
        )
    if len(workload.hosts) > MOST_CLIENTS:
        reading.note(where, f"invalid value: {len(workload.hosts)} hosts; expected {MOST_CLIENTS} at most")
    if CREATE_FILES in {workload.settings.get("work"), *_levels(factors, "work")} and (
        alone := sorted(levels - FOR_MANY)
    ):
        many = ", ".join(sorted(FOR_MANY))
        reading.note(where, f"invalid value: {', '.join(alone)} with work: {CREATE_FILES}; expected {many}")
    if "device_delay" in given and (others := sorted(levels - MAY_BE_SLOWER)):
        allowed = ", ".join(sorted(MAY_BE_SLOWER))
        reading.note(where, f"invalid value: {', '.join(others)} with device_delay; expected {allowed}")
    if "working_set" not in given:
        reading.note_missing(("workload",), "working_set", "the size of the volume, such as 256MiB")


def check_server_cache(reading: Reading, workload: WorkloadSpec, factors: Mapping[str, Factor]) -> None:
    """Note where a page cache of a server is asked for and no server is there."""
    asked_levels = {workload.settings.get("server_cached"), *_levels(factors, "server_cached")}
    asked = ", ".join(sorted(str(each) for each in asked_levels if each in ("yes", "no")))
    levels = {str(level) for level in (workload.settings.get("volume"), *_levels(factors, "volume")) if level}
    if not levels and not reading.has(("factors", "volume")):
        levels = {"none"}
    if asked and (without := sorted(levels - FOR_MANY)):
        where = ("factors", "volume") if reading.has(("factors", "volume")) else ("workload", "volume")
        many = ", ".join(sorted(FOR_MANY))
        reading.note(
            where, f"invalid value: {', '.join(without)} with server_cached: {asked}; expected {many}"
        )


def outcomes_of(workload: WorkloadSpec, usual: tuple[str, ...] = ()) -> tuple[str, ...]:
    """Return the outcomes that are worth showing where the file names none; `usual`: of all hosts, where these are known."""
    times = usual or (_OPEN if "rate" in workload.settings else _CLOSED)
    each = tuple(f"{host}.cpu_us_per_io" for host in workload.hosts[:1])
    if workload.own:
        # Clients that do different things are no sharers of one thing.
        rates = tuple(f"{host}.{name}" for host in workload.hosts for name in ("iops", "bytes_per_s"))
        return (*_CLOSED[:1], *rates, *_CLOSED[1:], *each)
    return (*times, *(("fairness",) if len(workload.hosts) > 1 else ()), *each)


def add_to_schema(definitions: dict[str, Any]) -> None:
    """The forms of a target that are short for several keys, for the JSON Schema."""
    section = definitions["disk_workload"]["properties"]
    size = {key: value for key, value in section["working_set"].items() if key != "description"}
    path = {"type": "string"}
    short = [
        {"required": ["file"], "properties": {"file": path, "size": size}},
        {
            "required": ["files"],
            "properties": {"files": {"type": "array", "minItems": 1, "items": path}, "size": size},
        },
        {"required": ["device"], "properties": {"device": path, "size": size}},
    ]
    section["target"] = {
        "description": section["target"]["description"],
        "anyOf": [
            path,
            {"type": "null"},
            *({"type": "object", "additionalProperties": False, **one} for one in short),
        ],
    }


def _levels(factors: Mapping[str, Factor], name: str) -> list[object]:
    return [
        level
        for factor in factors.values()
        for own, levels in ((factor.name, factor.levels), *factor.together.items())
        if own == name
        for level in levels
    ]


def with_target(reading: Reading, written: Any, path: Path) -> Any:
    """The section with the short form of its target: `{file: PATH, size: 1GiB}` and `{device: PATH}` spelled out, and
    `null` as the name that it is."""
    target = written.get("target", "")
    if target is None:
        # YAML reads the word `null` so.
        return {**written, "target": disk_parameters.NULL_TARGET}
    if not isinstance(target, dict):
        return written
    here = (*path, "target")
    if isinstance(target.get("files"), list) and target["files"]:
        target = {
            "file": ", ".join(map(str, target["files"])),
            **{k: v for k, v in target.items() if k != "files"},
        }
    kinds = [kind for kind in ("file", "device") if kind in target]
    others = [key for key in target if key not in ("file", "device", "size")]
    if len(kinds) != 1 or others:
        what = found(others[0]) if others else "no file and no device" if not kinds else "file and device"
        reading.note(
            here,
            f"invalid value: {what}; expected a path, {{file: PATH, size: 1GiB}}, {{files: [PATH, "
            "...], size: 1GiB} or {device: PATH}",
        )
        return {key: value for key, value in written.items() if key != "target"}
    place = target[kinds[0]]
    if isinstance(place, str) and disk_parameters.is_device(place) != (kinds[0] == "device"):
        allowed = "a path in /dev" if kinds[0] == "device" else "a path that is not in /dev"
        reading.note((*here, kinds[0]), invalid(place, allowed))
    if "size" in target and "working_set" in written:
        reading.note((*here, "size"), "duplicate setting: working_set of the workload is set too")
    given = {"target": place} | ({"working_set": target["size"]} if "size" in target else {})
    return {**written, **given}
