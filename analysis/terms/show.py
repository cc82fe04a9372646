"""Terms as text for people; no decision depends on it."""

from __future__ import annotations

from collections.abc import Iterable

from .term import CallTerm, Const, Fold, Int, Later, Load, Reduce, Term, Var

_INFIX = {"add": "+", "sub": "-", "mul": "*", "div": "/", "floordiv": "//", "lt": "<", "le": "<="}

#: The most sub-terms before an ellipsis; a shared term is written at each use.
NODES = 2000


def show(t: Term) -> str:
    """Return the term in infix notation, shortened if it is long."""
    return _Writer().text(t)


def reason(t: Term) -> str:
    """Return the term as text that is the same in every run.

    Loop variables are numbered in order of occurrence: their own numbers differ between processes.
    """
    return _Writer({}).text(t)


class _Writer:
    def __init__(self, loops: dict[Var, str] | None = None) -> None:
        self.left = NODES
        self.loops = loops

    def name(self, v: Var) -> str:
        if self.loops is None or v.kind != "loop":
            return v.name
        return self.loops.setdefault(v, f"{v.name.rstrip('0123456789')}{len(self.loops)}")

    def text(self, t: Term) -> str:
        self.left -= 1
        if self.left < 0:
            return "…"
        if isinstance(t, Var):
            return self.name(t)
        if isinstance(t, Const):
            return str(t.value)
        if isinstance(t, Int):
            return self.polynomial(t)
        if isinstance(t, Load):
            return f"{t.tensor.name}[{self.several(t.indices)}]"
        if isinstance(t, Reduce):
            return f"{t.op}_{{{self.axes(t.axes)}}}({self.text(t.body)}; {self.text(t.init)})"
        if isinstance(t, Fold):
            steps = zip(t.states, t.inits, t.updates, strict=True)
            rows = (f"{s.op} = {self.text(x)} then {self.text(u)}" for s, x, u in steps)
            return f"fold_{{{self.axes((t.axis,))}}}({'; '.join(rows)})"
        assert isinstance(t, CallTerm)
        return self.call(t)

    def several(self, terms: Iterable[Term]) -> str:
        return ", ".join(map(self.text, terms))

    def axes(self, axes: Iterable[Var]) -> str:
        return ", ".join(
            f"{self.name(a)}<{'' if a.extent is None else self.text(a.extent)}" for a in axes
        )

    def call(self, t: CallTerm) -> str:
        if not t.args:
            return t.op
        if t.op == "ite":
            yes, condition, no = (self.text(t.args[k]) for k in (1, 0, 2))
            return f"({yes} if {condition} else {no})"
        if t.op in ("ge0", "eq0"):
            return f"{self.text(t.args[0])} {'>=' if t.op == 'ge0' else '=='} 0"
        if t.op in ("and", "or"):
            return "(" + f" {t.op} ".join(map(self.text, t.args)) + ")"
        if t.op in _INFIX:
            return f"({self.text(t.args[0])} {_INFIX[t.op]} {self.text(t.args[1])})"
        dtype = f":{t.dtype}" if t.op == "cast" else ""
        return f"{t.op}{dtype}({self.several(t.args)})"

    def polynomial(self, p: Int) -> str:
        if not p.terms:
            return "0"
        out = ""
        for mono, coef in sorted(p.terms, key=lambda t: -len(t[0])):
            body = "*".join(map(self.text, mono))
            sign = " - " if coef < 0 else " + " if out else ""
            if coef < 0 and not out:
                sign = "-"
            factor = "" if abs(coef) == 1 and mono else str(abs(coef)) + ("*" if mono else "")
            out += f"{sign}{factor}{body}"
        return out


Later.show = show
