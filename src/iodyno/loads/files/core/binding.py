"""A personality and values for its variables become what runs.

Statements are gone through in their order. What a variable holds at the end is what counts, as in Filebench, whose
attributes keep the variable and not the value that it had.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping

from iodyno.core.errors import ExperimentError
from iodyno.core.invalid import invalid
from iodyno.loads.files.core.access import refuse_impossible
from iodyno.loads.files.core.attributes import (
    FLOWOP,
    FLOWOPS,
    NO_EFFECT,
    OLDER_FLOWOPS,
    RANDVAR,
    STATEMENTS,
    AttributeKind,
)
from iodyno.loads.files.core.bound import Amount, Bound, Files, Flowop, Law, Option, Process, Thread, Use
from iodyno.loads.files.core.laws import law_of
from iodyno.loads.files.core.settings import MOST, Variables, setting
from iodyno.loads.files.core.values import (
    Attributes,
    Command,
    CompositeText,
    Expression,
    FilesText,
    FlowopText,
    Joined,
    Literal,
    Personality,
    Place,
    ProcessText,
    RandomVariable,
    Reference,
    Scalar,
    SetVariable,
    ThreadText,
)

MAX_FLOWOPS = 20_000
MAX_INSTANCES = 100_000
_MAX_CALLS = 16
_WORDS = {"true": True, "false": False, "on": True, "off": False, "yes": True, "no": False}


def bound(
    personality: Personality,
    given: Mapping[str, Scalar] | None = None,
    outside: Mapping[str, str] | None = None,
) -> Bound:
    """Bind a personality to these values: `given` ones win over its own, `outside` ones fill its gaps.

    Raises ExperimentError with line and column.
    """
    return _Binding(personality, Variables(given or {}, outside or {})).result()


def defined(personality: Personality) -> dict[str, SetVariable]:
    """The variables that the personality sets, each with its first statement."""
    found: dict[str, SetVariable] = {}
    for statement in personality.statements:
        if isinstance(statement, SetVariable) and not statement.attribute:
            found.setdefault(statement.name, statement)
    return found


class _Binding:
    """One way through the statements."""

    def __init__(self, personality: Personality, variables: Variables) -> None:
        self.personality = personality
        self.variables = variables
        self.randvars: dict[str, RandomVariable] = {}
        self.said: dict[str, dict[int, None]] = {}
        self.composites: dict[str, CompositeText] = {}
        self.files: dict[str, Files] = {}
        self.flowop_count = 0

    def say(self, text: str, place: Place) -> None:
        """Notes that something has another meaning here."""
        self.said.setdefault(text, {})[place.line] = None

    def result(self) -> Bound:
        """Return the bound personality."""
        commands: list[Command] = []
        for statement in self.personality.statements:
            if isinstance(statement, SetVariable):
                self.set(statement)
            elif isinstance(statement, Command):
                commands.append(statement)
            elif isinstance(statement, CompositeText):
                self.composites[statement.name] = statement
        self.redraw()
        for statement in self.personality.statements:
            if isinstance(statement, FilesText):
                self.define_files(statement)
        processes = self.processes([s for s in self.personality.statements if isinstance(s, ProcessText)])
        events_per_s, mode, seconds = self.commands(commands)
        result = Bound(
            self.personality.name,
            tuple(self.variables.laws.values()),
            tuple(self.files.values()),
            processes,
            events_per_s,
            mode,
            seconds,
            (*self.personality.notes, *self.notes()),
            {**self.variables.values, **self.variables.taken},
        )
        self.check_targets(result)
        return result

    def notes(self) -> list[str]:
        """Return the notes, each with the lines that it is about."""
        shown = []
        for text, lines in self.said.items():
            listed = ", ".join(map(str, list(lines)[:4])) + (", ..." if len(lines) > 4 else "")
            shown.append(f"{self.personality.file}:{listed}: {text}")
        return shown

    # -- variables

    def set(self, statement: SetVariable) -> None:
        """`set $name = value`."""
        name, value = statement.name, statement.value
        if statement.attribute:
            self.set_attribute(statement)
        elif isinstance(value, RandomVariable):
            self.randvars[name] = value
            self.variables.draw(name, law_of(name, value, self.variables))
        else:
            held = self.variables.value(value)
            if isinstance(held, Use):
                self.randvars[name] = self.randvars[held.name]
                self.variables.draw(name, law_of(name, self.randvars[name], self.variables))
            else:
                self.randvars.pop(name, None)
                self.variables.set(name, held)

    def set_attribute(self, statement: SetVariable) -> None:
        """`set $name.min = value`, which changes a drawn variable."""
        before = self.randvars.get(statement.name)
        if before is None:
            if statement.name in self.variables.given:
                return
            raise statement.place.error(
                f"${statement.name} is not drawn, so it has no attribute {statement.attribute}",
                f"set ${statement.name} = randvar(...) before it",
            )
        if statement.attribute not in RANDVAR or isinstance(statement.value, RandomVariable):
            raise statement.place.error(
                _unknown(statement.attribute, RANDVAR, "attribute of a drawn variable")
            )
        attributes = {**before.attributes, statement.attribute: statement.value}
        self.randvars[statement.name] = RandomVariable(before.custom, attributes, before.table, before.place)
        self.variables.draw(
            statement.name, law_of(statement.name, self.randvars[statement.name], self.variables)
        )

    def redraw(self) -> None:
        """Laws with what their variables hold at the end."""
        for name, randvar in self.randvars.items():
            if name in self.variables.laws:
                self.variables.draw(name, law_of(name, randvar, self.variables))

    # -- values

    def amount(
        self,
        expression: Expression,
        what: str,
        local: Mapping[str, Scalar | Use] | None = None,
        *,
        least: int = 0,
        most: int = MOST,
    ) -> Amount:
        """A number, or the drawn variable that it is."""
        value = self.variables.value(expression, local)
        if isinstance(value, Use):
            return value
        # What comes from outside is a text until it is known what it is for.
        value = setting(value) if isinstance(value, str) else value
        if isinstance(value, str) or (isinstance(value, bool) and value):
            raise expression.place.error(invalid(_shown(value), "a number", what), f"{what}=8k")
        if not least <= value <= most:
            raise expression.place.error(invalid(value, f"{least} to {most}", what))
        if isinstance(value, float) and value == int(value):
            return int(value)
        return int(value) if isinstance(value, bool) else value

    def whole(self, expression: Expression, what: str, *, least: int = 0, most: int = MOST) -> int:
        """A whole number that is the same throughout."""
        value = self.amount(
            Literal(self.variables.fixed(expression), expression.place), what, least=least, most=most
        )
        if isinstance(value, float):
            raise expression.place.error(invalid(value, "a whole number", what))
        assert isinstance(value, int)
        return value

    def text(self, expression: Expression, what: str, local: Mapping[str, Scalar | Use] | None = None) -> str:
        """A name."""
        value = self.variables.fixed(expression, local)
        written = str(value).lower() if isinstance(value, bool) else str(value)
        if not written or not written.isprintable() or len(written) > 255:
            raise expression.place.error(invalid(written[:60], "a name of one line", what))
        return written

    def switch(
        self, expression: Expression, what: str, local: Mapping[str, Scalar | Use] | None = None
    ) -> bool:
        """Yes or no; 0 is no, as in `directio=$directio`."""
        value = self.variables.fixed(expression, local)
        value = setting(value) if isinstance(value, str) else value
        if isinstance(value, str):
            if value.lower() not in _WORDS:
                raise expression.place.error(invalid(value, "true, false, 0, 1", what), f"{what}=true")
            return _WORDS[value.lower()]
        return bool(value)

    def required(self, attributes: Attributes, key: str, of: str, place: Place) -> Expression:
        """An attribute that must be there."""
        if key not in attributes:
            raise place.error(f"{of} without {key}=: expected {key}=...")
        return attributes[key]

    # -- files

    def define_files(self, statement: FilesText) -> None:
        """`define file`, `define fileset`."""
        of = "a fileset" if statement.many else "a file"
        given, place = statement.attributes, statement.place
        name = self.text(self.required(given, "name", of, place), "name")
        if name in self.files:
            raise place.error(
                f"duplicate name {name} of a file or fileset (first in line {self.files[name].place.line})",
                "another name",
            )
        if "/" in name or name in (".", ".."):
            raise place.error(invalid(name, "a name without /", "name"), "path=DIR,name=NAME")
        path = self.text(given["path"], "path") if "path" in given else ""
        if not path:
            self.say(f"{of} without path=: in the target directory itself", place)
        entries = (
            self.whole(given["entries"], "entries") if "entries" in given else (0 if statement.many else 1)
        )
        leaves = self.whole(given["leafdirs"], "leafdirs") if "leafdirs" in given else 0
        if statement.many and not entries and not leaves:
            raise place.error(
                f"the fileset {name} has neither entries nor leafdirs; expected one of them", "entries=1000"
            )
        if "cached" in given:
            held = "held in" if self.switch(given["cached"], "cached") else "out of"
            self.say(
                f"cached= of older versions ({held} the page cache): the cache is left as the layout leaves it",
                place,
            )
        if "paralloc" in given:
            self.switch(given["paralloc"], "paralloc")  # what it asks for is so in any case
        depth = self.amount(given["dirdepthrv"], "dirdepthrv") if "dirdepthrv" in given else None
        self.files[name] = Files(
            name=name,
            path=path,
            single=not statement.many,
            entries=entries,
            size=self.amount(given["size"], "size") if "size" in given else 1024,
            directory_width=self.whole(given["dirwidth"], "dirwidth") if "dirwidth" in given else 0,
            directory_depth=depth if isinstance(depth, Use) else None,
            directory_gamma=self.whole(given["dirgamma"], "dirgamma") / 1000 if "dirgamma" in given else 1.5,
            leaf_directories=leaves,
            made_percent=self.percent(given["prealloc"]) if "prealloc" in given else 0,
            place=place,
            **{
                key: self.switch(given[word], word) if word in given else False
                for key, word in (("reuse", "reuse"), ("trusted", "trusttree"), ("read_only", "readonly"),
                                  ("write_only", "writeonly"))
            },
        )  # fmt: skip

    def percent(self, expression: Expression) -> int:
        """`prealloc`, `prealloc=80`, `prealloc=true`."""
        value = self.variables.fixed(expression)
        if isinstance(value, bool) or (isinstance(value, str) and value.lower() in _WORDS):
            return 100 if self.switch(expression, "prealloc") else 0
        return self.whole(expression, "prealloc", most=100)

    # -- processes

    def processes(self, written: Iterable[ProcessText]) -> tuple[Process, ...]:
        """All processes with their threads."""
        found: dict[str, Process] = {}
        for process in written:
            name = self.text(self.required(process.attributes, "name", "a process", process.place), "name")
            if name in found:
                raise process.place.error(f"duplicate name {name} of a process", "another name")
            given = process.attributes
            instances = (
                self.whole(given["instances"], "instances", most=MAX_INSTANCES) if "instances" in given else 1
            )
            nice = self.whole(given["nice"], "nice", least=-20, most=19) if "nice" in given else 0
            threads = tuple(self.thread(thread, name) for thread in process.threads)
            found[name] = Process(name, instances, nice, threads)
        running = [p for p in found.values() if p.instances and any(t.instances for t in p.threads)]
        if not running:
            raise self.first_process().error(
                "no process has an instance with a thread, so nothing would run", "instances=1"
            )
        return tuple(running)

    def first_process(self) -> Place:
        """Return the place where the first process is defined."""
        return next(s.place for s in self.personality.statements if isinstance(s, ProcessText))

    def thread(self, written: ThreadText, process: str) -> Thread:
        """A thread with its flowops."""
        given = written.attributes
        name = self.text(given["name"], "name") if "name" in given else process
        instances = (
            self.whole(given["instances"], "instances", most=MAX_INSTANCES) if "instances" in given else 1
        )
        memory = self.whole(given["memsize"], "memsize") if "memsize" in given else 0
        priority = self.whole(given["ioprio"], "ioprio", most=8) if "ioprio" in given else None
        # 8 is what Filebench has where nothing is said: no priority is set.
        priority = None if priority == 8 else priority
        flowops = tuple(self.flowop(flowop, {}, ()) for flowop in written.flowops)
        refuse_impossible(flowops, self.files)
        return Thread(name, instances, memory, priority, flowops)

    def flowop(
        self, written: FlowopText, local: Mapping[str, Scalar | Use], calls: tuple[str, ...]
    ) -> Flowop:
        """A flowop, those of a composite one in its place."""
        self.flowop_count += 1
        if self.flowop_count > MAX_FLOWOPS:
            raise written.place.error(f"more than {MAX_FLOWOPS} flowops: expected {MAX_FLOWOPS} at most")
        if written.kind in self.composites:
            return self.composite(written, local, calls)
        kind = OLDER_FLOWOPS.get(written.kind, written.kind)
        if kind not in FLOWOPS:
            near = _near(written.kind, [*FLOWOPS, *self.composites])
            own = f", and the composite {', '.join(self.composites)}" if self.composites else ""
            raise written.place.error(
                f"unknown flowop {written.kind!r}: expected {', '.join(FLOWOPS)}{own}{near}",
                "docs/guides/filebench.md says what each does",
            )
        if kind != written.kind:
            self.say(f"the flowop {written.kind} of older versions: {kind}", written.place)
        for name in written.locals:
            raise written.place.error(
                f"${name} can only be used with a composite flowop, not with {written.kind}"
            )
        options: dict[str, Option] = {}
        for key, expression in written.attributes.items():
            if key not in ("name", "iters"):
                options[key] = self.option(key, expression, FLOWOP[key], local)
        self.check(kind, options, written)
        name = self.text(written.attributes["name"], "name", local) if "name" in written.attributes else kind
        iterations = (
            self.amount(written.attributes["iters"], "iters", local, least=1)
            if "iters" in written.attributes
            else 1
        )
        places = {key: expression.place for key, expression in written.attributes.items()}
        return Flowop(kind, name, options, iterations, written.place, places=places)

    def option(
        self, key: str, expression: Expression, kind: AttributeKind, local: Mapping[str, Scalar | Use]
    ) -> Option:
        """The value of one attribute."""
        if kind == "switch":
            return self.switch(expression, key, local)
        if kind == "name":
            return self.text(expression, key, local)
        value = self.amount(expression, key, local)
        if key in ("fd", "srcfd") and (isinstance(value, (Use, float)) or value > 4096):
            raise expression.place.error(invalid(_shown(value), "0 to 4096", key))
        return value

    def check(self, kind: str, options: Mapping[str, Option], written: FlowopText) -> None:
        """Check that the flowop has the options that it needs, and that the files it names are defined."""
        place = written.place
        for key in FLOWOPS[kind].needs:
            if key not in options:
                raise place.error(f"{kind} without {key}=: expected {key}=...")
        name = options.get("filename")
        if name is not None and name not in self.files:
            expression = written.attributes["filename"]
            known = ", ".join(self.files) or "none is defined"
            raise expression.place.error(
                f"no file or fileset has the name {name!r}; those there are: {known}{_near(str(name), self.files)}",
                "define fileset name=...",
            )
        opens = kind in ("openfile", "createfile", "makedir", "removedir", "listdir", "statfile")
        if opens and name is None and "fd" not in options:
            raise place.error(
                f"{kind} without filesetname=: expected the name of a fileset", "filesetname=NAME"
            )
        if (
            kind in ("makedir", "removedir")
            and name is not None
            and not self.files[str(name)].leaf_directories
        ):
            raise place.error(
                f"{kind} on {name}, which has no leaf directories; expected leafdirs= where it is defined"
            )

    def composite(
        self, written: FlowopText, local: Mapping[str, Scalar | Use], calls: tuple[str, ...]
    ) -> Flowop:
        """The flowops of a composite one, with its local variables."""
        definition = self.composites[written.kind]
        if written.kind in calls or len(calls) >= _MAX_CALLS:
            raise written.place.error(
                f"the composite flowop {written.kind} is done within itself; expected others"
            )
        own: dict[str, Scalar | Use] = {}
        for name, default in definition.locals.items():
            if default is not None:
                own[name] = self.variables.value(default)
        for name, expression in written.locals.items():
            if name not in definition.locals:
                raise written.place.error(
                    _unknown(name, definition.locals, f"local variable of {written.kind}"),
                    f"define flowop name={written.kind}, ${name}",
                )
            if expression is None:
                raise written.place.error(f"${name} without a value: expected ${name}=VALUE")
            own[name] = self.variables.value(expression, local)
        for name in definition.locals:
            if name not in own and name not in self.variables.values and name not in self.variables.laws:
                raise written.place.error(f"${name} of {written.kind} has no value; expected ${name}=VALUE")
        for key in written.attributes:
            if key not in ("name", "iters"):
                raise written.attributes[key].place.error(
                    f"unknown key {key}= of the composite flowop {written.kind}: expected name, iters, "
                    "and its own variables"
                )
        flowops = tuple(self.flowop(inner, own, (*calls, written.kind)) for inner in definition.flowops)
        iters = written.attributes.get("iters")
        iterations = self.amount(iters, "iters", local, least=1) if iters is not None else 1
        if iters is None and "iters" in definition.attributes:
            iterations = self.amount(definition.attributes["iters"], "iters", own, least=1)
        name = (
            self.text(written.attributes["name"], "name", local)
            if "name" in written.attributes
            else written.kind
        )
        return Flowop("composite", name, {}, iterations, written.place, flowops)

    def check_targets(self, result: Bound) -> None:
        """Targets are flowops that are there, of a kind that can be one."""
        kinds: dict[str, set[str]] = {}
        for process in result.processes:
            for thread in process.threads:
                waiting = list(thread.flowops)
                while waiting:
                    flowop = waiting.pop()
                    kinds.setdefault(flowop.name, set()).add(flowop.kind)
                    waiting += flowop.flowops
        for flowop in result.flowops():
            target = flowop.options.get("target")
            if target is None:
                continue
            if target not in kinds:
                raise flowop.place.error(_unknown(str(target), kinds, "target"))
            needed = {"wakeup": "block", "sempost": "semblock"}.get(flowop.kind)
            if needed and needed not in kinds[str(target)]:
                raise flowop.place.error(
                    f"invalid value {target!r} for target: a {', '.join(sorted(kinds[str(target)]))}; expected a {needed}"
                )

    # -- commands

    def commands(self, commands: Iterable[Command]) -> tuple[float, str, int | None]:
        """Events per second, how the run ends, and seconds, None where nothing is said."""
        events_per_s, mode = 0.0, "timeout"
        runs: list[tuple[Place, int | None]] = []
        # `create processes` starts them, and they run while the personality sleeps.
        running, slept = False, 0
        for command in commands:
            if command.name == "eventgen" and "rate" in command.attributes:
                rate = self.amount(command.attributes["rate"], "rate", most=10**9)
                if isinstance(rate, Use):
                    raise command.place.error(
                        "invalid value for rate: a drawn variable; expected one rate for the run"
                    )
                events_per_s = rate
            elif command.name in ("run", "psrun"):
                runs.append((command.place, self.run_seconds(command)))
            elif command.name == "sleep" and running:
                slept += self.whole(command.values[0], "sleep", most=7 * 24 * 3600)
            elif command.name in ("create", "shutdown") and command.words[0].startswith("process"):
                running = command.name == "create"
            elif command.name == "set":
                mode = command.words[2] if command.words[1] == "quit" else mode
            else:
                self.other(command)
        for place, _ in runs[:-1]:
            self.say(
                f"one run is carried out, that of line {runs[-1][0].line}: make what differs a factor", place
            )
        seconds = runs[-1][1] if runs else slept or None
        if runs and seconds is None and mode == "timeout":
            seconds = 60
        return events_per_s, mode, seconds

    def run_seconds(self, command: Command) -> int | None:
        """The seconds of `run N` and `psrun [period] N`; None without one."""
        values = list(command.values)
        if command.name == "psrun" and values:
            period = self.variables.fixed(values.pop(0))
            self.say(
                f"psrun {period}: what it prints every {str(period).removeprefix('-')} s is in the records of every interval",
                command.place,
            )
        if not values:
            return None
        seconds = self.whole(values[0], "run", most=7 * 24 * 3600)
        return seconds or None

    def other(self, command: Command) -> None:
        """Commands that do not change what runs."""
        place = command.place
        if command.name == "system":
            text = "".join(map(self.shown, command.values))
            self.say(f"system {text[:60]!r} is not carried out: tunables of iodyno set up hosts", place)
        elif command.name == "echo":
            for value in command.values:
                self.shown(value)
        elif command.name == "sleep":
            self.say(
                f"sleep {self.variables.fixed(command.values[0])} is not carried out: windows of iodyno are exact",
                place,
            )
        elif command.name == "domultisync" or (command.name == "enable" and "multi" in command.words):
            self.say(
                "clients are started together by iodyno, at one instant: `hosts: {client: {count: N}}`",
                place,
            )
        elif STATEMENTS.get(command.name) == NO_EFFECT:
            self.say(f"{command.name} is {NO_EFFECT} here", place)

    def shown(self, expression: Expression) -> str:
        """A text that is only shown: a variable without a value stands as it is."""
        if isinstance(expression, Joined):
            return "".join(map(self.shown, expression.parts))
        try:
            value = self.variables.value(expression)
        except ExperimentError:
            return f"${expression.name}" if isinstance(expression, Reference) else "?"
        return f"${value.name}" if isinstance(value, Use) else str(value)


def laws_used(result: Bound) -> list[Law]:
    """The drawn variables that something draws."""
    used = {
        value.name
        for f in result.flowops()
        for value in (*f.options.values(), f.iterations)
        if isinstance(value, Use)
    }
    used |= {v.name for f in result.files for v in (f.size, f.directory_depth) if isinstance(v, Use)}
    return [law for law in result.laws if law.name in used]


def _shown(value: Scalar | Use) -> Scalar:
    if isinstance(value, Use):
        return f"${value.name} (drawn)"
    return value


def _near(word: str, allowed: Iterable[str]) -> str:
    near = difflib.get_close_matches(word[:60], list(allowed), n=1, cutoff=0.55)
    return f"; did you mean {near[0]!r}?" if near else ""


def _unknown(word: str, allowed: Iterable[str], what: str) -> str:
    words = list(allowed)
    return f"unknown {what} {word[:60]!r}: expected {', '.join(words) or 'none'}{_near(word, words)}"
