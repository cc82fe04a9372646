"""The recognisers that are registered.

Answers that are kept hold for one `generation` of the registry: whoever keeps them forgets
them when it changes.
"""

from __future__ import annotations

import contextlib
import difflib
import functools
import pkgutil
import sys
import types
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tvm.ir import Op

from ..proposal.build import NotBuilt, constructor
from ..support import plugins

if TYPE_CHECKING:
    from ..lifting.effects.tensor_expression import TensorExpression
    from ..proposal.proposal import Proposal
    from ..results.op_info import Refusal

    Recognise = Callable[[TensorExpression], Sequence[Proposal] | Refusal]

#: Recognisers of this package are imported, and so registered, when they are first needed.
BUILT_IN = f"{__package__.rpartition('.')[0]}.recognise."


class RecogniserWarning(UserWarning):
    """A recogniser failed; the answer is that of the others."""


@dataclass(frozen=True)
class Recogniser:
    """A registered recogniser. Lower ``precedence`` is asked first; in one package it is unique.

    One that is ``rounded`` is only asked for what is an operator up to rounding, see
    `analysis.real`.
    """

    name: str
    precedence: int
    ops: tuple[str, ...]
    run: Recognise
    rounded: bool = False
    #: Whether the function is this package's own: what it proposes is not checked.
    built_in: bool = False


_registered: dict[str, Recogniser] = {}
_exact: tuple[Recogniser, ...] = ()
_rounded: tuple[Recogniser, ...] = ()
_loaded = False
#: Why plug-ins were left out; None until they were looked for.
_left_out: dict[plugins.Plugin, str] | None = None
_generation = 0


def recogniser(
    name: str, *, precedence: int, ops: Sequence[str], rounded: bool = False
) -> Callable[[Recognise], Recognise]:
    """Register a recogniser, as a decorator; it takes part from the next `op_info` call on.

    Registering a function again (the same module and qualified name, as in a notebook cell that is
    run twice) replaces it.

    Args:
        name: Identifies the recogniser in messages; unique.
        precedence: The order of recognisers: lower is asked earlier; unique in a package. If
            packages have the same one, opinfo is last and the others go by name.
        ops: Full names of the operators it may propose, such as ``relax.nn.relu``; empty for any.
        rounded: Ask it only about computes that equal an operator up to rounding.

    Returns:
        A decorator that returns the function unchanged.

    Raises:
        TypeError: An argument has another type.
        ValueError: An operator does not exist, or another recogniser has the name or precedence.
    """

    def register(run: Recognise) -> Recognise:
        new = _checked(name, precedence, ops, run, rounded)
        _replace({k: r for k, r in _registered.items() if k != name} | {name: new})
        return run

    return register


def unregister(name: str) -> None:
    """Remove a recogniser.

    Args:
        name: The name that it was registered under.

    Raises:
        ValueError: There is no recogniser of this name.
    """
    load_all()
    if name not in _registered:
        raise ValueError(f"there is no recogniser {name!r}{_near(name, _registered)}")
    _replace({k: r for k, r in _registered.items() if k != name})


@contextmanager
def recogniser_scope() -> Iterator[None]:
    """Undo every registration and removal of recognisers that is made inside, at the end.

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
    """A number that changes whenever a recogniser is registered or removed."""
    return _generation


def registered(rounded: bool | None = None) -> tuple[Recogniser, ...]:
    """All recognisers, by precedence; or those that are ``rounded``, or those that are not."""
    load_all()
    if rounded is None:
        return tuple(_registered.values())
    return _rounded if rounded else _exact


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
    """The plug-ins that could not be loaded, and why."""
    load_all()
    return dict(_left_out or {})


def _load(p: plugins.Plugin) -> str:
    """Import a plug-in, whose recognisers register themselves; why it is left out, else empty.

    Where it fails none of its recognisers stays.
    """
    try:
        p.load()
        if any(p.owns(identity(r.run)[0]) for r in _registered.values()):
            return ""
        why = f"{p}: it registers no recogniser"
    except plugins.PluginError as e:
        why = str(e)
    rest = {k: r for k, r in _registered.items() if not p.owns(identity(r.run)[0])}
    if len(rest) < len(_registered):
        _replace(rest)
    with contextlib.suppress(RecogniserWarning):  # where warnings are errors it costs no answer
        warnings.warn(f"plug-in left out: {why}", RecogniserWarning, stacklevel=2)
    return why


@functools.cache
def modules() -> tuple[Any, ...]:
    """The modules of the package's own recognisers, in alphabetical order.

    They are discovered, as those of other packages are: a file in their folder is all it takes.
    """
    folder = str(Path(__file__).parents[1] / "recognise")
    names = sorted(m.name for m in pkgutil.iter_modules([folder]))
    return tuple(import_module(BUILT_IN + n) for n in names if not n.startswith("_"))


def identity(run: Any) -> tuple[str, str]:
    """Module and qualified name of a function, or of what a callable object wraps or is."""
    if isinstance(run, functools.partial):
        return identity(run.func)
    own = run if hasattr(run, "__qualname__") else type(run)
    return str(own.__module__), str(own.__qualname__)


def _is_built_in(run: Any) -> bool:
    """Whether a function's code is a module's of this package.

    By the globals that it runs on: ``functools.wraps`` copies ``__module__`` of what it wraps.
    """
    if not isinstance(run, types.FunctionType):
        return False
    name = str(run.__globals__.get("__name__"))
    module = sys.modules.get(name)
    return name.startswith(BUILT_IN) and module is not None and run.__globals__ is vars(module)


def _replace(recognisers: dict[str, Recogniser]) -> None:
    """A new dictionary each time: another thread may be going through the old one."""
    global _registered, _exact, _rounded, _generation
    found = sorted(recognisers.values(), key=_order)
    _registered = {r.name: r for r in found}
    _exact = tuple(r for r in found if not r.rounded)
    _rounded = tuple(r for r in found if r.rounded)
    _generation += _loaded  # nothing was answered before all of the package were there


def _checked(name: str, precedence: int, ops: Any, run: Any, rounded: bool) -> Recogniser:
    if not isinstance(name, str) or not name:
        raise TypeError(f"recogniser: expected a name, got {name!r}")
    if not isinstance(precedence, int) or isinstance(precedence, bool):
        raise TypeError(f"recogniser {name!r}: precedence: expected an int, got {precedence!r}")
    if isinstance(ops, str) or not all(isinstance(op, str) for op in ops):
        raise TypeError(f"recogniser {name!r}: ops: expected names of operators, got {ops!r}")
    if not callable(run):
        raise TypeError(f"recogniser {name!r}: expected a function, got {type(run).__name__}")
    built_in = _is_built_in(run)
    if not built_in:
        load_built_in()
        _check_operators(name, ops)
    for r in _registered.values():
        again = r.name == name and (identity(r.run), r.built_in) == (identity(run), built_in)
        # Packages that do not know each other may choose the same precedence, see `_order`.
        same_place = r.precedence == precedence and _package(r.run) == _package(run)
        if not again and (r.name == name or same_place):
            raise ValueError(
                f"recogniser {name!r} at precedence {precedence}: {_taken(r, name, precedence)} "
                f"({'.'.join(identity(r.run))}); choose another, or unregister({r.name!r}) first"
            )
    return Recogniser(name, precedence, tuple(ops), run, rounded, built_in)


def _order(r: Recogniser) -> tuple[int, bool, str]:
    """By precedence; where that is the same, those from outside first, by name."""
    return r.precedence, r.built_in, r.name


def _package(run: Any) -> str:
    return identity(run)[0].partition(".")[0]


def _taken(r: Recogniser, name: str, precedence: int) -> str:
    taken = "the name" if r.name == name else "the precedence"
    return f"{taken} is taken by the recogniser {r.name!r} at precedence {r.precedence}"


def _check_operators(name: str, ops: Sequence[str]) -> None:
    for op in ops:
        why = not_an_operator(op)
        if why:
            near = _near(op, [str(n) for n in Op.list_op_names()])
            raise ValueError(f"recogniser {name!r}: ops: {why}{near}") from None


def not_an_operator(name: str) -> str:
    """Why a name is not that of an operator that can be built; empty if it is.

    ``exp`` and ``relax.unary.exp`` lead to the constructor of ``relax.exp``, and are not its name.
    """
    try:
        constructor(name)
    except NotBuilt as e:
        return str(e)
    composed = any(name in r.ops for r in _registered.values() if r.built_in)  # relax.nn.relu6
    return "" if composed or name in Op.list_op_names() else f"TVM has no operator {name}"


def _near(name: str, names: Any) -> str:
    near = difflib.get_close_matches(name, names, n=1)
    return f"; did you mean {near[0]!r}?" if near else ""
