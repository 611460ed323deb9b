"""Arithmetic of a script: its expressions as functions of its variables."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from iodyno.formats.mistakes import found, nearest, shortened
from iodyno.formats.pdq.calls import CALLS, CONSTANTS, Model, Value
from iodyno.formats.pdq.tokens import Language, ScriptError, Token

MAX_DEPTH = 50
MAX_TEXT = 2000
MAX_LIST = 10_000
"""Chosen: above what a model needs, and low enough that a script made to hurt is refused at once."""


@dataclass
class State:
    """What a script knows while it runs: its variables, its arguments, the model; what of them is whole in C."""

    model: Model
    arguments: Sequence[str]
    variables: dict[str, Value] = field(default_factory=dict)
    sorts: dict[str, str] = field(default_factory=dict)
    statements_left: int = 200_000


Expression = Callable[[State], Value]

_TYPES = ("int", "float", "double", "char", "long", "short", "unsigned", "const", "extern", "static")
_WHOLE = ("int", "long", "short", "unsigned")
_FIXED: dict[str, Value] = {"TRUE": 1, "FALSE": 0, "True": 1, "False": 0}
_BINARY: tuple[dict[str, Callable[[float, float], float]], ...] = (
    {"<": operator.lt, ">": operator.gt, "<=": operator.le, ">=": operator.ge, "==": operator.eq, "!=": operator.ne},
    {"+": operator.add, "-": operator.sub, ".": operator.add},
    {"*": operator.mul, "/": operator.truediv, "%": math.fmod,
     "%%": operator.mod, "//": operator.floordiv, "%/%": operator.floordiv},
)  # fmt: skip
_FUNCTIONS: dict[str, Callable[..., float]] = {
    "abs": abs, "fabs": abs, "sqrt": math.sqrt, "exp": math.exp, "log": math.log, "log10": math.log10,
    "min": min, "max": max, "pow": math.pow, "floor": math.floor, "ceil": math.ceil, "ceiling": math.ceil,
    "int": int, "atoi": int, "as.integer": int, "float": float, "atof": float, "as.numeric": float,
    "as.double": float, "round": round,
    "math.sqrt": math.sqrt, "math.exp": math.exp, "math.log": math.log, "math.ceil": math.ceil, "math.floor": math.floor,
}  # fmt: skip


def canonical(name: str) -> str:
    """The name of a call or constant of PDQ without what each language puts before it."""
    return re.sub(r"^\$?(?:pdq::|pdq\.|PDQ_)", "", name)


class Expressions:
    """Reads expressions from words, from left to right; `statements.Statements` adds what stands around them."""

    def __init__(self, words: Sequence[Token], language: Language) -> None:
        self.words, self.language = words, language
        self.at = 0
        self.depth = 0

    @property
    def word(self) -> Token:
        """The next word."""
        return self.words[self.at]

    def over(self) -> bool:
        """Whether no word is left."""
        return self.words[self.at].sort == "end"

    def is_name(self) -> bool:
        """Whether the next word is a name."""
        return self.words[self.at].sort == "name"

    def sign(self, *texts: str) -> bool:
        """Whether the next word is one of these signs."""
        return self.word.sort == "sign" and self.word.text in texts

    def take(self, *texts: str) -> bool:
        """Goes past the next word when it is one of these signs."""
        if self.sign(*texts):
            self.at += 1
            return True
        return False

    def need(self, text: str) -> None:
        """Goes past the sign. Raises ScriptError for anything else."""
        if not self.take(text):
            raise self.wrong(text)

    def wrong(self, allowed: str, advice: str = "") -> ScriptError:
        """The error about the next word."""
        seen = shortened(self.word.text) or "the end of the script"
        return ScriptError(self.word.line, f"found {seen!r}, allowed: {allowed}", advice)

    def expression(self) -> Expression:
        """A value, or a condition of several comparisons: `and` binds as `or` does, from left to right."""
        left = self.binary(0)
        while self.sign("&&", "||") or (self.is_name() and self.word.text in ("and", "or")):
            both = self.word.text in ("&&", "and")
            self.at += 1
            left = _joined(left, self.binary(0), both)
        return left

    def binary(self, level: int) -> Expression:
        """A comparison, a sum, a product, by the precedence that all four languages share."""
        if level == len(_BINARY):
            return self.signed()
        left = self.binary(level + 1)
        while self.word.sort == "sign" and self.word.text in _BINARY[level]:
            if self.word.text == "." and self.language != "perl":
                break
            line, sign = self.word.line, self.word.text
            self.at += 1
            left = _applied(sign, left, self.binary(level + 1), line, self.language)
        return left

    def signed(self) -> Expression:
        """A minus binds less than a power: -2**2 is -4 in all of them."""
        line = self.word.line
        if self.take("-"):
            inner = self.deeper(self.signed)
            return lambda state: -_numeric(inner(state), line)
        if self.take("+"):
            return self.deeper(self.signed)
        if self.take("!"):
            wrong = self.deeper(self.signed)
            return lambda state: int(not wrong(state))
        base = self.single()
        if self.language == "r" and self.take(":"):
            last = self.deeper(self.single)
            return lambda state: counted(
                _numeric(base(state), line), _numeric(last(state), line), 1, line, closed=True
            )
        if self.sign("**") or (self.language == "r" and self.sign("^")):
            self.at += 1
            return _applied("**", base, self.deeper(self.signed), line, self.language)
        return base

    def deeper(self, read: Callable[[], Expression]) -> Expression:
        """Reads what is nested, up to a depth that no recursion minds."""
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise ScriptError(self.word.line, f"found more than {MAX_DEPTH} brackets in each other")
        try:
            return read()
        finally:
            self.depth -= 1

    def single(self) -> Expression:
        """A number, a text, a variable, a call, or what stands in brackets."""
        word = self.word
        if word.sort == "number":
            self.at += 1
            value = _literal(word.text)
            return lambda state: value
        if word.sort == "text":
            self.at += 1
            return self.quoted(word)
        if word.sort == "name":
            self.at += 1
            return self.named(word)
        if self.take("("):
            if self.language == "c" and self.word.text in _TYPES:
                whole = self.word.text in _WHOLE
                self.at += 1
                self.need(")")
                inner = self.deeper(self.signed)
                return lambda state: _cast(inner(state), whole, word.line)
            items = self.several(")")
            if len(items) == 1:
                return items[0]
            return lambda state: [item(state) for item in items]
        if self.language == "python" and self.take("["):
            items = self.several("]")
            return lambda state: [item(state) for item in items]
        raise self.wrong("a number, a text, a variable or a call of PDQ")

    def several(self, end: str) -> list[Expression]:
        """Expressions between commas, up to the bracket that ends them; `name = value` gives the value."""
        items: list[Expression] = []
        while not self.take(end):
            if (
                self.word.sort == "name"
                and self.words[self.at + 1].text == "="
                and self.language in ("python", "r")
            ):
                self.at += 2
            items.append(self.deeper(self.expression))
            if not self.sign(end):
                self.need(",")
        return items

    def quoted(self, word: Token) -> Expression:
        """A text; in Perl the variables within double quotes are put in, in Python `%` fills its places."""
        if self.language == "perl" and word.quote == '"' and "$" in word.text:
            return lambda state: _interpolated(word.text, state, word.line)
        if self.language == "python" and self.take("%"):
            value = self.single()

            def filled(state: State) -> Value:
                given = value(state)
                return _formatted(word.text, given if isinstance(given, list) else [given], word.line)

            return filled
        return lambda state: word.text

    def named(self, word: Token) -> Expression:
        """A variable, a constant or a call."""
        name, line = canonical(word.text), word.line
        if self.language == "perl" and name == "sprintf" and not self.sign("("):
            values = [self.expression()]
            while self.take(","):
                values.append(self.expression())
            return self.text_of(values, line)
        if self.take("("):
            arguments = self.several(")")
            return self.called(word.text, arguments, line)
        if self.take("["):
            index = self.deeper(self.expression)
            self.need("]")
            return self.indexed(word.text, index, line)
        if name in _FIXED:
            return lambda state: _FIXED[name]
        if name in ("NULL", "None"):
            return lambda state: []
        if name in CONSTANTS:
            return lambda state: name
        if self.language == "perl" and name == "shift":
            return lambda state: _argument(state, state.variables.setdefault("shift", 0), line, shift=True)
        return lambda state: _variable(state, word.text, line)

    def called(self, written: str, arguments: list[Expression], line: int) -> Expression:
        """A call of PDQ or of arithmetic. Raises ScriptError for others."""
        name = canonical(written)
        if name in CALLS:
            return lambda state: state.model.call(name, [a(state) for a in arguments], line)
        if name == "sprintf":
            return self.text_of(arguments, line)
        if name in ("paste", "paste0", "str", "substr", "c", "list", "range", "seq", "length", "len"):
            return lambda state: _text_or_list(name, [a(state) for a in arguments], line)
        function = _FUNCTIONS.get(name)
        if function is None:
            near = nearest(name, (*CALLS, *_FUNCTIONS))
            raise ScriptError(
                line,
                f"found the call {shortened(written)!r}, which is not one of PDQ's or of arithmetic{near}",
                "write the model as a YAML file (docs/networks.md), or take the call out",
            )
        return lambda state: _calculated(
            lambda: function(*(_numeric(a(state), line) for a in arguments)), name, line
        )

    def text_of(self, arguments: list[Expression], line: int) -> Expression:
        """A format with its places filled."""

        def text(state: State) -> Value:
            values = [a(state) for a in arguments]
            if not values or not isinstance(values[0], str):
                raise ScriptError(line, "sprintf was given no format, needed: a text in quotes")
            return _formatted(values[0], values[1:], line)

        return text

    def indexed(self, name: str, index: Expression, line: int) -> Expression:
        """An element of a list, or an argument of the script."""
        first = 0 if name in ("$ARGV", "ARGV") else 1
        if name in ("$ARGV", "ARGV", "argv", "sys.argv"):
            return lambda state: _argument(state, _whole(index(state), line) - first, line)
        lowest = 1 if self.language == "r" else 0
        name = list_name(name, self.language)

        def element(state: State) -> Value:
            values = _variable(state, name, line)
            at = _whole(index(state), line) - lowest
            if not isinstance(values, list) or not 0 <= at < len(values):
                raise ScriptError(line, f"{name}[{at + lowest}] is not there")
            return values[at]

        return element


def _joined(left: Expression, right: Expression, both: bool) -> Expression:
    if both:
        return lambda state: int(bool(left(state)) and bool(right(state)))
    return lambda state: int(bool(left(state)) or bool(right(state)))


def _applied(sign: str, left: Expression, right: Expression, line: int, language: Language) -> Expression:
    function = next((level[sign] for level in _BINARY if sign in level), math.pow)

    def applied(state: State) -> Value:
        a, b = left(state), right(state)
        if sign == "." or (sign == "+" and isinstance(a, str) and isinstance(b, str)):
            return _short(_shown(a) + _shown(b), line)
        if sign in ("==", "!=") and isinstance(a, str) and isinstance(b, str):
            return int(function(a, b))  # type: ignore[arg-type]
        x, y = _numeric(a, line), _numeric(b, line)
        if sign == "/" and language == "c" and isinstance(x, int) and isinstance(y, int) and y != 0:
            return int(x / y)  # C cuts the fraction off
        return _calculated(lambda: function(x, y), sign, line)

    return applied


def _calculated(calculate: Callable[[], float], what: str, line: int) -> float:
    try:
        value = calculate()
        if isinstance(value, complex) or not math.isfinite(value):
            raise ValueError("the result is no number")
    except (ValueError, ArithmeticError, TypeError) as problem:
        raise ScriptError(line, f"{what} cannot be calculated: {problem}") from None
    # Whole numbers that have grown beyond what a double holds exactly are doubles.
    return float(value) if abs(value) > 2**53 else int(value) if isinstance(value, bool) else value


def _literal(text: str) -> float | int:
    digits = text.rstrip("fFlL")
    value = float(digits)
    if not math.isfinite(value):
        value = math.inf
    return int(digits) if digits.isdecimal() and len(digits) < 16 and text[-1] not in "fF" else value


def _numeric(value: Value, line: int) -> float | int:
    if isinstance(value, (int, float)):
        return value
    if isinstance(value, str):
        try:
            number = int(value) if value.strip().lstrip("-").isdecimal() and len(value) < 16 else float(value)
            if math.isfinite(number):
                return number
        except ValueError:
            pass
    raise ScriptError(line, f"found {found(value)}, allowed: a number")


def _whole(value: Value, line: int) -> int:
    number = _numeric(value, line)
    if number != number or abs(number) > 2**53 or number != int(number):
        raise ScriptError(line, f"found {number:g}, allowed: a whole number")
    return int(number)


def _cast(value: Value, whole: bool, line: int) -> Value:
    number = _numeric(value, line)
    return _calculated(lambda: int(number) if whole else float(number), "a cast", line)


def assigned(state: State, name: str, value: Value, line: int) -> None:
    """Puts a value into a variable; one that C declared keeps its sort."""
    sort = state.sorts.get(name)
    if sort is not None and isinstance(value, (int, float)):
        value = _cast(value, sort in _WHOLE, line)
    state.variables[name] = value


def list_name(name: str, language: Language) -> str:
    """The list that an element is of: in Perl `$x[0]` is of `@x`."""
    return f"@{name[1:]}" if language == "perl" and name.startswith("$") else name


def put(state: State, name: str, at: int, value: Value, line: int) -> None:
    """Puts a value into an element of a list, which grows to hold it."""
    before = state.variables.get(name)
    values = before if isinstance(before, list) else []
    if not 0 <= at < MAX_LIST:
        raise ScriptError(line, f"found the element {at} of a list, allowed: 0 to {MAX_LIST - 1}")
    values.extend([0] * (at + 1 - len(values)))
    values[at] = value
    state.variables[name] = values


def _variable(state: State, name: str, line: int) -> Value:
    if name in state.variables:
        return state.variables[name]
    known = [*state.variables, *CONSTANTS]
    raise ScriptError(line, f"{shortened(name)} has no value here{nearest(name, known)}")


def _argument(state: State, index: Value, line: int, *, shift: bool = False) -> Value:
    at = _whole(index, line)
    if shift:
        state.variables["shift"] = at + 1
    if not 0 <= at < len(state.arguments):
        raise ScriptError(
            line,
            f"the script wants its argument {at + 1}, and was given {len(state.arguments)}",
            "give them after the file: iodyno model solve FILE ARGUMENT ...",
        )
    text = state.arguments[at]
    try:
        return _numeric(text, line)
    except ScriptError:
        return text


def _shown(value: Value) -> str:
    return f"{value:.15g}" if isinstance(value, float) else str(value)


def _short(text: str, line: int) -> str:
    if len(text) > MAX_TEXT:
        raise ScriptError(line, f"found a text of {len(text)} characters, allowed: {MAX_TEXT}")
    return text


def _interpolated(text: str, state: State, line: int) -> str:
    def value(match: re.Match[str]) -> str:
        return _shown(_variable(state, f"${match['bare'] or match['braced']}", line))

    return _short(re.sub(r"\$(?:(?P<bare>[A-Za-z_]\w*)|\{(?P<braced>[A-Za-z_]\w*)\})", value, text), line)


def _formatted(text: str, values: Sequence[Value], line: int) -> str:
    places = re.findall(r"%%|%[-+ 0]?\d{0,2}(?:\.\d{1,2})?[sdifeg]", text)
    if text.count("%") != sum(place.count("%") for place in places):
        raise ScriptError(line, f"found the format {shortened(text)!r}, allowed: %s, %d, %f, %e, %g")
    try:
        return _short(text.replace("%i", "%d") % tuple(values), line)
    except (TypeError, ValueError, OverflowError) as problem:
        raise ScriptError(line, f"the format {shortened(text)!r} does not fit: {problem}") from None


def _text_or_list(name: str, values: list[Value], line: int) -> Value:
    if not values:
        raise ScriptError(line, f"{name} was given nothing")
    if name in ("paste", "paste0", "str"):
        # In paste the texts are joined by its last argument, `sep`.
        joint, parts = ("", values) if name != "paste" else (_shown(values[-1]), values[:-1])
        several = next((part for part in parts if isinstance(part, list)), None)
        if several is None:
            return _short(joint.join(map(_shown, parts)), line)
        rows = ([each if isinstance(part, list) else part for part in parts] for each in several)
        return [_short(joint.join(map(_shown, row)), line) for row in rows]
    if name == "substr":
        if len(values) != 3:
            raise ScriptError(line, f"substr was given {len(values)} arguments, allowed: 3")
        begin, length = _whole(values[1], line), _whole(values[2], line)
        return _shown(values[0])[begin:][: max(length, 0)]
    if name in ("c", "list"):
        return [each for value in values for each in (value if isinstance(value, list) else [value])][
            :MAX_LIST
        ]
    if name in ("length", "len"):
        return len(values[0]) if isinstance(values[0], list) else 1
    numbers = [_numeric(value, line) for value in values]
    if name == "seq":
        low, high = (numbers[0], numbers[1]) if len(numbers) > 1 else (1, numbers[0])
        return counted(low, high, numbers[2] if len(numbers) > 2 else 1, line, closed=True)
    low, high = (0, numbers[0]) if len(numbers) == 1 else (numbers[0], numbers[1])
    return counted(low, high, numbers[2] if len(numbers) > 2 else 1, line, closed=False)


def counted(low: float, high: float, by: float, line: int, *, closed: bool) -> Value:
    """Numbers from `low` to `high`, which belongs to them when `closed`. Raises ScriptError for too many."""
    if by == 0 or not all(map(math.isfinite, (low, high, by))):
        raise ScriptError(line, "found a range that never ends")
    exact = (high - low) / by
    count = math.floor(exact * (1 + 1e-12)) + 1 if closed else math.ceil(exact)
    if count > MAX_LIST:
        raise ScriptError(line, f"found a range of {count} numbers, allowed: {MAX_LIST}")
    return [low + i * by for i in range(max(count, 0))]
