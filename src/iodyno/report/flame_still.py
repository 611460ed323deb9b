"""A flame graph as a picture: what stands in a report until its script draws the one that answers, and where no script runs.

Rows, colours and marks are those of `templates/flame_graph.js`; paths too narrow to be seen are left out with all that they call.
"""

from __future__ import annotations

import math
from html import escape

from markupsafe import Markup

from iodyno.analysis.call_tree import KINDS, CallTree, Node
from iodyno.report.function_tables import OWNER_WORDS, WHOLE_WORDS
from iodyno.report.numbers import digits

WIDTH, ROW = 1000.0, 19
_LEAST = 4.0
"""Units of width from which on a path is drawn (chosen: a pixel on a phone; it is 0.4 % of the whole)."""
_LETTER = 6.9
"""Width of a letter of the graph's font."""
_RISES = ("#fee0b6", "#fdb863", "#e08214", "#b35806")
_FALLS = ("#d8daeb", "#b2abd2", "#8073ac", "#542788")
"""A diverging scale without red and green (PuOr of ColorBrewer): orange rises, purple falls."""
_SAME = "#e3e6e8"


def still(title: str, tree: CallTree) -> Markup:
    """The SVG of a tree: widths are costs at the point, colours say whose code it is or, of two points, what changed."""
    root = tree.nodes[0]
    scale = WIDTH / root.ns_per_kib if root.ns_per_kib > 0 else 0.0
    # By depth: where the next node begins there. A node that is left out hides all that is deeper and comes next.
    begins, hidden, deepest = [0.0], math.inf, 0
    parts = []
    for node in tree.nodes:
        del begins[node.depth + 1 :]
        if node.depth > hidden:
            continue
        hidden = math.inf
        left, width = begins[node.depth], node.ns_per_kib * scale
        begins[node.depth] += width
        if width < _LEAST:
            hidden = node.depth
            continue
        begins.append(left)
        deepest = max(deepest, node.depth)
        parts.append(_box(node, left, width, root.ns_per_kib, tree))
    label = escape(f"flame graph, {title}; the table holds the costliest functions", quote=True)
    return Markup(  # Drawn by us from escaped text.
        f'<svg class="flame-svg still" viewBox="0 0 {WIDTH:.0f} {(deepest + 1) * ROW}" role="img" aria-label="{label}">'
        f"{''.join(parts)}</svg>"
    )


def _box(node: Node, left: float, width: float, whole: float, tree: CallTree) -> str:
    two, per, all_of = tree.samples[1] > 0, tree.per, WHOLE_WORDS[tree.reach]
    name = (
        node.function.name if node.function is not None else OWNER_WORDS[node.owner] if node.depth else all_of
    )
    look, mark, ink = f' class="k{KINDS.index(node.kind)}"', "", ""
    caption = f"{name}: {digits(node.ns_per_kib)} ns/{per}, {100 * node.ns_per_kib / whole:.1f} %"
    fill = ""
    if two:
        look, caption = "", f"{name}: A {digits(node.before)}, B {digits(node.ns_per_kib)} ns/{per}"
        colour, mark, white = _change(node)
        fill, ink = f' fill="{colour}"', ' fill="#ffffff"' if white else ""
    letters = int((width - 7) / _LETTER)
    shown = mark + name
    shown = shown if len(shown) <= letters else f"{shown[: letters - 1]}…"
    y = node.depth * ROW
    text = f'<text x="{left + 4:.0f}" y="{y + 13}"{ink}>{escape(shown)}</text>' if letters >= 3 else ""
    box = f'<rect x="{left:.1f}" y="{y}" width="{width - 0.6:.1f}" height="{ROW - 1}"{fill}/>'
    return f"<g{look}><title>{escape(caption)}</title>{box}{text}</g>"


def _change(node: Node) -> tuple[str, str, bool]:
    """Colour, mark and whether the text is white: coloured only where the change is beyond noise."""
    if node.verdict == "unchanged":
        return _SAME, "", False
    rises = node.verdict == "rises"
    low, high = sorted((node.before, node.ns_per_kib))
    step = min(3, int(math.log2(high / low) / 0.75)) if low > 0 else 3
    return (_RISES if rises else _FALLS)[step], "▲ " if rises else "▼ ", step > (2 if rises else 1)
