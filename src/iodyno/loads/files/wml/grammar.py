"""Words become statements. The grammar is that of Filebench 1.5-alpha3, and what older versions had beside it.

A mistake ends the reading with its line, its column, what was found, what is allowed and the nearest word.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from iodyno.formats.mistakes import nearest
from iodyno.loads.files.core import attributes as known
from iodyno.loads.files.core.values import (
    Arithmetic,
    Command,
    CompositeText,
    Expression,
    FilesText,
    FlowopText,
    Joined,
    Literal,
    Place,
    ProcessText,
    RandomVariable,
    Reference,
    Row,
    SetVariable,
    Statement,
    ThreadText,
)
from iodyno.loads.files.wml.tokens import Token, number_of, tokens

MAX_DEPTH = 64
"""Expressions within expressions. Chosen: no person nests that deep, and it keeps the reader's stack short."""
_OPERATORS = ({"+", "-"}, {"*", "/", "%"})


@dataclass
class Grammar:
    """One pass over the words of a file. `include` reads the file that `load` names."""

    text: str
    file: str
    include: Callable[[str, Place], tuple[Statement, ...]]
    notes: dict[str, dict[int, None]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.words = list(tokens(self.text, self.file))
        self.at = 0

    # -- words

    @property
    def word(self) -> Token:
        """The next word."""
        return self.words[self.at]

    def after(self, steps: int = 1) -> Token:
        """A word further on."""
        return self.words[min(self.at + steps, len(self.words) - 1)]

    def take(self) -> Token:
        """The next word, which is then behind."""
        token = self.word
        self.at = min(self.at + 1, len(self.words) - 1)
        return token

    def is_sign(self, sign: str) -> bool:
        """Tell whether the next word is that sign."""
        return self.word.kind == "sign" and self.word.text == sign

    def sign(self, sign: str, after: str) -> Token:
        """The sign that must come now."""
        if not self.is_sign(sign):
            raise self.unexpected(f"{sign} {after}")
        return self.take()

    def unexpected(self, needed: str, advice: str = "") -> Exception:
        """The error about the next word."""
        return self.word.place.error(f"unexpected {self.word.shown()}: expected {needed}", advice)

    def unknown(self, token: Token, what: str, allowed: Collection[str], advice: str = "") -> Exception:
        """The error about a word that is none of the allowed ones."""
        near = nearest(token.text, allowed)
        return token.place.error(
            f"unexpected {token.shown()} {what}: expected {', '.join(allowed)}{near}", advice
        )

    def say(self, text: str, place: Place) -> None:
        """Notes that something has another meaning here."""
        self.notes.setdefault(text, {})[place.line] = None

    # -- statements

    def statements(self) -> tuple[Statement, ...]:
        """All statements of the file. Raises ExperimentError."""
        found: list[Statement] = []
        while self.word.kind != "end":
            token = self.take()
            if token.kind != "word" or token.text.lower() not in known.STATEMENTS:
                if token.text == "foreach":
                    raise token.place.error(
                        "unexpected foreach, which repeats runs",
                        "write one run, and the values as the levels of a factor (iodyno convert)",
                    )
                raise self.unknown(
                    token,
                    "at the begin of a statement",
                    known.STATEMENTS,
                    "docs/guides/filebench.md says what each does",
                )
            found += self.statement(token)
        return tuple(found)

    def statement(self, token: Token) -> list[Statement]:
        """One statement, whose first word is taken."""
        name, place = token.text.lower(), token.place
        if name == "set":
            return [self.set_(place)]
        if name == "define":
            return [self.define(place)]
        if name == "load":
            named = self.name("the file that is read here")
            return list(self.include(named, place))
        if name == "eventgen":
            return [Command(name, place, self.attributes(known.EVENTGEN, "of eventgen"))]
        if name in ("run", "psrun"):
            values = tuple(
                self.expression() for _ in range(2 if name == "psrun" else 1) if self.begins_number()
            )
            return [Command(name, place, values=values)]
        if name in ("sleep", "debug"):
            return [Command(name, place, values=(self.expression(),))]
        if name in ("echo", "system", "usage", "log"):
            return [Command(name, place, values=self.texts(token))]
        if name == "enable":
            return [self.enable(place)]
        if name == "domultisync":
            return [Command(name, place, self.attributes({"value": "count"}, "of domultisync"))]
        if name in ("create", "list", "shutdown"):
            allowed = ("file", "files", "fileset", "filesets", "process", "processes", "flowop", "flowops")
            what = self.take()
            if what.kind != "word" or what.text.lower() not in allowed:
                raise self.unknown(what, f"after {name}", allowed)
            return [Command(name, place, words=(what.text.lower(),))]
        if name == "stats":
            return [self.stats(place)]
        return [Command(name, place)]

    def stats(self, place: Place) -> Command:
        """`stats clear`, `stats dump "file"` and the like, of version 1.4."""
        allowed = ("clear", "snap", "dump", "directory", "command", "xmldump", "multidump")
        what = self.take()
        if what.kind != "word" or what.text not in allowed:
            raise self.unknown(what, "after stats", allowed)
        if self.word.place.line == place.line and self.word.kind in ("text", "word", "variable"):
            self.expression()
        return Command("stats", place, words=(what.text,))

    def enable(self, place: Place) -> Command:
        """`enable lathist`, `enable multi master=..., client=...`."""
        what = self.take()
        if what.kind != "word" or what.text not in ("lathist", "multi"):
            raise self.unknown(what, "after enable", ("lathist", "multi"))
        attributes = self.attributes(known.MULTI, "of multi") if what.text == "multi" else {}
        return Command("enable", place, attributes, words=(what.text,))

    def texts(self, first: Token) -> tuple[Expression, ...]:
        """Read the text after echo or system: in quotes, or the rest of the line."""
        values: list[Expression] = []
        while self.word.kind != "end" and (
            self.word.place.line == first.place.line or (self.word.kind == "text" and not values)
        ):
            token = self.take()
            values.append(token.value or Literal(token.text, token.place))
        return tuple(values)

    def set_(self, place: Place) -> Statement:
        """`set $name = value`, `set mode quit firstdone`, `set mode nousestats`."""
        token = self.take()
        if token.kind == "word" and token.text.lower() == "mode":
            allowed = ("quit", "nousestats", "noeventgen")
            what = self.take()
            if what.kind != "word" or what.text not in allowed:
                raise self.unknown(what, "after set mode", allowed)
            words = ["mode", what.text]
            if what.text == "quit":
                how = self.take()
                if how.kind != "word" or how.text not in known.QUIT_MODES:
                    raise self.unknown(how, "after set mode quit", known.QUIT_MODES)
                words.append(how.text)
            return Command("set", place, words=tuple(words))
        if token.kind != "variable" or not isinstance(token.value, Reference):
            raise token.place.error(
                f"unexpected {token.shown()} after set: expected a variable such as $nfiles, or mode",
                f"set ${token.text} = ..." if token.kind == "word" else "set $NAME = VALUE",
            )
        self.sign("=", f"after {token.text}")
        name = token.value.name
        if self.word.kind == "word" and self.word.text in ("randvar", "cvar"):
            return SetVariable(name, self.randvar(self.take()), place)
        return SetVariable(name, self.expression(), place, token.attribute)

    def randvar(self, first: Token) -> RandomVariable:
        """`randvar(...)` or `cvar(...)`, whose first word is taken."""
        custom = first.text == "cvar"
        self.sign("(", f"after {first.text}")
        attributes, table = self.randvar_attributes(known.CUSTOM if custom else known.RANDVAR, first.text)
        self.sign(")", f"at the end of {first.text}")
        return RandomVariable(custom, attributes, table, first.place)

    def randvar_attributes(
        self, allowed: Mapping[str, str], what: str
    ) -> tuple[dict[str, Expression], tuple[Row, ...]]:
        """Attributes of which one may be a table."""
        table: list[Row] = []
        attributes = self.attributes(allowed, f"of {what}", table)
        return attributes, tuple(table)

    def table(self) -> list[Row]:
        """`{{percent, low, high}, ...}`."""
        rows = []
        self.sign("{", "at the begin of the table")
        while True:
            self.sign("{", "at the begin of a row: {percent, low, high}")
            percent = self.expression()
            self.sign(",", "after the percentage")
            low = self.expression()
            self.sign(",", "after the lower bound")
            high = self.expression()
            self.sign("}", "at the end of the row")
            rows.append(Row(percent, low, high))
            if self.is_sign(","):
                self.take()
            if self.is_sign("}"):
                self.take()
                return rows
            if not self.is_sign("{"):
                raise self.unexpected("a row {percent, low, high}, or } at the end of the table")

    def define(self, place: Place) -> Statement:
        """`define file | fileset | process | flowop | randvar`."""
        what = self.take()
        word = what.text.lower() if what.kind == "word" else ""
        if word in ("file", "files"):
            return FilesText(False, self.attributes(known.FILE, "of a file"), place)
        if word in ("fileset", "filesets"):
            return FilesText(True, self.attributes(known.FILESET, "of a fileset"), place)
        if word in ("process", "processes", "proc", "procs"):
            attributes = self.attributes(known.PROCESS, "of a process")
            return ProcessText(attributes, self.threads(), place)
        if word == "flowop":
            return self.composite(place)
        if word in ("randvar", "cvar"):
            self.say("`define randvar` of older versions: `set $name = randvar(...)`", place)
            return self.defined_randvar(what)
        raise self.unknown(what, "after define", ("file", "fileset", "process", "flowop", "randvar"))

    def defined_randvar(self, what: Token) -> SetVariable:
        """`define randvar name=$x, ...`, as version 1.4 had it."""
        attributes, table = self.randvar_attributes(known.RANDVAR, "randvar")
        name = attributes.pop("name", None)
        if isinstance(name, Reference):
            shown = name.name
        elif isinstance(name, Literal) and isinstance(name.value, str):
            shown = name.value.removeprefix("$")
        else:
            raise what.place.error(
                "missing name of a randvar: expected name=$NAME", "define randvar name=$iosize, ..."
            )
        return SetVariable(shown, RandomVariable(False, attributes, table, what.place), what.place)

    def composite(self, place: Place) -> CompositeText:
        """`define flowop name=X, $local[=default] { flowop ... }`."""
        attributes, local = self.attributes_with_locals(known.COMPOSITE, "of a composite flowop")
        name = attributes.get("name")
        if not isinstance(name, Literal) or not isinstance(name.value, str):
            raise place.error(
                "missing name of a composite flowop: expected name=NAME", "define flowop name=copy {...}"
            )
        return CompositeText(name.value, attributes, local, self.flowops("flowop"), place)

    def threads(self) -> tuple[ThreadText, ...]:
        """`{ thread ... }`."""
        opening = self.sign("{", "before the threads of a process")
        found = []
        while not self.is_sign("}"):
            token = self.take()
            if token.kind == "end":
                raise opening.place.error("the { that is here is never closed", "a } after the last thread")
            if token.kind != "word" or token.text.lower() not in ("thread", "threads"):
                raise self.unknown(token, "within a process", ("thread", "}"))
            attributes = self.attributes(known.THREAD, "of a thread")
            found.append(ThreadText(attributes, self.flowops("thread"), token.place))
        self.take()
        if not found:
            raise opening.place.error("a process without a thread: expected thread name=... {...}")
        return tuple(found)

    def flowops(self, of: str) -> tuple[FlowopText, ...]:
        """`{ flowop ... }`."""
        opening = self.sign("{", f"before the flowops of a {of}")
        found = []
        while not self.is_sign("}"):
            token = self.take()
            if token.kind == "end":
                raise opening.place.error("the { that is here is never closed", "a } after the last flowop")
            if token.kind != "word" or token.text.lower() not in ("flowop", "flowops"):
                raise self.unknown(token, f"within a {of}", ("flowop", "}"))
            kind = self.take()
            if kind.kind != "word":
                raise kind.place.error(
                    f"unexpected {kind.shown()}: expected the kind of the "
                    f"flowop{nearest(kind.text, known.FLOWOPS)}"
                )
            if self.is_sign(","):
                self.take()
            attributes, local = self.attributes_with_locals(known.FLOWOP, "of a flowop")
            found.append(FlowopText(kind.text, attributes, local, kind.place))
        self.take()
        if not found:
            raise opening.place.error(f"a {of} without a flowop: expected flowop KIND name=...")
        return tuple(found)

    # -- attributes

    def attributes(
        self, allowed: Mapping[str, str], what: str, table: list[Row] | None = None
    ) -> dict[str, Expression]:
        """`name=value, name, ...`; none where the next word is no attribute."""
        return self.attributes_with_locals(allowed, what, table, local=False)[0]

    def attributes_with_locals(
        self, allowed: Mapping[str, str], what: str, table: list[Row] | None = None, local: bool = True
    ) -> tuple[dict[str, Expression], dict[str, Expression | None]]:
        """Attributes, and the local variables among them."""
        found: dict[str, Expression] = {}
        variables: dict[str, Expression | None] = {}
        comma = True
        while True:
            token = self.word
            if token.kind == "variable" and local and isinstance(token.value, Reference):
                self.take()
                variables[token.value.name] = self.value() if self.equals() else None
            elif token.kind == "word" and (comma or self.attribute(token, allowed)):
                name = known.OTHER_NAMES.get(token.text.lower(), token.text.lower())
                if name == "randtable" and table is not None:
                    self.take()
                    self.sign("=", "after randtable")
                    table += self.table()
                elif name not in allowed:
                    # What is no attribute and has no value is the next statement.
                    if not found and not variables and self.after().text != "=":
                        return found, variables
                    if self.after().text != "=" and (
                        token.text in known.STATEMENTS or token.text in ("flowop", "thread")
                    ):
                        return found, variables
                    raise self.unknown(
                        token, what, (*allowed, *(("randtable",) if table is not None else ()))
                    )
                else:
                    self.take()
                    found[name] = self.value() if self.equals() else Literal(True, token.place)
                    if not comma:
                        self.say("a comma between attributes is missing, and taken to be there", token.place)
            elif comma and (found or variables) and token.kind != "sign":
                raise self.unexpected(f"an attribute {what}: {', '.join(allowed)}")
            else:
                return found, variables
            comma = self.is_sign(",")
            if comma:
                self.take()

    def attribute(self, token: Token, allowed: Mapping[str, str]) -> bool:
        """Tell whether an attribute comes without the comma before it."""
        name = known.OTHER_NAMES.get(token.text.lower(), token.text.lower())
        return name in allowed and (self.after().text == "=" or name not in ("name",))

    def equals(self) -> bool:
        """Takes `=`, if it is next."""
        return bool(self.take()) if self.is_sign("=") else False

    # -- values

    def name(self, what: str) -> str:
        """A word or a text without variables."""
        token = self.take()
        if token.kind in ("word", "text") and isinstance(token.value, Literal):
            return str(token.value.value)
        raise token.place.error(f"unexpected {token.shown()}: expected {what}")

    def begins_number(self) -> bool:
        """Tell whether a number or a variable comes now."""
        return self.word.kind in ("number", "variable") or (
            self.is_sign("-") and self.after().kind == "number"
        )

    def value(self) -> Expression:
        """The value of an attribute."""
        return self.expression()

    def expression(self, level: int = 0, depth: int = 0) -> Expression:
        """A value: a number, a text, a variable, or arithmetic with them."""
        if depth > MAX_DEPTH:
            raise self.word.place.error(f"brackets within brackets; expected {MAX_DEPTH} deep")
        if level == len(_OPERATORS):
            return self.operand(depth)
        left = self.expression(level + 1, depth)
        while True:
            operator = self.operator(level, left)
            if operator is None:
                return left
            place = self.word.place
            if operator == "/" and len(self.word.text) > 1:
                right: Expression = self.divisor()
            else:
                self.take()
                right = self.expression(level + 1, depth)
            left = Arithmetic(operator, left, right, place)

    def operator(self, level: int, left: Expression) -> str | None:
        """The operator that comes now, if it is one of this level."""
        if isinstance(left, Joined) or (isinstance(left, Literal) and not _is_number(left)):
            return None
        if self.word.kind == "sign" and self.word.text in _OPERATORS[level]:
            return self.word.text
        divides = self.word.kind == "word" and (self.word.text == "/" or self.divided() is not None)
        return "/" if level == 1 and divides else None

    def divided(self) -> int | float | None:
        """The number of a word such as `/2`."""
        text = self.word.text
        if not text.startswith("/") or not text[1:2].isdecimal():
            return None
        digits, unit = (text[1:-1], text[-1]) if text[-1] in "kKmMgGtT" else (text[1:], "")
        return number_of(digits, unit) if digits.isdecimal() else None

    def divisor(self) -> Literal:
        """The number of a word such as `/2`, which is then behind."""
        value = self.divided()
        assert value is not None
        return Literal(value, self.take().place)

    def operand(self, depth: int) -> Expression:
        """A number, a text, a variable, or an expression in brackets; what touches a text is joined to it."""
        if self.is_sign("("):
            self.take()
            inner = self.expression(0, depth + 1)
            self.sign(")", "after the expression")
            return inner
        if self.is_sign("-"):
            place = self.take().place
            operand = self.operand(depth + 1)
            if isinstance(operand, Literal) and _is_number(operand):
                assert not isinstance(operand.value, str)
                return Literal(-operand.value, place)
            return Arithmetic("-", Literal(0, place), operand, place)
        token = self.word
        if token.value is None or token.kind in ("sign", "end"):
            raise self.unexpected("a value: a number, a word, a text in quotes or a variable")
        self.take()
        value = token.value
        if token.kind == "word" and token.text.lower() in ("true", "false"):
            value = Literal(token.text.lower() == "true", token.place)
        parts = [value]
        while (
            not self.word.apart
            and self.word.kind in ("word", "variable", "text", "number")
            and token.kind != "number"
        ):
            if self.word.kind == "word" and self.divided() is not None and isinstance(parts[-1], Reference):
                break
            assert self.word.value is not None
            parts.append(self.take().value or value)
        return value if len(parts) == 1 else Joined(tuple(parts), token.place)


def _is_number(value: Literal) -> bool:
    return isinstance(value.value, (int, float)) and not isinstance(value.value, bool)
