"""PDQ scripts in Perl, as far as simple ones go: assignments, arithmetic, lists, `for`, print, and calls of `pdq::`.

Anything else is one error with its line, and so is a script that does not end.
"""

from __future__ import annotations

import math
import operator
import re
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

from iodyno.core.errors import ExperimentError

MAX_STEPS = 300_000
"""Words and characters of texts that a script goes through (chosen: a second; a solution takes about a hundred)."""
MOST_S = 60
"""Seconds of a CPU that a script may take with all that it has solved (chosen: the largest solution takes ten)."""
_ADVICE = "see docs/background/networks.md for what is read of Perl, and how the same is said in Python"
_TOKEN = re.compile(
    r"""(?P<space>\s+|\#[^\n]*|use\s[^;]*;)|(?P<number>(?:\d+(?:\.(?!\.)\d*)?|\.\d+)(?:[eE][+-]?\d+)?)"""
    r"""|(?P<text>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')|(?P<variable>[$@](?:\w+::)*[A-Za-z_]\w*)"""
    r"""|(?P<name>[A-Za-z_]\w*(?:::\w+)*)|(?P<sign>\*\*|\+\+|--|\.\.|[-+*/.]=|[<>=!]=|[-+*/%.<>=(){}\[\];,]|.)""",
    re.DOTALL | re.ASCII,
)
_NUMBER = re.compile(r"-?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")
_IN_TEXT = re.compile(r"\\(.)|\$(?:\{(\w+)\}|((?:\w+::)*[A-Za-z_]\w*))", re.DOTALL)
_CONVERSION = re.compile(r"%(?:%|([-+ 0#]*\d{0,2}(?:\.\d{0,2})?)([dfeEgGs]))")
_LEVELS: tuple[dict[str, Callable[[float, float], float]], ...] = (
    {"<": operator.lt, ">": operator.gt, "<=": operator.le, ">=": operator.ge, "==": operator.eq, "!=": operator.ne},
    {"+": operator.add, "-": operator.sub, ".": operator.add},
    {"*": operator.mul, "/": operator.truediv, "%": lambda a, b: int(a) % int(b)},
    {"**": math.pow},
)  # fmt: skip
_OPERATORS = {sign: does for level in _LEVELS for sign, does in level.items()}


class PerlScript:
    """Carries out a script while it reads it; a loop is read again for each turn."""

    def __init__(self, functions: Mapping[str, Any], constants: Mapping[str, Any], write: Any) -> None:
        given = {f"pdq::{name}": each for name, each in functions.items()}
        self.functions = {"substr": _part, "sprintf": _formatted, **given}
        self.values: dict[str, Any] = {f"$pdq::{name}": value for name, value in constants.items()}
        self.words = list[tuple[str, str, int]]()
        self.at, self.steps, self.line, self.write = 0, 0, 1, write
        self.begun_s = time.process_time()

    def run(self, script: str, arguments: Sequence[str]) -> None:
        """Carry out the script. Raises ExperimentError for what is not read, and what Python raises for what has no value."""
        self.values["@ARGV"] = [float(each) if _NUMBER.fullmatch(each) else each for each in arguments]
        line = 1
        for found in _TOKEN.finditer(script.translate(str.maketrans("“”„‘’", '"""\'\''))):
            if found.lastgroup != "space":
                self.words.append((str(found.lastgroup), found.group(), line))
            line += found.group().count("\n")
        self.words.append(("end", "", line))
        while self._word():
            self._statement()

    def _word(self) -> str:
        return self.words[self.at][1]

    def _refuse(self, allowed: str) -> NoReturn:
        what = f"unexpected {self._word()[:40] or 'the end of the script'!r}: expected {allowed}"
        self.line = self.words[self.at][2]
        raise ExperimentError(what, advice=_ADVICE)

    def _spend(self, steps: int) -> None:
        self.steps += steps
        if self.steps > MAX_STEPS:
            raise ExperimentError(f"more than {MAX_STEPS} words were carried out: does this script end?")

    def _pass(self) -> str:
        self._spend(1)
        self.at += 1
        _, word, self.line = self.words[self.at - 1]
        return word

    def _take(self, *words: str) -> str:
        return self._pass() if self._word() and self._word() in words else ""

    def _need(self, *words: str) -> str:
        return self._take(*words) or self._refuse(" or ".join(words))

    def _skip(self, begin: str, end: str) -> None:
        """Pass what stands up to `end`, and that; `begin` opens what has an end of its own."""
        depth = 1
        while depth:
            depth += (self._word() == begin) - (self._word() == end)
            if not self._word():
                self._refuse(end)
            self._pass()

    def _statement(self) -> None:
        if self._take("for", "foreach"):
            self._loop()
        elif not self._take(";"):
            self._simple()
            if self._word() != "}":
                self._need(";")

    def _simple(self) -> None:
        """Carry out an assignment, a call, or what prints."""
        self._take("my", "our")
        if how := self._take("print", "printf"):
            found = self._items()
            text = _formatted(*found) if how == "printf" else "".join(map(_text, found))
            self._spend(len(text))
            self.write(text)
        elif self.words[self.at][0] != "variable":
            self._expression()
        elif (name := self._pass())[0] == "@":
            self._need("=")
            self.values[name] = self._items()
        else:
            sign = self._need("=", "+=", "-=", "*=", "/=", ".=", "++", "--")
            value = 1.0 if sign in ("++", "--") else self._expression()
            before = self.values.get(name, "" if sign == ".=" else 0.0)
            self.values[name] = value if sign == "=" else self._applied(sign[0], before, value)

    def _loop(self) -> None:
        """Carry out `for (a; b; c) {}`, or `for $x (...) {}` over a list or a range."""
        self._take("my")
        if self.words[self.at][0] == "variable":
            name, turns, body = self._pass(), self._items(), self.at
            for self.values[name] in turns:
                self._block(body)
        else:
            self._need("(")
            self._simple()
            self._need(";")
            test, going = self.at, self._expression()
            self._need(";")
            step = self.at
            self._skip("(", ")")
            body = self.at
            while going:
                self._block(body)
                self.at = step
                self._simple()
                self.at = test
                going = self._expression()
        self.at = body
        self._need("{")
        self._skip("{", "}")

    def _block(self, begin: int) -> None:
        self.at = begin
        self._need("{")
        while not self._take("}"):
            self._statement()

    def _items(self) -> list[Any]:
        """Values with commas between them, in brackets or without; a range `1..9` and a list `@x` are several."""
        bracket, found = self._take("("), list[Any]()
        while not (bracket and self._word() == ")"):
            if self._word()[:1] == "@":
                found += self.values[self._pass()]
            else:
                found.append(self._expression())
                if self._take(".."):
                    first, last = int(float(found.pop())), int(float(self._expression()))
                    self._spend(max(last - first, 0))
                    found += map(float, range(first, last + 1))
            self._spend(len(found))
            if not self._take(","):
                break
        if bracket:
            self._need(")")
        return found

    def _expression(self, level: int = 0) -> Any:
        """The value of operators of a level, from the left to the right."""
        if level == len(_LEVELS):
            return self._single()
        found = self._expression(level + 1)
        while sign := self._take(*_LEVELS[level]):
            found = self._applied(sign, found, self._expression(level + (sign != "**")))
        return found

    def _applied(self, sign: str, left: Any, right: Any) -> Any:
        if sign != ".":
            return float(_OPERATORS[sign](float(left), float(right)))
        self._spend(len(_text(left)) + len(_text(right)))
        return _text(left) + _text(right)

    def _single(self) -> Any:
        """The value of a number, a text, a variable, an element of a list, a call, or what stands in brackets."""
        if self._take("-"):
            return -float(self._expression(len(_LEVELS) - 1))
        if self._take("("):
            found = self._expression()
            self._need(")")
            return found
        sort, word, _ = self.words[self.at]
        if sort == "name":
            return self._call(word)
        if sort not in ("number", "text", "variable"):
            self._refuse("a value")
        self._pass()
        if sort == "number":
            return float(word)
        if sort == "variable":
            return self._element(f"@{word[1:]}") if self._take("[") else self.values[word]
        return self._text_of(word[1:-1]) if word[0] == '"' else word[1:-1]

    def _text_of(self, written: str) -> str:
        def put(found: re.Match[str]) -> str:
            escaped, braced, name = found.groups()
            if escaped is not None:
                return {"n": "\n", "t": "\t"}.get(escaped, escaped)
            return _text(self.values[f"${braced or name}"])

        text = _IN_TEXT.sub(put, written)
        self._spend(len(text))
        return text

    def _element(self, name: str) -> Any:
        there, at = self.values[name], int(float(self._expression()))
        self._need("]")
        if name == "@ARGV" and at >= len(there):
            what = f"the script wants its argument {at + 1}, and was given {len(there)}"
            raise ExperimentError(what, advice="give it after the file: iodyno model pdq SCRIPT ARGUMENT ...")
        return there[at]

    def _call(self, name: str) -> Any:
        if name not in self.functions:
            self._refuse("a call of pdq::, print, printf, sprintf, substr")
        self._pass()
        if time.process_time() - self.begun_s > MOST_S:
            raise ExperimentError(
                f"took more than {MOST_S} s of a CPU until here: does this script end?",
                advice="solve fewer or smaller networks in one script",
            )
        return self.functions[name](*self._items())


def _text(value: Any) -> str:
    return f"{value:.15g}" if isinstance(value, float) else str(value)


def _part(value: Any, first: Any, length: Any) -> str:
    return _text(value)[int(float(first)) :][: int(float(length))]


def _formatted(form: Any, *found: Any) -> str:
    rest = iter(found)

    def converted(spec: re.Match[str]) -> str:
        how, kind = spec.groups()
        if kind is None:
            return "%"
        value = next(rest, 0.0)
        return f"%{how}{kind}" % (_text(value) if kind == "s" else float(value))

    return _CONVERSION.sub(converted, _text(form))
