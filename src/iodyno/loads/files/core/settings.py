"""Values of a personality's variables: written in it, told by an option, a factor or the environment."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping

from iodyno.loads.files.core.bound import Law, Use
from iodyno.loads.files.core.values import Arithmetic, Expression, Joined, Literal, Place, Reference, Scalar

_NUMBER = re.compile(r"(-?\d{1,18}(?:\.\d{1,9})?)\s*(?:([kKmMgGtT])(?:i?[bB])?|[bB])?")
_FACTORS = {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_OPERATORS: Mapping[str, Callable[[float, float], float]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "%": operator.mod,
}
MOST = 1 << 62


def setting(written: str) -> Scalar:
    """A value from outside, as a personality would write it: a number, true or false, else a text.

    >>> setting("64k"), setting("1MiB"), setting("true"), setting("/data"), setting("1.5")
    (65536, 1048576, True, '/data', 1.5)
    """
    text = written.strip()
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    match = _NUMBER.fullmatch(text)
    if match is None:
        return text
    factor = _FACTORS[match[2].lower()] if match[2] else 1
    if "." in match[1]:
        value = float(match[1]) * factor
        return int(value) if match[2] and value == int(value) else value
    return int(match[1]) * factor


class Variables:
    """The variables while a personality is gone through.

    `given` are values that win over what the personality sets; `outside` those that it finds where it sets none.
    """

    def __init__(self, given: Mapping[str, Scalar], outside: Mapping[str, str]) -> None:
        self.given = dict(given)
        self.outside = outside
        self.values: dict[str, Scalar] = dict(given)
        self.laws: dict[str, Law] = {}
        self.taken: dict[str, Scalar] = {}

    def set(self, name: str, value: Scalar | Use) -> None:
        """`set $name = value`, unless it is given."""
        if name in self.given:
            return
        if isinstance(value, Use):
            self.values.pop(name, None)
            self.laws[name] = self.laws[value.name]
            return
        self.laws.pop(name, None)
        self.values[name] = value

    def draw(self, name: str, law: Law) -> None:
        """`set $name = randvar(...)`, unless it is given."""
        if name not in self.given:
            self.values.pop(name, None)
            self.laws[name] = law

    def value(self, expression: Expression, local: Mapping[str, Scalar | Use] | None = None) -> Scalar | Use:
        """Evaluate an expression. Raises ExperimentError with its place."""
        if isinstance(expression, Literal):
            return expression.value
        if isinstance(expression, Reference):
            return self._looked_up(expression, local or {})
        if isinstance(expression, Joined):
            return "".join(_text(self.fixed(part, local), part.place) for part in expression.parts)
        return self._computed(expression, local)

    def fixed(self, expression: Expression, local: Mapping[str, Scalar | Use] | None = None) -> Scalar:
        """The same, of what may not be drawn."""
        value = self.value(expression, local)
        if isinstance(value, Use):
            raise expression.place.error(
                f"${value.name} is drawn at each use, allowed here: one value",
                f"set ${value.name} to a number",
            )
        return value

    def _looked_up(self, reference: Reference, local: Mapping[str, Scalar | Use]) -> Scalar | Use:
        name = reference.name
        if name in local:
            return local[name]
        if name in self.values:
            return self.values[name]
        if name in self.laws:
            return Use(name)
        if name in self.outside:
            value = setting(self.outside[name])
            self.taken[name] = value
            return value
        known = [*local, *self.values, *self.laws]
        allowed = ", ".join(f"${each}" for each in known[:12]) or "none yet"
        raise reference.place.error(
            f"the variable ${name} has no value; those that have one: {allowed}",
            f"--set {name}=VALUE, or `set ${name} = VALUE` before it",
        )

    def _computed(self, expression: Arithmetic, local: Mapping[str, Scalar | Use] | None) -> Scalar:
        left, right = (_number(self.fixed(side, local)) for side in (expression.left, expression.right))
        if expression.operator == "/" and isinstance(left, str):
            return f"{left}/{right}"
        for value, part in ((left, expression.left), (right, expression.right)):
            if isinstance(value, (str, bool)):
                raise part.place.error(
                    f"invalid value: {value!r} beside {expression.operator}; expected numbers"
                )
        assert not isinstance(left, str)
        assert not isinstance(right, str)
        if expression.operator in "/%" and right == 0:
            raise expression.place.error("a division by 0; expected any other number")
        if expression.operator == "/":
            # Whole numbers stay whole where they can, as entries and threads are counted.
            exact = isinstance(left, int) and isinstance(right, int) and left % right == 0
            result: float = left // right if exact else left / right
        else:
            result = _OPERATORS[expression.operator](left, right)
        if abs(result) > MOST:
            raise expression.place.error("the result is larger than 2^62; expected smaller numbers")
        return result


def _number(value: Scalar) -> Scalar:
    """Read a value from outside, which is a text until it is known what it is for."""
    read = setting(value) if isinstance(value, str) else value
    return value if isinstance(read, (bool, str)) else read


def _text(value: Scalar, place: Place) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
