"""Many hosts in few words: `inventory:` of a host in an experiment file.

It is a file of Ansible (INI, YAML), an ssh_config, a node list such as `n[001-100]`, or a list of the hosts themselves, which
the others become in the campaign's own file.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from iodyno.core import ssh_target
from iodyno.core.access import AccessKind
from iodyno.core.invalid import found, invalid
from iodyno.formats import name_ranges, ssh_config, yaml_document
from iodyno.formats.ansible_inventory import ALL, InventoryError, parse_ini, parse_yaml
from iodyno.formats.given_file import read_given

_SSH = re.compile(r"^\s*(host|match|include)[\s=]+[^\s=]", re.IGNORECASE | re.MULTILINE)
_IS_LIST = re.compile(r"[^/\s]*[\[,][^/]*")


def listed(written: Any, group: str | None, kind: AccessKind, folder: Path) -> list[dict[str, Any]]:
    """The hosts that an inventory names, in its order, each by the keys of its access.

    Raises ValueError with one sentence, which has the file and the line.
    """
    if kind.target is None:
        raise ValueError(f"cannot be used with access {kind.name}, whose hosts have no names of their own")
    if isinstance(written, list):
        if group is not None:
            raise ValueError("a list of hosts has no groups: expected it without `group`")
        return [_keys(entry, kind) for entry in written]
    if not isinstance(written, str) or not written.strip() or not written.isprintable():
        raise ValueError(
            invalid(written, "an inventory of Ansible, an ssh_config, n[001-100], or a list of hosts")
        )
    if _IS_LIST.fullmatch(written):
        if group is not None:
            raise ValueError("a list of nodes has no groups: expected it without `group`")
        return [{kind.target: name} for name in name_ranges.node_list(written)]
    file = folder / ssh_config.home_of(written)
    return _of_file(file, written, ALL if group is None else group, kind)


def _keys(entry: Any, kind: AccessKind) -> dict[str, Any]:
    target = str(kind.target)
    keys = {target: entry} if isinstance(entry, str) else entry
    if not isinstance(keys, dict) or target not in keys:
        raise ValueError(invalid(entry, f"hosts, each by a name or by keys with {target}"))
    options = {option.name: option for option in kind.options}
    if unknown := [key for key in keys if key not in options]:
        raise ValueError(f"unknown key {found(unknown[0])}: expected one of {', '.join(options)}")
    return {key: options[key].parse(value) for key, value in keys.items()}


def _of_file(file: Path, shown: str, wanted: str, kind: AccessKind) -> list[dict[str, Any]]:
    try:
        text = yaml_document.decode(read_given(file, yaml_document.MAX_BYTES))
    except OSError as problem:
        raise ValueError(f"{shown} cannot be read: {problem.strerror}") from None
    except yaml_document.NotYamlError as problem:
        raise ValueError(f"{shown}:{problem.mistake.line}: {problem.mistake.text}") from None
    is_yaml = file.suffix in (".yaml", ".yml", ".json")
    if not is_yaml and _SSH.search(text):
        return _of_ssh_config(file, shown, wanted, kind)
    try:
        hosts = (parse_yaml if is_yaml else parse_ini)(text).of(wanted)
        return [_for(kind, host.keys, host.line) for host in hosts]
    except InventoryError as problem:
        raise ValueError(f"{shown}:{problem.mistake.line}: {problem.mistake.text}") from None


def _for(kind: AccessKind, keys: Mapping[str, Any], line: int) -> dict[str, Any]:
    """The keys of a host reached by ssh; any other access takes its name alone."""
    name = str(keys["to"]).rpartition("@")[2]
    target = next(option for option in kind.options if option.name == kind.target)
    try:
        if kind.name == "ssh":
            ssh_target.parse(str(keys["to"]))
            return dict(keys)
        return {target.name: target.parse(name)}
    except ValueError as problem:
        raise InventoryError(line, str(problem)) from None


def _of_ssh_config(file: Path, shown: str, wanted: str, kind: AccessKind) -> list[dict[str, Any]]:
    if kind.name != "ssh":
        raise ValueError(f"{shown} is an ssh_config: expected access ssh")
    try:
        aliases = ssh_config.aliases(str(file))
    except OSError as problem:
        raise ValueError(f"{shown} cannot be read: {problem.strerror}") from None
    names = [name for name in aliases if wanted == ALL or fnmatchcase(name, wanted)]
    if not names:
        raise ValueError(f"{shown}: no Host is {found(wanted)}, or fits it")
    own = file.resolve() in (Path.home() / ".ssh/config", Path("/etc/ssh/ssh_config"))
    return [{"to": name} | ({} if own else {"config_file": str(file)}) for name in names]
