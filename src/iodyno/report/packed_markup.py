"""A page in as few bytes as say the same: space that no reader sees, end tags and quotes that HTML lets one leave out.

Half of a report's bytes are cells of tables, and of a cell's bytes half are its tags. What a browser makes of the page is the
same document, node by node, but for white space between blocks. Sources: HTML Living Standard, 13.1.2.4 "Optional tags" and
13.1.2.3 "Unquoted attribute value syntax".

minify-html (0.18.1) saves 6 % more and is not used: it alters scripts, which the page allows by their hash, writes `viewbox`, so
that a picture taken out of the page is no SVG any more, and is a compiled library of 18 MB in place of these lines.
"""

from __future__ import annotations

import re

_VERBATIM = r"<(?P<whole>pre|script|style|textarea)\b.*?</(?P=whole)>"
_TAG = r"<(?P<close>/?)(?P<name>[a-zA-Z][a-zA-Z0-9]*)(?P<rest>(?:[^>\"']|\"[^\"]*\"|'[^']*')*)>"
_PIECES = re.compile(rf"{_VERBATIM}|{_TAG}", re.DOTALL)
_SPACE = re.compile(r"[ \t\r\n]+")
_QUOTED = re.compile(r"=\"([^\s\"'=<>`]+)\"")
_OPTIONAL_ENDS = frozenset({"td", "th", "tr", "li", "dt", "dd"})
"""Elements whose end is implied by the beginning of the next one of their kind and by the end of what they lie in."""
_BLOCKS = frozenset(
    {
        "html", "head", "body", "meta", "link", "title", "section", "div", "p", "ul", "ol", "li", "dl", "dt", "dd", "details",
        "summary", "table", "thead", "tbody", "tr", "td", "th", "h1", "h2", "h3", "h4", "figure", "figcaption",
        "header", "main", "footer", "nav", "pre", "script", "style",
    }
)  # fmt: skip
"""Elements before and after which white space is not seen."""


def minified(markup: str) -> str:
    """The page's body without what makes no difference; contents of `pre`, scripts and styles, and the head, stay as they are.

    >>> minified('<body>\\n  <ul>\\n  <li class="a">one <b>two</b></li>\\n  <li>three</li></ul></body>')
    '<body><ul><li class=a>one <b>two</b><li>three</ul></body>'
    """
    start = max(0, markup.find("<body"))
    found: list[str] = [markup[:start]]
    at, before_block = start, False
    for piece in _PIECES.finditer(markup, start):
        whole, name = piece["whole"], (piece["name"] or piece["whole"]).lower()
        block = name in _BLOCKS
        text = _SPACE.sub(" ", markup[at : piece.start()])
        if before_block:
            text = text.removeprefix(" ")
        if block:
            text = text.removesuffix(" ")
        found.append(text)
        at, before_block = piece.end(), block
        if whole:
            found.append(piece[0])
        elif not (piece["close"] and name in _OPTIONAL_ENDS):
            found.append(f"<{piece['close']}{piece['name']}{_attributes(piece['rest'])}>")
    found.append(markup[at:])
    return "".join(found)


def _attributes(rest: str) -> str:
    """Attributes of a tag, without the quotes that are not needed; a value must not touch the slash of a closed tag."""
    closed = rest.endswith("/")
    body = _QUOTED.sub(r"=\1", rest[:-1] if closed else rest)
    if not closed:
        return body
    return f"{body} /" if body and rest[-2] == '"' and body[-1] != '"' else f"{body}/"
