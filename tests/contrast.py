"""How well a colour is read on another, as WCAG 2.2 has it."""

from __future__ import annotations


def contrast(one: list[float], other: list[float]) -> float:
    """Of two colours of red, green and blue from 0 to 255: from 1, none, to 21."""

    def luminance(colour: list[float]) -> float:
        linear = [
            c / 255 / 12.92 if c / 255 <= 0.03928 else ((c / 255 + 0.055) / 1.055) ** 2.4 for c in colour
        ]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)
