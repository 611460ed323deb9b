"""Wilkinson and Rogers' notation of a model (1973): a formula's text to its terms.

    sum      = [sign] product {sign product}         sign = "+" | "-"
    product  = crossing {("*" | "/") crossing}
    crossing = power {":" power}
    power    = operand [("**" | "^") count]
    operand  = name | call "(" name ["**" count] ")" | "1" | "0" | "(" sum ")"
    call     = "log" | "log2" | "C" | "I"

`a*b` is `a + b + a:b`, `a/b` is `a + a:b`, `(a + b)**2` all products of two of them; `- a` takes a term out, `0` is `- 1`.

>>> [sorted(one.name for one in term) for term in terms_of("(a + b)**2 - b", ["a", "b"])]
[[], ['a'], ['a', 'b']]
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import product
from typing import NamedTuple


class Variable(NamedTuple):
    """A factor as a formula has it: its name alone, or in a call, there perhaps with a power."""

    name: str
    call: str = ""
    power: int = 1

    @property
    def text(self) -> str:
        """As it is written."""
        return (
            f"{self.call}({self.name}{f'**{self.power}' if self.power > 1 else ''})"
            if self.call
            else self.name
        )


class NotationError(ValueError):
    """A text that is no formula. `unknown`: names that no factor has; `term`: a call of something else than a factor."""

    def __init__(self, *, unknown: Sequence[str] = (), term: str = "") -> None:
        super().__init__(term or ", ".join(unknown))
        self.unknown = tuple(unknown)
        self.term = term


Term = tuple[Variable, ...]
"""Variables that are multiplied, each once; the empty term is the intercept."""
_Terms = dict[frozenset[Variable], Term]
"""A set of terms in the order in which they came: `a:b` and `b:a` are the same one."""


def terms_of(text: str, names: Sequence[str]) -> tuple[Term, ...]:
    """The terms of the right side of a formula, in the order of the text, the intercept before all where it was not taken out.

    Raises NotationError, and RecursionError for some hundred brackets in each other.
    """
    reader = _Reader(_tokens(text, names))
    found = reader.sum(_set(()))
    if reader.rest:
        raise NotationError
    return tuple(found.values())


def _tokens(text: str, names: Sequence[str]) -> list[str | Variable]:
    # The longest first: names may begin with others, and hold blanks.
    known = "|".join(re.escape(name) for name in sorted(names, key=len, reverse=True))
    pattern = re.compile(
        rf"\s*(?:(?P<call>(?:log2?|C|I)(?=\s*\())|(?P<name>(?:{known})(?![\w.]))|(?P<unknown>[^\W\d][\w.]*)"
        r"|(?P<sign>\*\*|[-+:*/^()]|\d+)|$)"
    )
    found: list[str | Variable] = []
    unknown: list[str] = []
    at = 0
    while at < len(text):
        match = pattern.match(text, at)
        if match is None:
            raise NotationError(unknown=unknown)
        at = match.end()
        if match["name"]:
            found.append(Variable(match["name"]))
        elif match["unknown"]:
            unknown.append(match["unknown"])
        elif match["call"] or match["sign"]:
            found.append(match[0].strip())
    if unknown:
        raise NotationError(unknown=sorted(set(unknown)))
    return found


def _set(*terms: Term) -> _Terms:
    found: _Terms = {}
    for term in terms:
        found.setdefault(frozenset(term), tuple(dict.fromkeys(term)))
    return found


def _joined(*sets: _Terms) -> _Terms:
    return _set(*(term for one in sets for term in one.values()))


def _less(terms: _Terms, others: _Terms) -> _Terms:
    return {key: term for key, term in terms.items() if key not in others}


def _crossed(left: _Terms, right: _Terms) -> _Terms:
    return _set(*(a + b for a, b in product(left.values(), right.values())))


class _Reader:
    """Takes tokens from the front, by one method a rule of the grammar."""

    def __init__(self, tokens: Sequence[str | Variable]) -> None:
        self.rest = list(reversed(tokens))

    def sum(self, found: _Terms) -> _Terms:
        """Read a sum and return `found` with its terms added and taken out."""
        sign = self._take("+", "-") or "+"
        while sign:
            # The sign before a sign, as in `a + -1`, turns it.
            while again := self._take("+", "-"):
                sign = "+" if sign == again else "-"
            if self._take("0"):
                terms, sign = _set(()), "+" if sign == "-" else "-"
            else:
                terms = self._product()
            found = _joined(found, terms) if sign == "+" else _less(found, terms)
            sign = self._take("+", "-")
        return found

    def _product(self) -> _Terms:
        found = self._crossing()
        while sign := self._take("*", "/"):
            right = self._crossing()
            if sign == "*":
                found = _joined(found, right, _crossed(found, right))
            else:
                found = _joined(found, _crossed(_set(sum(found.values(), ())), right))
        return found

    def _crossing(self) -> _Terms:
        found = self._power()
        while self._take(":"):
            found = _crossed(found, self._power())
        return found

    def _power(self) -> _Terms:
        base = self._operand()
        if not self._take("**", "^"):
            return base
        found = base
        # More factors than there are terms make no product anew.
        for _ in range(min(self._count(), len(base)) - 1):
            found = _crossed(found, base)
        return found

    def _operand(self) -> _Terms:
        token = self.rest.pop() if self.rest else ""
        if isinstance(token, Variable):
            return _set((token,))
        if token == "1":
            return _set(())
        if token == "(":
            found = self.sum({})
        elif token in ("log", "log2", "C", "I"):
            found = _set((self._called(token),))
        else:
            raise NotationError
        if not self._take(")"):
            raise NotationError
        return found

    def _called(self, call: str) -> Variable:
        self._take("(")
        inside = self.rest.pop() if self.rest else ""
        power = self._count() if self._take("**") else 1
        if not isinstance(inside, Variable) or self.rest[-1:] != [")"]:
            raise NotationError(term=f"{call}(...)")
        return inside._replace(call=call, power=power)

    def _count(self) -> int:
        token = self.rest.pop() if self.rest else ""
        if isinstance(token, Variable) or not token.isdecimal() or int(token) < 1:
            raise NotationError
        return int(token)

    def _take(self, *signs: str) -> str:
        """The next token where it is one of these; else empty."""
        if self.rest and self.rest[-1] in signs:
            return str(self.rest.pop())
        return ""
