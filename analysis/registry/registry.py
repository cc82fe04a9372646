"""The registered recognisers.

A cached answer is valid for one `generation` of the registry. Whoever keeps answers forgets them
when the generation changes.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tvm.ir import Op

from ..proposal.call_op import NotBuilt, constructor
from ..support import plugins
from ..support.warn import warn
from ..support.wording import did_you_mean
from .built_in import identity, is_built_in, modules

if TYPE_CHECKING:
    from ..lifting.effects.tensor_expression import TensorExpression
    from ..proposal.proposal import Proposal
    from ..results.op_info import Refusal

    Recognise = Callable[[TensorExpression], Sequence[Proposal] | Refusal]


class RecogniserWarning(UserWarning):
    """A recogniser failed; the other recognisers still run."""


@dataclass(frozen=True)
class Recogniser:
    """A registered recogniser. Lower values of ``precedence`` run first.

    A ``rounded`` recogniser is only called for operators that are equal up to rounding, see
    `analysis.real`.
    """

    name: str
    precedence: int
    ops: tuple[str, ...]
    run: Recognise
    rounded: bool = False
    #: Whether the function belongs to this package; its proposals are not checked.
    built_in: bool = False
    #: Whether it is called for PrimFuncs that call extern functions, and for no others.
    externs: bool = False


_registered: dict[str, Recogniser] = {}
_exact: tuple[Recogniser, ...] = ()
_rounded: tuple[Recogniser, ...] = ()
_externs: tuple[Recogniser, ...] = ()
_loaded = False
#: Why plug-ins were left out; None until they are discovered.
_left_out: dict[plugins.Plugin, str] | None = None
_generation = 0


def recogniser(
    name: str,
    *,
    precedence: int,
    ops: Sequence[str],
    rounded: bool = False,
    externs: bool = False,
) -> Callable[[Recognise], Recognise]:
    """Register a recogniser, as a decorator; the next `op_info` call uses it.

    Registering a function again (the same module and qualified name, as in a notebook cell that is
    run twice) replaces it.

    Args:
        name: Identifies the recogniser in messages; unique.
        precedence: Lower values run first; unique in a package. If packages share a precedence,
            they run in the order of their names, opinfo last.
        ops: Full names of the operators that it may propose, such as ``relax.nn.relu``; empty for
            any.
        rounded: Call it only in the search for operators that are equal up to rounding.
        externs: Call it only for PrimFuncs that call known extern functions; the expression's
            `externs` has the calls.

    Returns:
        A decorator that returns the function unchanged.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: An operator does not exist, or another recogniser has the name or precedence.
    """

    def register(run: Recognise) -> Recognise:
        new = _checked(name, precedence, ops, run, rounded, externs)
        _replace({k: r for k, r in _registered.items() if k != name} | {name: new})
        return run

    return register


def unregister(name: str) -> None:
    """Remove a recogniser.

    Args:
        name: The name under which it was registered.

    Raises:
        ValueError: No recogniser has this name.
    """
    load_all()
    if name not in _registered:
        raise ValueError(f"unknown recogniser {name!r}{did_you_mean(name, _registered)}")
    _replace({k: r for k, r in _registered.items() if k != name})


@contextmanager
def recogniser_scope() -> Iterator[None]:
    """Undo, at the end of the block, every registration and removal of recognisers inside it.

    Yields:
        Nothing.
    """
    load_all()
    before = _registered
    try:
        yield
    finally:
        _replace(before)


def generation() -> int:
    """Return a number that changes whenever a recogniser is registered or removed."""
    return _generation


def registered(rounded: bool | None = None) -> tuple[Recogniser, ...]:
    """Return recognisers by precedence: all, only the ``rounded`` ones, or only the others."""
    load_all()
    if rounded is None:
        return tuple(_registered.values())
    return _rounded if rounded else _exact


def extern_recognisers() -> tuple[Recogniser, ...]:
    """Return the recognisers for PrimFuncs that call extern functions, by precedence."""
    load_all()
    return _externs


def load_built_in() -> None:
    """Register the recognisers of this package."""
    global _loaded
    if not _loaded:
        modules()
        _loaded = True


def load_all() -> None:
    """Register the recognisers of this package, then those of installed plug-ins."""
    global _left_out
    load_built_in()
    if _left_out is None:
        failures = {p: why for p in plugins.installed(plugins.RECOGNISERS) if (why := _load(p))}
        _left_out = failures


def left_out() -> dict[plugins.Plugin, str]:
    """Return the plug-ins that could not be loaded, with the reasons."""
    load_all()
    return dict(_left_out or {})


def _load(plugin: plugins.Plugin) -> str:
    """Import a plug-in, whose recognisers register themselves; return why it failed, else "".

    If it fails, none of its recognisers stays registered.
    """
    try:
        plugin.load()
        if any(plugin.owns(identity(r.run)[0]) for r in _registered.values()):
            return ""
        why = f"{plugin}: it registers no recogniser"
    except plugins.PluginError as error:
        why = str(error)
    remaining = {k: r for k, r in _registered.items() if not plugin.owns(identity(r.run)[0])}
    if len(remaining) < len(_registered):
        _replace(remaining)
    with contextlib.suppress(RecogniserWarning):  # where warnings are errors it costs no answer
        warn(f"plug-in ignored: {why}", RecogniserWarning)
    return why


def _replace(recognisers: dict[str, Recogniser]) -> None:
    """Install a new dictionary, because another thread may be iterating over the old one."""
    global _registered, _exact, _rounded, _externs, _generation
    ordered = sorted(recognisers.values(), key=_order)
    _registered = {r.name: r for r in ordered}
    _externs = tuple(r for r in ordered if r.externs)
    _exact = tuple(r for r in ordered if not r.rounded and not r.externs)
    _rounded = tuple(r for r in ordered if r.rounded and not r.externs)
    _generation += _loaded  # before all built-in recognisers are registered there are no answers


def _checked(
    name: str, precedence: int, ops: Any, run: Any, rounded: bool, externs: bool
) -> Recogniser:
    """Return the recogniser. Raises ``TypeError`` or ``ValueError`` for wrong arguments."""
    if not isinstance(name, str) or not name:
        raise TypeError(f"recogniser: expected a name, got {name!r}")
    if not isinstance(precedence, int) or isinstance(precedence, bool):
        raise TypeError(f"recogniser {name!r}: precedence: expected an int, got {precedence!r}")
    if isinstance(ops, str) or not all(isinstance(op, str) for op in ops):
        raise TypeError(f"recogniser {name!r}: ops: expected names of operators, got {ops!r}")
    if not callable(run):
        raise TypeError(f"recogniser {name!r}: expected a function, got {type(run).__name__}")
    built_in = is_built_in(run)
    if not built_in:
        load_built_in()
        _check_operators(name, ops)
    for entry in _registered.values():
        replaces = entry.name == name and _same_function(entry, run, built_in)
        # Packages that do not know of each other may choose the same precedence, see `_order`.
        same_precedence = entry.precedence == precedence and _package(entry.run) == _package(run)
        if not replaces and (entry.name == name or same_precedence):
            raise ValueError(
                f"recogniser {name!r} at precedence {precedence}: {_conflict(entry, name)} "
                f"({'.'.join(identity(entry.run))}); choose another, or "
                f"unregister({entry.name!r}) first"
            )
    return Recogniser(name, precedence, tuple(ops), run, rounded, built_in, externs)


def _order(entry: Recogniser) -> tuple[int, bool, str]:
    """The sort key: precedence, then recognisers from outside before built-in ones, then name."""
    return entry.precedence, entry.built_in, entry.name


def _package(run: Any) -> str:
    return identity(run)[0].partition(".")[0]


def _same_function(entry: Recogniser, run: Any, built_in: bool) -> bool:
    return (identity(entry.run), entry.built_in) == (identity(run), built_in)


def _conflict(entry: Recogniser, name: str) -> str:
    clash = "the name" if entry.name == name else "the precedence"
    return f"{clash} is taken by the recogniser {entry.name!r} at precedence {entry.precedence}"


def _check_operators(name: str, ops: Sequence[str]) -> None:
    """Raises ``ValueError`` if one is not an operator that can be built."""
    for op in ops:
        why = not_an_operator(op)
        if why:
            suggestion = did_you_mean(op, Op.list_op_names())
            raise ValueError(
                f"recogniser {name!r}: ops: {why}{suggestion}; a recogniser names an operator of "
                "TVM's registry: register a new one first, see the guide 'Add an operator'"
            ) from None


def not_an_operator(name: str) -> str:
    """Return why a name does not denote an operator that can be built; empty if it does.

    ``exp`` and ``relax.unary.exp`` lead to the constructor of ``relax.exp`` but are not its name.
    """
    try:
        constructor(name)
    except NotBuilt as error:
        return str(error)
    composed = any(name in r.ops for r in _registered.values() if r.built_in)  # relax.nn.relu6
    return "" if composed or name in Op.list_op_names() else f"TVM has no operator {name}"
