"""Wilkinson and Rogers' notation: every operator by what it stands for, and what is no formula."""

from __future__ import annotations

import pytest

from iodyno.analysis.cost_model.notation import NotationError, Variable, terms_of

NAMES = ["a", "b", "c", "server.mtu", "a b"]


def read(text: str) -> list[str]:
    return [":".join(one.text for one in term) or "1" for term in terms_of(text, NAMES)]


@pytest.mark.parametrize(
    ("short", "long"),
    [
        ("a", "1 + a"),
        ("a*b", "a + b + a:b"),
        ("a*b*c", "a + b + a:b + c + a:c + b:c + a:b:c"),
        ("(a + b + c)**2", "a + a:b + a:c + b + b:c + c"),
        ("(a + b + c)^2", "(a + b + c)**2"),
        ("(a + b)**9", "a*b"),
        ("(a + b):c", "a:c + b:c"),
        ("a/b", "a + a:b"),
        ("(a + b)/c", "a + b + a:b:c"),
        ("a:a", "a"),
        ("a + b + a", "a + b"),
        ("a:b + b:a", "a:b"),
        ("a*b - a:b", "a + b"),
        ("a*b - b:a", "a + b"),
        ("a - (a + b) + c", "c"),
        ("0 + a", "a - 1"),
        ("-1 + a", "a + 0"),
        ("a + -1", "a - 1"),
        ("a - 0", "a + 1"),
        ("a*b:c", "a + b:c + a:b:c"),
        ("a:b**2", "a:b"),
        ("server.mtu + a b:a", "server.mtu + (a b):a"),
    ],
)
def test_what_is_short_for_what(short: str, long: str) -> None:
    assert set(read(short)) == set(read(long))


def test_terms_stand_in_the_order_of_the_text() -> None:
    assert read("c + b:a + a") == ["1", "c", "b:a", "a"]
    assert read("0 + b*a") == ["b", "a", "b:a"]


def test_a_call_takes_a_factor_and_a_power() -> None:
    assert terms_of("0 + log(a) + log2 ( b ) + C(server.mtu) + I(c ** 2)", NAMES) == (
        (Variable("a", "log"),),
        (Variable("b", "log2"),),
        (Variable("server.mtu", "C"),),
        (Variable("c", "I", 2),),
    )
    assert read("I(c**2):a") == ["1", "I(c**2):a"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "a +",
        "+",
        "* a",
        "a b c",
        "a**",
        "a**0",
        "a**b",
        "a**1.5",
        "(a",
        "a)",
        "()",
        "2",
        "2*a",
        "a | b",
        "a:",
        "'a'",
        "a ~ b",
    ],
)
def test_what_is_no_formula(text: str) -> None:
    with pytest.raises(NotationError) as error:
        terms_of(text, NAMES)
    assert error.value.unknown in ((), ("c",)) and not error.value.term


def test_names_and_calls_that_are_not_known_are_told() -> None:
    with pytest.raises(NotationError) as error:
        terms_of("a + d*log(e) + ab | 3", NAMES)
    assert error.value.unknown == ("d", "e", "ab")
    for text in ("log(a + b)", "I(2*a)", "C()", "log(", "I(a)**2 + I(a*b)"):
        with pytest.raises(NotationError) as error:
            terms_of(text, NAMES)
        assert error.value.term
