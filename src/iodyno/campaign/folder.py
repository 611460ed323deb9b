"""The folder of a campaign: what stands in `campaign.json`, how it is made and how it is taken up again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from iodyno.campaign.testbed import Testbed
from iodyno.core.design import Design
from iodyno.core.errors import StoreError
from iodyno.core.experiment import Experiment
from iodyno.core.warnings import Warning, WarningCode
from iodyno.loads.base.campaign import load_for
from iodyno.store.files import write_file
from iodyno.store.manifest import read_header
from iodyno.store.schema import CAMPAIGN, EXPERIMENT, SCHEMA_VERSION
from iodyno.store.writer import write_document

_KEPT_FACTS = ("kernel", "boot_id", "cpu_model")
"""Facts by which a host is told from what it was before."""


def new_folder(into: Path, name: str) -> Path:
    """A folder for a campaign that starts now. Raises StoreError."""
    stem = f"{name}-{datetime.now(UTC):%Y%m%d-%H%M%S}"
    for number in range(1, 100):
        folder = into / (stem if number == 1 else f"{stem}-{number}")
        try:
            folder.mkdir(parents=True)
        except FileExistsError:
            continue
        except OSError as error:
            raise StoreError(
                f"cannot be made: {error.strerror}",
                where=str(folder),
                advice="name another place with --into",
            ) from error
        return folder
    raise StoreError("is taken", where=str(into / stem), advice="try again")


def was_quick(folder: Path) -> bool:
    """Tell whether the campaign was begun in the quick form; False when that cannot be read, which `reopen` says."""
    try:
        return bool(read_header(folder)["quick"])
    except StoreError:
        return False


class CampaignFile:
    """The content of `campaign.json`; `save` replaces the file."""

    def __init__(self, folder: Path, content: dict[str, Any]) -> None:
        self.folder = folder
        self.content = content

    @classmethod
    def create(cls, folder: Path, experiment: Experiment, design: Design, build_hash: str) -> CampaignFile:
        """Writes the experiment's text and the plan. Raises StoreError."""
        campaign = cls(
            folder,
            {
                "schema_version": SCHEMA_VERSION,
                "name": experiment.name,
                "created": datetime.now(UTC).isoformat(timespec="seconds"),
                "tool_version": _tool_version(),
                "build_hash": build_hash,
                "quick": experiment.quick,
                "seed": design.seed,
                "experiment": _parsed(experiment),
                "design": _design(design),
                "hosts": {},
                "calibration": {},
                "preflight": [],
                "warnings": [],
                "finished": False,
            },
        )
        try:
            write_file(folder / EXPERIMENT, experiment.text.encode())
        except OSError as error:
            raise StoreError(
                f"cannot be written: {error.strerror}", where=str(folder), advice="free space, or use --into"
            ) from error
        campaign.save()
        return campaign

    @classmethod
    def reopen(cls, folder: Path, experiment: Experiment, design: Design) -> CampaignFile:
        """Takes a campaign up again. Raises StoreError when it is not one, or one of another experiment."""
        try:
            content = read_header(folder)
        except StoreError as error:
            if not (folder / CAMPAIGN).is_file():
                error.advice = "name the folder that the interrupted `iodyno run` printed"
                error.what = f"is no campaign that can be taken up again: {error.what}"
            raise
        try:
            # As bytes: reading as text would change the line ends of a file that was written elsewhere.
            text = (folder / EXPERIMENT).read_bytes().decode()
        except (OSError, ValueError) as error:
            raise StoreError(
                f"is no campaign that can be taken up again: {error}",
                where=str(folder),
                advice="name the folder that the interrupted `iodyno run` printed",
            ) from error
        if text != experiment.text:
            raise StoreError(
                "the experiment file has changed since the campaign began",
                where=str(folder / EXPERIMENT),
                advice=f"use the campaign's own file: iodyno run {folder / EXPERIMENT} --resume {folder}",
            )
        planned = _design(design)
        if experiment.until and _goes_on(content["design"], planned):
            # The limit of a decision was raised: the blocks that there are stay as they are.
            content |= {"design": planned, "experiment": _parsed(experiment), "finished": False}
            if (content.get("until") or {}).get("ended") == "limit":
                content["until"]["ended"] = ""
            write_document(folder / CAMPAIGN, content)
        # What a plan says beside them (coding, aliases) may be said in other words by a later release.
        same = all(content["design"].get(key) == planned[key] for key in ("kind", "points", "trials"))
        if content["quick"] == experiment.quick and not same:
            raise StoreError(
                "the design is not the one that the campaign was begun with",
                where=str(folder),
                advice=f"use the campaign's own file: iodyno run {folder / EXPERIMENT} --resume {folder}",
            )
        if content["quick"] != experiment.quick:
            kind = "the quick form" if content["quick"] else "the full form"
            raise StoreError(
                f"the campaign was begun in {kind} of the experiment",
                where=str(folder),
                advice="resume with --quick" if content["quick"] else "resume without --quick",
            )
        return cls(folder, content)

    def save(self) -> None:
        """Replaces the file. Raises StoreError."""
        write_document(self.folder / CAMPAIGN, self.content)

    def add_warnings(self, warnings: Iterable[Warning]) -> None:
        """Notes warnings, each once."""
        for warning in map(warning_json, warnings):
            if warning not in self.content["warnings"]:
                self.content["warnings"].append(warning)

    def add_hosts(self, testbed: Testbed) -> list[Warning]:
        """Notes what the hosts are; gives a warning for each that is not what it was before."""
        before, warnings = self.content["hosts"], []
        if testbed.pair:
            before = (self.content.get("pairs") or {}).get(testbed.pair, {})
        for name, session in testbed.sessions.items():
            was, now = before.get(name, {}).get("hello", {}).get("host", {}), session.hello["host"]
            changed = [key for key in _KEPT_FACTS if was and was[key] != now[key]]
            if changed:
                changes = "; ".join(f"{key}: {was[key]}, now {now[key]}" for key in changed)
                text = f"the host is not what it was when the campaign began: {changes}"
                warnings.append(Warning(WarningCode.HOST_CHANGED, text, f"host {name}"))
        self.content["hosts"] = hosts_json(testbed)
        return warnings


def hosts_json(testbed: Testbed) -> dict[str, Any]:
    """Return the hosts of a testbed, as stored."""
    return {
        name: {
            "access": testbed.experiment.hosts[name].access,
            "cpus": list(testbed.cpus[name]),
            "address": testbed.hosts.accesses[name].reached.data_address,
            "hello": session.hello,
            "path": dict(testbed.hosts.accesses[name].reached.path),
            "notes": testbed.hosts.accesses[name].reached.notes,
        }
        for name, session in testbed.sessions.items()
    }


def warning_json(warning: Warning) -> dict[str, str]:
    """As stored."""
    return {"code": str(warning.code), "text": warning.text, "where": warning.where}


def _parsed(experiment: Experiment) -> dict[str, Any]:
    content: dict[str, Any] = _plain(asdict(experiment))
    del content["text"], content["traces"]  # what the levels of a trial mean stands with the trial
    content["metrics"] = {name: source.stored() for name, source in experiment.metrics.items()}
    if not experiment.placement:
        del content["placement"]
    load_for(experiment).stored(content["workload"], experiment)
    return content


def _plain(value: Any) -> Any:
    """The value with nothing in it that JSON has no word for."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value if isinstance(value, (int, float, bool, str)) or value is None else str(value)


def _design(design: Design) -> dict[str, Any]:
    structure = design.structure
    return {
        "kind": design.kind,
        "coding": {name: _plain(asdict(coding)) for name, coding in design.coding.items()},
        "generators": list(structure.generators) if structure else [],
        "defining_words": list(structure.words) if structure else [],
        "resolution": structure.resolution if structure else None,
        "confounded": list(structure.confounded) if structure else [],
        "aliases": [list(effects) for effects in design.aliases],
        "slow": list(design.slow),
        "points": [{"id": point.id, "levels": dict(point.levels)} for point in design.points],
        "trials": [
            {"order": t.order, "block": t.block, "replicate": t.replicate, "point": t.point.id}
            | ({} if t.plot is None else {"plot": t.plot})
            | ({} if t.pair is None else {"pair": t.pair})
            for t in design.trials
        ],
    }


def _goes_on(stored: Mapping[str, Any], now: Mapping[str, Any]) -> bool:
    """Tell whether a design is a stored one with further trials."""
    before, after = stored["trials"], now["trials"]
    same = (stored["kind"], stored["points"]) == (now["kind"], now["points"])
    return same and len(after) > len(before) and after[: len(before)] == before


def _tool_version() -> str:
    try:
        return version("iodyno")
    except PackageNotFoundError:
        return "unknown"
