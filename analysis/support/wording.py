"""Text for people."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def plural(count: int, noun: str) -> str:
    """Return a number with its noun.

    >>> plural(1, "region"), plural(1200, "call site"), plural(2, "branch"), plural(3, "copy")
    ('1 region', '1,200 call sites', '2 branches', '3 copies')
    """
    return f"{count:,} {noun if count == 1 else _many(noun)}"


def _many(noun: str) -> str:
    if noun.endswith("y") and noun[-2] not in "aeiou":
        return f"{noun[:-1]}ies"
    return f"{noun}es" if noun.endswith(("s", "x", "ch", "sh")) else f"{noun}s"


def last_line(error: BaseException) -> str:
    """Return the last line of an error of TVM: it says why, the lines before it say where.

    >>> last_line(ValueError("in f:\\n  x is 0\\n")), last_line(KeyError())
    ('x is 0', 'KeyError')
    """
    return (str(error).strip() or type(error).__name__).splitlines()[-1].strip()


def did_you_mean(name: object, names: Iterable[object], most: int = 1) -> str:
    """Return the end of an error about an unknown name: which known ones are spelled like it.

    >>> did_you_mean("onedn", ["blas", "onednn"]), did_you_mean("x", ["blas", "onednn"])
    ("; did you mean 'onednn'?", '')
    """
    known = list(dict.fromkeys(map(str, names)))
    lower = {text.lower(): text for text in reversed(known)}
    near = difflib.get_close_matches(str(name).lower(), list(lower), most)
    return f"; did you mean {' or '.join(repr(lower[text]) for text in near)}?" if near else ""


def faster(before: float, after: float) -> str:
    """Return how a time has changed, as text.

    >>> faster(27.4, 1), faster(2.34, 1), faster(1, 1.5), faster(1, 1.01)
    ('27x faster', '2.3x faster', '1.5x slower', 'as fast')
    """
    if not 0 < before < float("inf") or not 0 < after < float("inf"):
        return ""
    ratio, word = (before / after, "faster") if before > after else (after / before, "slower")
    if ratio < 1.05:
        return "as fast"
    return f"{ratio:.{0 if ratio >= 9.95 else 1}f}x {word}"
