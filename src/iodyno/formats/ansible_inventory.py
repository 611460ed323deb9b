"""Inventories of Ansible, as INI and as YAML: groups of hosts, and how ssh reaches each.

What is read: hosts with ranges, groups, `children`, `vars`, and the variables in `_VARIABLES`; nearer ones win, as they do there.
What changes how a host is reached and is not read is refused: templates, options of ssh, other connections. Not read: folders
`group_vars` and `host_vars`, programs that print an inventory.
"""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

from iodyno.core.invalid import found, invalid
from iodyno.formats import name_ranges, yaml_document
from iodyno.formats.mistakes import Mistake, nearest

ALL, _UNGROUPED = "all", "ungrouped"

_VARIABLES = {
    "ansible_host": "host",
    "ansible_ssh_host": "host",
    "ansible_user": "user",
    "ansible_ssh_user": "user",
    "ansible_port": "port",
    "ansible_ssh_port": "port",
    "ansible_ssh_private_key_file": "identity_file",
    "ansible_private_key_file": "identity_file",
    "ansible_connection": "connection",
}
_REFUSED = (
    "ansible_ssh_common_args",
    "ansible_ssh_extra_args",
    "ansible_ssh_executable",
    "ansible_group_priority",
)
_BY_SSH = ("ssh", "smart", "paramiko", "paramiko_ssh", "ansible.builtin.ssh", "ansible.netcommon.libssh")
_SECTION = re.compile(r"\[([^:\]\s]+)(?::(\w+))?\]\s*(?:#.*)?")
_MOST_LINES = 100_000
_DEEPEST = 16


@dataclass(frozen=True)
class InventoryHost:
    """A host as an inventory has it: its name there, the keys of access ssh that reach it, its line."""

    name: str
    keys: Mapping[str, Any]
    line: int


class InventoryError(ValueError):
    """The first thing in an inventory that cannot be read."""

    def __init__(self, line: int, text: str) -> None:
        super().__init__(text)
        self.mistake = Mistake(line, "", text)


@dataclass
class _Group:
    hosts: dict[str, int] = field(default_factory=dict)
    children: dict[str, int] = field(default_factory=dict)
    variables: dict[str, tuple[Any, int]] = field(default_factory=dict)


@dataclass
class Inventory:
    """Groups by name, and the variables of hosts."""

    groups: dict[str, _Group] = field(default_factory=dict)
    hosts: dict[str, dict[str, tuple[Any, int]]] = field(default_factory=dict)

    def group(self, name: str) -> _Group:
        """The group of that name, made where it is not there."""
        return self.groups.setdefault(name, _Group())

    def add(self, group: str, pattern: str, variables: Mapping[str, Any], line: int) -> None:
        """Adds the hosts that a pattern means to a group."""
        port: int | None = None
        if match := re.fullmatch(r"([^:\[\]]*(?:\[[^\]]*\][^:\[\]]*)*):(\d{1,5})", pattern):
            pattern, port = match[1], int(match[2])
        try:
            names = name_ranges.ansible_pattern(pattern)
        except ValueError as problem:
            raise InventoryError(line, str(problem)) from None
        for name in names:
            self.group(group).hosts.setdefault(name, line)
            own = self.hosts.setdefault(name, {})
            if len(self.hosts) > name_ranges.MOST:
                raise InventoryError(line, f"more than {name_ranges.MOST} hosts: expected fewer")
            own |= {} if port is None else {"ansible_port": (port, line)}
            own |= {key: (value, line) for key, value in variables.items()}

    def of(self, wanted: str) -> list[InventoryHost]:
        """The hosts of a group, or those whose names a pattern such as `web*` fits, in the order of the file."""
        self._check()
        if wanted in (ALL, "*"):
            names = set(self.hosts)
        elif wanted in self.groups:
            names = self._below(wanted)
        else:
            names = {name for name in self.hosts if fnmatchcase(name, wanted)}
        if not names:
            near = nearest(wanted, [*self.groups, ALL])
            raise InventoryError(1, f"no host is in {found(wanted)}{near}")
        above = self._above()
        return [self._reached(name, above) for name in self.hosts if name in names]

    def _check(self) -> None:
        for name, group in self.groups.items():
            for child, line in group.children.items():
                if child not in self.groups:
                    raise InventoryError(line, f"unknown group {found(child)}, a child of {name}")
        done: set[str] = set()
        for name in self.groups:
            self._visit(name, (), done)

    def _visit(self, name: str, way: tuple[str, ...], done: set[str]) -> None:
        if name in way:
            raise InventoryError(
                self.groups[way[-1]].children[name], f"the group {found(name)} is its own child"
            )
        if len(way) > _DEEPEST:
            raise InventoryError(1, f"groups in groups, more than {_DEEPEST} deep: expected fewer")
        if name not in done:
            for child in self.groups[name].children:
                self._visit(child, (*way, name), done)
            done.add(name)

    def _below(self, name: str) -> set[str]:
        names, waiting, seen = set(), [name], {name}
        while waiting:
            group = self.groups[waiting.pop()]
            names |= set(group.hosts)
            waiting += [child for child in group.children if child not in seen]
            seen |= set(group.children)
        return names

    def _above(self) -> dict[str, list[str]]:
        """For each host its groups, the farthest first: a child's variables win over a parent's, then the later name."""
        depth: dict[str, int] = {}
        waiting = [(name, 1) for name in self.groups]
        while waiting:
            name, at = waiting.pop()
            if at > depth.get(name, 0):
                depth[name] = at
                waiting += [(child, at + 1) for child in self.groups[name].children]
        depth[ALL] = 0
        groups: dict[str, list[str]] = {}
        for name in sorted(self.groups, key=lambda each: (depth[each], each)):
            for host in self.hosts if name == ALL else self._below(name):
                groups.setdefault(host, []).append(name)
        return groups

    def _reached(self, name: str, above: Mapping[str, list[str]]) -> InventoryHost:
        told: dict[str, tuple[Any, int]] = {}
        for group in above.get(name, ()):
            told |= self.groups[group].variables
        told |= self.hosts[name]
        keys: dict[str, Any] = {"host": name}
        line = next((g.hosts[name] for g in self.groups.values() if name in g.hosts), 1)
        for variable, (value, at) in told.items():
            if variable in _REFUSED:
                raise InventoryError(
                    at, f"{variable} of host {name} is not read: expected it in ~/.ssh/config"
                )
            if key := _VARIABLES.get(variable):
                keys[key] = _value(variable, value, at)
        connection = keys.pop("connection", "ssh")
        if connection not in _BY_SSH:
            raise InventoryError(line, invalid(connection, "ssh", f"ansible_connection of host {name}"))
        user = keys.pop("user", None)
        host = keys.pop("host")
        keys["to"] = f"{user}@{host}" if user else host
        return InventoryHost(name, keys, line)


def _value(variable: str, value: Any, line: int) -> Any:
    if isinstance(value, str) and ("{{" in value or "{%" in value):
        raise InventoryError(line, invalid(value, "a value, not a template", variable))
    if _VARIABLES[variable] == "port":
        if not re.fullmatch(r"\d{1,5}", str(value)) or not 1 <= int(value) <= 65_535:
            raise InventoryError(line, invalid(value, "a port of 1 to 65535", variable))
        return int(value)
    text = str(value) if isinstance(value, (str, int)) and not isinstance(value, bool) else ""
    if not text.strip() or not text.isprintable():
        raise InventoryError(line, invalid(value, "a text", variable))
    return text


def parse_ini(text: str) -> Inventory:
    """Reads the INI form. Raises InventoryError."""
    inventory = Inventory()
    group, kind = _UNGROUPED, "hosts"
    for number, line in _lines(text):
        if line.startswith("["):
            section = _SECTION.fullmatch(line)
            if section is None or (section[2] or "hosts") not in ("hosts", "children", "vars"):
                raise InventoryError(number, invalid(line, "[GROUP], [GROUP:children] or [GROUP:vars]"))
            group, kind = section[1], section[2] or "hosts"
            inventory.group(group)
        elif kind == "vars":
            name, is_set, value = line.partition("=")
            if not is_set:
                raise InventoryError(number, invalid(line, "VARIABLE=VALUE"))
            inventory.group(group).variables[name.strip()] = (_literal(value.strip()), number)
        else:
            try:
                words = shlex.split(line, comments=True)
            except ValueError as problem:
                raise InventoryError(number, f"invalid value {found(line)}: {str(problem).lower()}") from None
            if kind == "children":
                if len(words) != 1:
                    raise InventoryError(number, invalid(line, "the name of a group"))
                inventory.group(group).children.setdefault(words[0], number)
                continue
            variables = {}
            for word in words[1:]:
                name, is_set, value = word.partition("=")
                if not is_set or not name:
                    raise InventoryError(number, invalid(word, "VARIABLE=VALUE after the name of a host"))
                variables[name] = _literal(value)
            if words:
                inventory.add(group, words[0], variables, number)
    return inventory


def _lines(text: str) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(text.split("\n"), 1):
        if number > _MOST_LINES:
            raise InventoryError(number, f"more than {_MOST_LINES} lines: expected fewer")
        stripped = line.strip()
        if stripped and stripped[0] not in "#;":
            yield number, stripped


def _literal(value: str) -> Any:
    """A value as Ansible takes it: a literal of Python where it is one of text or number, else the text."""
    if value[:1] in ("'", '"') and len(value) < 1000:
        try:
            read = ast.literal_eval(value)
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            return value
        return read if isinstance(read, str) else value
    return value


def parse_yaml(text: str) -> Inventory:
    """Reads the YAML form. Raises InventoryError."""
    # A `${NAME}` is of another language there: it stays, and is refused only where it would be used.
    try:
        top, mistakes = yaml_document.read(text.replace("${", "$${"), {})
    except yaml_document.NotYamlError as problem:
        raise InventoryError(problem.mistake.line, problem.mistake.text) from None
    if mistakes:
        first = min(mistakes)
        raise InventoryError(first.line, str(first))
    inventory = Inventory()
    for name, node, line in _entries(top, "groups by name"):
        _take_group(inventory, name, node, line)
    return inventory


def _entries(node: yaml_document.Node, allowed: str) -> Iterator[tuple[str, yaml_document.Node, int]]:
    if node.value is None:
        return
    if not isinstance(node.value, dict):
        raise InventoryError(node.line, invalid(node.plain(), allowed))
    for name, entry in node.value.items():
        yield name, entry, node.key_lines[name]


def _take_group(inventory: Inventory, name: str, node: yaml_document.Node, line: int) -> None:
    group = inventory.group(name)
    for key, entry, at in _entries(node, f"keys of the group {found(name)}: hosts, children, vars"):
        if key == "hosts":
            for pattern, own, host_at in _entries(entry, "hosts by name"):
                variables = {variable: value.plain() for variable, value, _ in _entries(own, "variables")}
                inventory.add(name, pattern, variables, host_at)
        elif key == "children":
            for child, content, child_at in _entries(entry, "groups by name"):
                group.children.setdefault(child, child_at)
                _take_group(inventory, child, content, child_at)
        elif key == "vars":
            group.variables |= {
                v: (value.plain(), set_at) for v, value, set_at in _entries(entry, "variables")
            }
        else:
            raise InventoryError(
                at, f"unknown key {found(key)}: expected hosts, children or vars of the group {name}"
            )
