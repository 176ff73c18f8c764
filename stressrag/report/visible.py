"""Foreign text made harmless to look at: cut, and with every invisible character shown."""

from __future__ import annotations

import unicodedata

SHORT, LONG = 120, 300
_HIDDEN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
_BLANK = "\t\n\r\x0b\x0c"


def visible(value: object, limit: int = SHORT) -> str:
    """A text on one line, with controls as ``[U+202E]``; the cut is told.

    Parameters
    ----------
    value : object
        Anything; its ``str`` is shown.
    limit : int
        Characters kept of it. What is shown has at most twice as many.
    """
    text = str(value)
    out: list[str] = []
    length = kept = 0
    for sign in text[:limit]:
        shown = _shown(sign)
        if length + len(shown) > 2 * limit:
            break
        out.append(shown)
        length += len(shown)
        kept += 1
    if kept == len(text):
        return "".join(out)
    return f"{''.join(out)}… (the first {kept:,} of {len(text):,} characters)"


def _shown(sign: str) -> str:
    if sign in _BLANK:
        return " "
    # The second range holds variation selectors, which can carry bytes that no one sees.
    if unicodedata.category(sign) in _HIDDEN or 0xE0100 <= ord(sign) <= 0xE01EF:
        return f"[U+{ord(sign):04X}]"
    return sign
