"""Terms as text for people; nothing is ever decided on it."""

from __future__ import annotations

from .term import Call, Const, Fold, Int, Load, Reduce, Term, Var

_INFIX = {"add": "+", "sub": "-", "mul": "*", "div": "/", "floordiv": "//", "lt": "<", "le": "<="}


def show(t: Term) -> str:
    if isinstance(t, Var):
        return t.name
    if isinstance(t, Const):
        return str(t.value)
    if isinstance(t, Int):
        return _polynomial(t)
    if isinstance(t, Load):
        return f"{t.tensor.name}[{', '.join(map(show, t.indices))}]"
    if isinstance(t, Reduce):
        axes = ", ".join(f"{a.name}<{a.extent!r}" for a in t.axes)
        return f"{t.op}_{{{axes}}}({show(t.body)}; {show(t.init)})"
    if isinstance(t, Fold):
        steps = zip(t.states, t.inits, t.updates, strict=True)
        text = "; ".join(f"{s.op} = {show(x)} then {show(u)}" for s, x, u in steps)
        return f"fold_{{{t.axis.name}<{t.axis.extent!r}}}({text})"
    assert isinstance(t, Call)
    if not t.args:
        return t.op
    if t.op == "ite":
        return f"({show(t.args[1])} if {show(t.args[0])} else {show(t.args[2])})"
    if t.op in ("ge0", "eq0"):
        return f"{show(t.args[0])} {'>=' if t.op == 'ge0' else '=='} 0"
    if t.op in ("and", "or"):
        return "(" + f" {t.op} ".join(map(show, t.args)) + ")"
    if t.op in _INFIX:
        return f"({show(t.args[0])} {_INFIX[t.op]} {show(t.args[1])})"
    dtype = f":{t.dtype}" if t.op == "cast" else ""
    return f"{t.op}{dtype}({', '.join(map(show, t.args))})"


def _polynomial(p: Int) -> str:
    if not p.terms:
        return "0"
    out = ""
    for mono, coef in sorted(p.terms, key=lambda t: -len(t[0])):
        body = "*".join(map(show, mono))
        sign = " - " if coef < 0 else " + " if out else ""
        if coef < 0 and not out:
            sign = "-"
        factor = "" if abs(coef) == 1 and mono else str(abs(coef)) + ("*" if mono else "")
        out += f"{sign}{factor}{body}"
    return out
