"""Statements of a script: assignments, loops, and calls; what it prints is left out, what it asks is noted."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from iodyno.formats.pdq.calls import CALLS
from iodyno.formats.pdq.expressions import (
    Expression,
    Expressions,
    State,
    assigned,
    canonical,
    counted,
    list_name,
    put,
)
from iodyno.formats.pdq.tokens import ScriptError, Token

Statement = Callable[[State], None]
_T = TypeVar("_T")

_TYPES = ("int", "float", "double", "char", "long", "short", "unsigned", "const", "extern", "static", "void")
_PRINTS = (
    "print", "printf", "println", "puts", "cat", "fprintf", "say", "echo", "message", "sys.stdout.write", "fflush",
    "plot", "lines", "points", "abline", "text", "legend", "par", "axis", "title", "grid",
)  # fmt: skip
_LEFT_OUT = (
    "use", "import", "from", "library", "require", "return", "exit", "quit", "q", "pass", "package", "sys.exit", "rm",
)  # fmt: skip
_UNREADABLE = (
    "unless",
    "elif",
    "elsif",
    "else",
    "sub",
    "def",
    "do",
    "switch",
    "try",
    "class",
    "struct",
    "goto",
)
_ASSIGNS = ("=", "<-", "+=", "-=", "*=", "/=")
_ADVICE = (
    "write the model as a YAML file (docs/networks.md), or as calls, assignments, arithmetic, if and loops"
)


class Statements(Expressions):
    """Reads the statements of a whole script."""

    def script(self) -> list[Statement]:
        """All of them. Raises ScriptError for the first that is none of those that can be read."""
        found: list[Statement] = []
        while not self.over():
            self.statement(found)
        return found

    def block(self) -> list[Statement]:
        """What stands in braces (or is indented), or the one statement of a line."""
        while self.take(";"):
            pass
        found: list[Statement] = []
        if not self.take("{"):
            self.statement(found)
            return found
        while not self.take("}"):
            if self.over():
                raise self.wrong("}")
            self.statement(found)
        return found

    def statement(self, found: list[Statement]) -> None:
        """Reads one statement; what says nothing about the model is left out."""
        word = self.word
        if self.take(";"):
            return
        if self.sign("{"):
            found.extend(self.nested(self.block))
            return
        if word.sort == "text":  # a docstring
            self.at += 1
            return
        if word.sort != "name":
            raise self.wrong("a call of PDQ, an assignment or a loop", _ADVICE)
        if word.text in _UNREADABLE:
            raise ScriptError(word.line, f"found {word.text!r}, which is not carried out here", _ADVICE)
        if word.text in _PRINTS:
            found.extend(self.asked())
        elif word.text in _LEFT_OUT:
            self.past()
        elif word.text in ("for", "foreach"):
            found.append(self.nested(self.loop))
        elif word.text == "if":
            found.append(self.nested(self.condition))
        elif word.text == "while":
            found.append(self.nested(self.while_loop))
        elif self.language == "c" and (word.text in _TYPES or word.text == "main"):
            self.declaration(found)
        else:
            if word.text in ("my", "our", "local"):
                self.at += 1
            found.append(self.simple())
            self.ended()

    def nested(self, read: Callable[[], _T]) -> _T:
        """Reads a loop in a loop, up to a depth that no recursion minds."""
        self.depth += 1
        if self.depth > 20:
            raise ScriptError(self.word.line, "found more than 20 loops in each other, allowed: 20")
        try:
            return read()
        finally:
            self.depth -= 1

    def ended(self) -> None:
        """Goes past the end of a statement. Raises ScriptError where there is more."""
        if not self.over() and not self.sign("}") and not self.take(";"):
            raise self.wrong("the end of the statement", _ADVICE)

    def past(self) -> None:
        """Goes past a statement that says nothing about the model."""
        depth = 0
        while not self.over():
            depth += self.sign("(", "[") - self.sign(")", "]")
            if depth <= 0 and (self.sign(";", "}")):
                break
            self.at += 1
        self.take(";")

    def asked(self) -> list[Statement]:
        """The questions to PDQ within a statement that prints."""
        found: list[Statement] = []
        depth = 0
        while not self.over():
            depth += self.sign("(", "[") - self.sign(")", "]")
            if depth <= 0 and self.sign(";", "}"):
                break
            name = canonical(self.word.text) if self.is_name() else ""
            if name.startswith("Get") and name in CALLS and self.words[self.at + 1].text == "(":
                found.append(_carried_out(self.single(), self.word.line))
            else:
                self.at += 1
        self.take(";")
        return found

    def simple(self) -> Statement:
        """An assignment or a call."""
        word = self.word
        if (
            word.sort == "name"
            and self.words[self.at + 1].text == "["
            and (put_at := self.element()) is not None
        ):
            return put_at
        following = self.words[self.at + 1] if word.sort == "name" else word
        if word.sort == "name" and following.sort == "sign":
            if following.text in _ASSIGNS:
                self.at += 2
                return self.assignment(word.text, following.text, word.line)
            if self.language == "c" and word.text == "sprintf" and following.text == "(":
                return self.printed(word.line)
            if following.text in ("++", "--"):
                self.at += 2
                return _assignment(word.text, following.text[0], lambda state: 1, word.line)
        if self.sign("++", "--"):
            self.at += 1
            name = self.word.text
            if not self.is_name():
                raise self.wrong("a variable")
            self.at += 1
            return _assignment(name, word.text[0], lambda state: 1, word.line)
        return _carried_out(self.expression(), word.line)

    def element(self) -> Statement | None:
        """`x[i] = value`; None, and nothing read, where the brackets are not followed by an assignment."""
        begin, name, line = self.at, self.word.text, self.word.line
        self.at += 2
        index = self.expression()
        self.need("]")
        if not self.take("=", "<-"):
            self.at = begin
            return None
        value = self.expression()
        name = list_name(name, self.language)
        lowest = 1 if self.language == "r" else 0

        def run(state: State) -> None:
            _spent(state, line)
            put(state, name, int(_as_number(index(state), line)) - lowest, value(state), line)

        return run

    def condition(self) -> Statement:
        """`if` with its `else`, in all the ways that they are written."""
        line = self.word.line
        self.at += 1
        holds = self.expression()
        self.take(":")
        then = self.block()
        at = self.at
        while self.take(";"):
            pass
        otherwise: list[Statement] = []
        if self.is_name() and self.word.text in ("elif", "elsif"):
            otherwise = [self.nested(self.condition)]
        elif self.is_name() and self.word.text == "else":
            self.at += 1
            self.take(":")
            otherwise = self.block()
        else:
            self.at = at

        def run(state: State) -> None:
            _run(then if _true(holds(state)) else otherwise, state, line)

        return run

    def printed(self, line: int) -> Statement:
        """`sprintf(name, "disk%d", i)` of C, which puts a text into a variable."""
        self.at += 2
        name = self.variable()
        self.need(",")
        return _assignment(name.text, "", self.text_of(self.several(")"), line), line)

    def assignment(self, name: str, sign: str, line: int) -> Statement:
        """The value that a variable is given."""
        if self.is_name() and self.words[self.at + 1].text in ("=", "<-"):
            raise self.wrong("one assignment in a statement")
        return _assignment(name, "" if sign in ("=", "<-") else sign[0], self.expression(), line)

    def declaration(self, found: list[Statement]) -> None:
        """`double x = 1.0, y;` of C; `int main() {` opens the block that is the script."""
        sort = "double"
        while self.word.text in _TYPES:
            sort = self.word.text if self.word.text not in ("const", "extern", "static") else sort
            self.at += 1
        while self.take("*"):
            sort = "char"
        if self.is_name() and self.words[self.at + 1].text == "(":
            name = self.word
            if name.text != "main":
                raise ScriptError(name.line, f"found the function {name.text!r}, allowed: main", _ADVICE)
            while not self.sign("{"):
                if self.over():
                    raise self.wrong("{")
                self.at += 1
            found.extend(self.block())
            return
        while True:
            name = self.variable()
            if self.take("["):
                while not self.take("]"):
                    if self.over():
                        raise self.wrong("]")
                    self.at += 1
            found.append(_declared(name.text, sort))
            if self.take("="):
                found.append(self.assignment(name.text, "=", name.line))
            if not self.take(","):
                break
            while self.take("*"):
                pass
        self.ended()

    def variable(self) -> Token:
        """The name of a variable. Raises ScriptError for anything else."""
        if not self.is_name():
            raise self.wrong("a name", _ADVICE)
        self.at += 1
        return self.words[self.at - 1]

    def loop(self) -> Statement:
        """`for (a; b; c) {}`, `foreach $i (1..3) {}`, `for i in range(3):`, `for (i in 1:3) {}`."""
        line = self.word.line
        self.at += 1
        if self.word.text in ("my", "our"):
            self.at += 1
        if self.is_name():
            return self.counted_loop(line, brackets=self.language == "perl")
        self.need("(")
        if self.is_name() and self.words[self.at + 1].text == "in":
            return self.counted_loop(line, brackets=False, closing=True)
        if self.word.text in ("my", "int", "double", "float"):
            self.at += 1
        first = None if self.sign(";") else self.simple()
        self.need(";")
        goes_on = self.expression()
        self.need(";")
        step = None if self.sign(")") else self.simple()
        self.need(")")
        body = self.block()

        def run(state: State) -> None:
            if first is not None:
                first(state)
            while _true(goes_on(state)):
                _run(body, state, line)
                if step is not None:
                    step(state)

        return run

    def while_loop(self) -> Statement:
        """`while` with a condition."""
        line = self.word.line
        self.at += 1
        goes_on = self.expression()
        self.take(":")
        body = self.block()

        def run(state: State) -> None:
            while _true(goes_on(state)):
                _run(body, state, line)

        return run

    def counted_loop(self, line: int, *, brackets: bool, closing: bool = False) -> Statement:
        """A loop over a range or a list."""
        name = self.word.text
        self.at += 1
        if brackets:
            self.need("(")
        elif self.word.text == "in":
            self.at += 1
        else:
            raise self.wrong("in")
        low = self.signed()
        values = low
        if self.language != "python" and self.take("..", ":"):
            high = self.signed()
            values = lambda state: counted(_as_number(low(state), line), _as_number(high(state), line), 1, line, closed=True)  # noqa: E731 # fmt: skip
        elif brackets:
            items = [low]
            while self.take(","):
                items.append(self.expression())
            if len(items) > 1:
                values = lambda state: [item(state) for item in items]  # noqa: E731
        if brackets or closing:
            self.need(")")
        self.take(":")
        body = self.block()

        def run(state: State) -> None:
            over = values(state)
            for value in over if isinstance(over, list) else [over]:
                state.variables[name] = value
                _run(body, state, line)

        return run


def _as_number(value: object, line: int) -> float:
    if isinstance(value, (int, float)):
        return value
    raise ScriptError(line, f"found {value!r}, allowed: a number")


def _true(value: object) -> bool:
    return bool(value)


def _run(body: list[Statement], state: State, line: int) -> None:
    if not body:
        _spent(state, line)
    for statement in body:
        statement(state)


def _spent(state: State, line: int) -> None:
    """Counts a statement. Raises ScriptError where a loop seems to have no end."""
    state.statements_left -= 1
    if state.statements_left < 0:
        raise ScriptError(line, "more than 200000 statements were carried out: does this loop end?")


def _carried_out(expression: Expression, line: int) -> Statement:
    def run(state: State) -> None:
        _spent(state, line)
        expression(state)

    return run


def _declared(name: str, sort: str) -> Statement:
    def run(state: State) -> None:
        state.sorts[name] = sort

    return run


def _assignment(name: str, sign: str, expression: Expression, line: int) -> Statement:
    def run(state: State) -> None:
        _spent(state, line)
        value = expression(state)
        if sign:
            before = state.variables.get(name, 0)
            by = _as_number(value, line)
            now = _as_number(before, line)
            if sign == "/" and by == 0:
                raise ScriptError(line, "division by 0")
            value = {"+": now + by, "-": now - by, "*": now * by, "/": now / (by or 1)}[sign]
        assigned(state, name, value, line)

    return run
