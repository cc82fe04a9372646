"""Terms as text for people; no decision depends on it."""

from __future__ import annotations

from collections.abc import Iterable

from .term import CallTerm, Const, Fold, Int, Later, Load, Reduce, Term, Var

_INFIX = {"add": "+", "sub": "-", "mul": "*", "div": "/", "floordiv": "//", "lt": "<", "le": "<="}

#: The most sub-terms before an ellipsis; a shared term is written at each use.
NODES = 2000


def show(term: Term) -> str:
    """Return the term in infix notation, shortened if it is long."""
    return _TermPrinter().text(term)


def reason(term: Term) -> str:
    """Return the term as text that is the same in every run.

    Loop variables are numbered in order of occurrence: their own numbers differ between processes.
    """
    return _TermPrinter({}).text(term)


class _TermPrinter:
    """Writes a term as text, up to a number of nodes, with short names for loops."""

    def __init__(self, loops: dict[Var, str] | None = None) -> None:
        self.left = NODES
        self.loops = loops

    def name(self, var: Var) -> str:
        if self.loops is None or var.kind != "loop":
            return var.name
        return self.loops.setdefault(var, f"{var.name.rstrip('0123456789')}{len(self.loops)}")

    def text(self, term: Term) -> str:
        self.left -= 1
        if self.left < 0:
            return "…"
        if isinstance(term, Var):
            return self.name(term)
        if isinstance(term, Const):
            return str(term.value)
        if isinstance(term, Int):
            return self.polynomial(term)
        if isinstance(term, Load):
            return f"{term.tensor.name}[{self.several(term.indices)}]"
        if isinstance(term, Reduce):
            body, init = self.text(term.body), self.text(term.init)
            return f"{term.op}_{{{self.axes(term.axes)}}}({body}; {init})"
        if isinstance(term, Fold):
            steps = zip(term.states, term.inits, term.updates, strict=True)
            rows = (f"{s.op} = {self.text(x)} then {self.text(u)}" for s, x, u in steps)
            return f"fold_{{{self.axes((term.axis,))}}}({'; '.join(rows)})"
        assert isinstance(term, CallTerm)
        return self.call(term)

    def several(self, terms: Iterable[Term]) -> str:
        return ", ".join(map(self.text, terms))

    def axes(self, axes: Iterable[Var]) -> str:
        return ", ".join(
            f"{self.name(var)}<{'' if var.extent is None else self.text(var.extent)}"
            for var in axes
        )

    def call(self, call: CallTerm) -> str:
        if not call.args:
            return call.op
        if call.op == "ite":
            yes, condition, no = (self.text(call.args[k]) for k in (1, 0, 2))
            return f"({yes} if {condition} else {no})"
        if call.op in ("ge0", "eq0"):
            return f"{self.text(call.args[0])} {'>=' if call.op == 'ge0' else '=='} 0"
        if call.op in ("and", "or"):
            return "(" + f" {call.op} ".join(map(self.text, call.args)) + ")"
        if call.op in _INFIX:
            return f"({self.text(call.args[0])} {_INFIX[call.op]} {self.text(call.args[1])})"
        dtype = f":{call.dtype}" if call.op == "cast" else ""
        return f"{call.op}{dtype}({self.several(call.args)})"

    def polynomial(self, poly: Int) -> str:
        if not poly.terms:
            return "0"
        out = ""
        for mono, coef in sorted(poly.terms, key=lambda t: -len(t[0])):
            body = "*".join(map(self.text, mono))
            sign = " - " if coef < 0 else " + " if out else ""
            if coef < 0 and not out:
                sign = "-"
            factor = "" if abs(coef) == 1 and mono else str(abs(coef)) + ("*" if mono else "")
            out += f"{sign}{factor}{body}"
        return out


Later.show = show
