"""The conditions on sizes under which an exported program is valid.

`torch.export` records the branch that its example took. `if x.shape[0] % 2 == 0` becomes a guard:
a line of Python in the program (`(L['x'].size()[0] % 2) == 0`), or an assertion in its graph. torch
checks both before it computes, TVM's importer drops both. The lines come from a file: they are read
by a parser of integer arithmetic and comparisons, and never evaluated.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...checks.error import FrontendError, shortened
from ...checks.input_shapes import Shapes
from .torch_extents import may_equal, requested_extents, size_expression, solve, symbolic_inputs
from .torch_sources import SourceError, input_sources, parse

#: Nodes that stop a program unless their first operand is true.
_ASSERTIONS = ("_assert_scalar.default", "_check")
#: The most characters of a guard in a message: whole, but a file may have any number.
_SHOWN = 1000


@dataclass(frozen=True)
class Guard:
    """A condition on the symbolic sizes of a program's inputs.

    Attributes:
        text: The condition for people.
        condition: The condition of sympy; None if it has more than arithmetic and comparisons.
        symbols: The symbols of sympy that it mentions; of an unread guard, those that it may.
    """

    text: str
    condition: Any
    symbols: frozenset[Any]


def read_guards(program: Any, lines: Sequence[str]) -> tuple[Guard, ...]:
    """Return the conditions on the symbolic sizes of the inputs.

    Args:
        program: A `torch.export.ExportedProgram`.
        lines: The program's guards as lines of Python.
    """
    dims = _dims(symbolic_inputs(program))
    symbols = frozenset().union(*(dim.free_symbols for dim in dims.values()))
    if not symbols:
        return ()
    names = {dim: name for name, dim in reversed(dims.items()) if dim.is_Symbol}
    sources = input_sources(program)
    guards = [_from_line(line, sources, symbols, names) for line in lines]
    conditions = map(_asserted, program.graph.nodes)
    guards += [_guard(c, names) for c in conditions if c is not None and c.free_symbols <= symbols]
    return tuple(guard for guard in guards if guard.symbols and guard.condition is not True)


def check_request(program: Any, guards: Sequence[Guard], shapes: Shapes) -> None:
    """Check the requested extents against derived dimensions and guards.

    Raises:
        FrontendError: A derived dimension such as `2 * n` has another extent, the extents violate
            a guard, or they decide a size in a guard that was not read.
    """
    requested = requested_extents(symbolic_inputs(program), shapes)
    sizes = solve([(expr, extent) for _, _, expr, extent in requested])
    for name, axis, expr, extent in requested:
        if not expr.is_Symbol and not may_equal(expr.subs(sizes), extent):
            where = _known(expr.free_symbols, requested)
            raise FrontendError(f"input '{name}': dimension {axis} is {expr} in the model{where}, "
                                f"got {extent}")  # fmt: skip
    shown = "; ".join(f"{name}: {', '.join(map(str, shapes[name]))}"
                      for name in dict.fromkeys(name for name, *_ in requested))  # fmt: skip
    for guard in guards:
        if guard.condition is None and guard.symbols & sizes.keys():
            raise FrontendError(f"the model's guard {guard.text} on sizes cannot be checked for "
                                f"{shown}; leave the sizes symbolic, or export the model with "
                                "them")  # fmt: skip
        if guard.condition is not None and not _may_hold(guard.condition, sizes):
            raise FrontendError(f"the model was exported for sizes with {guard.text}, got {shown}; "
                                "request other sizes, or export the model with these")  # fmt: skip


def unchecked(guard: Guard) -> str:
    """Return a note on a guard that a compiled program does not check."""
    return f"the guard {guard.text} on sizes is not checked; torch refuses sizes that violate it"


def _may_hold(condition: Any, sizes: Mapping[Any, int]) -> bool:
    try:
        return bool(condition.subs(sizes) != False)  # noqa: E712  sympy's false
    except ZeroDivisionError:
        return False  # torch divides as well


def _known(symbols: Any, requested: Sequence[tuple[str, int, Any, int]]) -> str:
    """Return the extents of symbols that are dimensions by themselves."""
    plain = {str(expr): extent for _, _, expr, extent in requested if expr in symbols}
    return "".join(f", where {name} is {extent}" for name, extent in plain.items())


def _dims(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the sizes of inputs of sympy, by the names that messages give them."""
    out: dict[str, Any] = {}
    for name, node in inputs.items():
        value = node.meta["val"]
        if hasattr(value, "shape"):
            sizes = enumerate(map(size_expression, value.shape))
            out |= {f"{name}.shape[{axis}]": size for axis, size in sizes}
        else:
            out[name] = size_expression(value)
    return out


def _from_line(line: str, sources: Mapping[Any, Any], symbols: Any, names: Any) -> Guard:
    shown = shortened(line.replace("\n", " "), _SHOWN)
    try:
        return _guard(parse(line, sources), names)
    except SourceError as error:
        return Guard(shown, None, frozenset(error.symbols or symbols))


def _asserted(node: Any) -> Any:
    """Return the condition of sympy that a node asserts; None for another node, or on tensors."""
    if node.op != "call_function" or getattr(node.target, "__name__", "") not in _ASSERTIONS:
        return None
    value = getattr(node.args[0], "meta", {}).get("val") if node.args else None
    return getattr(getattr(value, "node", None), "expr", None)


def _guard(condition: Any, names: Mapping[Any, str]) -> Guard:
    import sympy  # type: ignore[import-untyped]
    from torch.utils._sympy.printers import PythonPrinter

    symbols = frozenset(condition.free_symbols)
    if condition == True or condition == False:  # noqa: E712  booleans of sympy
        return Guard(str(condition), bool(condition), symbols)
    named = condition.xreplace({s: sympy.Symbol(n, integer=True) for s, n in names.items()})
    return Guard(shortened(PythonPrinter().doprint(named), _SHOWN), condition, symbols)
