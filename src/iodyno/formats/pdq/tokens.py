"""The words of a script: one stream for four languages, with braces where Python has indentation."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from iodyno.formats.mistakes import shortened

Language = Literal["c", "perl", "python", "r"]
Sort = Literal["number", "text", "name", "sign", "end"]

MAX_TOKENS = 50_000
"""Chosen: far above any model that a person wrote."""


class ScriptError(Exception):
    """What is wrong in a line of the script."""

    def __init__(self, line: int, what: str, advice: str = "") -> None:
        super().__init__(what)
        self.line, self.what, self.advice = line, what, advice


@dataclass(frozen=True)
class Token:
    """A word with its line, counted from 1. `quote` is what a text stood in."""

    sort: Sort
    text: str
    line: int
    quote: str = ""


_NAMES = {
    "c": r"[A-Za-z_]\w*",
    "perl": r"[$@]?[A-Za-z_]\w*(?:::\w+)*",
    "python": r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*",
    "r": r"[A-Za-z][\w.]*(?:::\w+)?",
}
_COMMENTS = {"c": r"//[^\n]*|/\*.*?\*/", "perl": r"\#[^\n]*", "python": r"\#[^\n]*", "r": r"\#[^\n]*"}
_TEXT = "|".join(
    (
        r'"""(?P<doc>.*?)"""',
        r'"(?P<double>(?:[^"\\\n]|\\.)*)"',
        r"'(?P<single>(?:[^'\\\n]|\\.)*)'",
        "[“”](?P<curly>[^“”\n]*)[“”]",
        "[‘’](?P<curly_single>[^‘’\n]*)[‘’]",
    )
)
_SIGNS = {
    "c": r"\+\+|--|[-+*/]=|[<>=!]=|&&|\|\||[-+*/%<>=!&(){}\[\],;:.?]",
    "perl": r"\+\+|--|\*\*|\.\.|[-+*/.]=|[<>=!]=|&&|\|\||[-+*/%<>=!&(){}\[\],;:.?]",
    "python": r"\*\*|//|[-+*/]=|[<>=!]=|[-+*/%<>=(){}\[\],;:]",
    "r": r"<-|%%|%/%|[<>=!]=|&&|\|\||[-+*/^<>=!(){}\[\],;:]",
}
_NUMBER = r"(?:\d+\.?(?!\.)\d*|\d+(?=\.\.)|\.\d+)(?:[eE][-+]?\d+)?[fFlL]?"


def _pattern(language: Language) -> re.Pattern[str]:
    return re.compile(
        rf"(?P<space>[^\S\n]+|\\\n)|(?P<newline>\n)|(?P<comment>{_COMMENTS[language]})"
        rf"|(?P<number>{_NUMBER})(?![A-Za-z_])|(?P<text>{_TEXT})|(?P<name>{_NAMES[language]})|(?P<sign>{_SIGNS[language]})",
        re.DOTALL,
    )


_PATTERNS: dict[Language, re.Pattern[str]] = {
    "c": _pattern("c"),
    "perl": _pattern("perl"),
    "python": _pattern("python"),
    "r": _pattern("r"),
}


def language_of(text: str) -> Language:
    """The language of a script that calls PDQ, by what each has alone."""
    if re.search(r"PDQ_\w+\s*\(|^\s*#\s*include\b", text, re.MULTILINE):
        return "c"
    if re.search(r"^\s*use\s+pdq\b|^\s*(?:my\s+)?\$[\w:]+\s*=|\$pdq::", text, re.MULTILINE):
        return "perl"
    if re.search(r"\bpdq\.\w+|^\s*(?:from|import)\s+pdq\b", text, re.MULTILINE):
        return "python"
    return "r"


def tokens(text: str, language: Language) -> list[Token]:
    """The words of the script. Raises ScriptError for a character that none of them begins with."""
    if language == "c":
        text = _defines(text)
    found: list[Token] = []
    pattern = _PATTERNS[language]
    at, line, depth = 0, 1, 0
    indents = [0]
    fresh = language == "python"  # at the beginning of a line, where indentation counts
    while at < len(text):
        if fresh:
            fresh = False
            line_text = text[at : (text + "\n").index("\n", at)]
            if line_text.strip() and not line_text.lstrip().startswith("#"):
                _indentation(found, indents, line_text, line)
        match = pattern.match(text, at)
        if match is None:
            raise ScriptError(
                line, f"found {shortened(text[at : at + 20].splitlines()[0])!r}, which cannot be read"
            )
        sort, word = match.lastgroup, match.group()
        if match["text"] is not None:
            quote = '"' if word[0] in '"“”' else "'"
            inner = next(v for k, v in match.groupdict().items() if k in _QUOTES and v is not None)
            found.append(Token("text", _unescaped(inner, quote, language), line, quote))
        elif sort == "number":
            found.append(Token("number", word, line))
        elif sort == "name":
            found.append(Token("name", word, line))
        elif sort == "sign":
            depth += (word in "([") - (word in ")]")
            found.append(Token("sign", word, line))
        elif sort == "newline":
            if language == "python":
                fresh = depth <= 0
            ends = depth <= 0 and language in ("python", "r")
            # In R a line that ends in a sign goes on in the next.
            open_ended = bool(found) and found[-1].sort == "sign" and found[-1].text not in (")", "]", "}")
            if ends and found and found[-1].text not in (";", "{") and not (language == "r" and open_ended):
                found.append(Token("sign", ";", line))
        line += word.count("\n")
        at = match.end()
        if len(found) > MAX_TOKENS:
            raise ScriptError(line, f"found more than {MAX_TOKENS} words, allowed: {MAX_TOKENS}")
    if language in ("python", "r"):
        found.append(Token("sign", ";", line))
    found += [Token("sign", "}", line)] * (len(indents) - 1)
    found.append(Token("end", "", line))
    return found


_QUOTES = ("doc", "double", "single", "curly", "curly_single")


def _indentation(found: list[Token], indents: list[int], line_text: str, line: int) -> None:
    width = len(line_text.expandtabs(8)) - len(line_text.expandtabs(8).lstrip())
    if width > indents[-1]:
        indents.append(width)
        found.append(Token("sign", "{", line))
    while width < indents[-1]:
        indents.pop()
        found.append(Token("sign", "}", line))
    if width != indents[-1]:
        raise ScriptError(line, "the indentation is of no block above")


def _defines(text: str) -> str:
    """Lines for the preprocessor: `#define NAME value` is an assignment, others are left out."""

    lines = []
    for line in text.split("\n"):
        define = re.match(r"\s*#\s*define\s+([A-Za-z_]\w*)\s+([^/]*)", line)
        kept = "" if line.lstrip().startswith("#") else line
        lines.append(f"{define[1]} = {define[2]};" if define else kept)
    return "\n".join(lines)


def _unescaped(text: str, quote: str, language: Language) -> str:
    if quote == "'" and language == "perl":
        return text
    known = {"n": "\n", "t": "\t"}
    return re.sub(r"\\(.)", lambda m: known.get(m.group(1), m.group(1)), text, flags=re.DOTALL)
