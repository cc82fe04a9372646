"""Backends by name: registered in this process, built in, or of an installed package.

The built-in ones are entry points like those of other packages, and loaded in the same way: when a
backend of that name is asked for.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from importlib.metadata import version

from ...analysis.support import plugins
from ...analysis.support.plugins import Plugin, PluginError
from ..patterns.failure import ForeignError, foreign
from .backend import Backend, Code
from .region import Region

#: Backends that come with opinfo: where their objects are.
BUILT_IN = {
    "onednn": "onednn:ONEDNN",
    "blas": "blas:BLAS",
    "onnxruntime": "onnxruntime:ONNXRUNTIME",
    "example_npu": "example_npu:NPU",
    "cublaslt": "nvidia.cublaslt:BACKEND",
    "cudnn": "nvidia.cudnn:BACKEND",
    "cutlass": "nvidia.cutlass:BACKEND",
    "tensorrt": "nvidia.tensorrt:BACKEND",
}
_HOME = f"{__package__.rpartition('.')[0]}.backends"
_REGISTRY: dict[str, Backend] = {}
#: Plug-ins that were warned of.
_SHADOWED: set[Plugin] = set()
TAKEN = "the name is that of a backend of opinfo; rename the entry point and the Backend"


def register(backend: Backend) -> Backend:
    """Make a backend known by its name; another one of this name is replaced.

    Args:
        backend: The one to register. One of an installed package is found without this.

    Returns:
        The backend.

    Raises:
        TypeError: It is not a `Backend`.
    """
    if not isinstance(backend, Backend):
        raise TypeError(f"register: expected a Backend, got {backend!r}")
    _REGISTRY[backend.name] = backend
    return backend


def registered() -> dict[str, Backend]:
    """The backends of this process by name: those that were registered or asked for."""
    return dict(_REGISTRY)


def find(name: str) -> Backend:
    """The backend of a name; one that cannot be loaded is not available, and says why.

    Raises:
        ValueError: None has the name; the message lists those that there are.
    """
    _warn_if_shadowed(name)
    if name in _REGISTRY:
        return _REGISTRY[name]
    found = entries(name)
    if not found:
        known = ", ".join(sorted({*_REGISTRY, *BUILT_IN, *(p.name for p in outside())}))
        off = "" if plugins.enabled() else f"; {plugins.VARIABLE} switches plug-ins off"
        raise ValueError(f"there is no backend {name!r}; known: {known}{off}")
    try:
        return register(loaded(found))
    except PluginError as e:
        reason = f"it cannot be loaded: {e}"
        return Backend(name, (), _no_code, lambda: reason)


def outside() -> tuple[Plugin, ...]:
    """The backends of other packages that are installed."""
    return plugins.installed(plugins.BACKENDS)


def entries(name: str) -> list[Plugin]:
    """Where a backend of this name can be loaded from: opinfo, or else other packages."""
    if name in BUILT_IN:
        return [Plugin(name, f"{_HOME}.{BUILT_IN[name]}", "opinfo", version("opinfo"))]
    return [p for p in outside() if p.name == name]


def loaded(found: Sequence[Plugin]) -> Backend:
    """The backend of the only entry. Raises :class:`.PluginError` where there is none."""
    if len(found) > 1:
        raise PluginError(f"{len(found)} packages have a backend of this name: "
                          f"{'; '.join(map(str, found))}; uninstall all but one")  # fmt: skip
    (plugin,) = found
    backend = plugin.load()
    if not isinstance(backend, Backend):
        raise PluginError(f"{plugin}: expected a Backend, got {type(backend).__name__}")
    if backend.name != plugin.name:
        raise PluginError(f"{plugin}: its Backend is called {backend.name}, expected the name of "
                          "the entry point")  # fmt: skip
    return backend


def _no_code(regions: Sequence[Region]) -> Code:
    raise RuntimeError("this backend is not available")


def _warn_if_shadowed(name: str) -> None:
    """Once, of packages whose backend has the name of one of opinfo's."""
    for p in outside() if name in BUILT_IN else ():
        if p.name == name and p not in _SHADOWED:
            _SHADOWED.add(p)
            warnings.warn(f"plug-in left out: {p}: {TAKEN}", stacklevel=4)


def unusable(b: Backend) -> str | None:
    """Why a backend cannot be used here, None if it can."""
    try:
        with foreign():
            reason = b.available()
            if reason is not None and not isinstance(reason, str):
                return f"available returned {reason!r}, expected None or why not"
    except ForeignError as e:
        return f"to ask it failed: {e}"
    return reason


def given(backends: Sequence[str | Backend]) -> list[Backend]:
    """Backends by name or as they are, without TVM.

    Raises ``TypeError`` for anything but a backend, ``ValueError`` for two of one name.
    """
    if isinstance(backends, str) or not isinstance(backends, Iterable):
        raise TypeError(f"backends: expected a sequence of them, got {backends!r}")
    out: list[Backend] = []
    for b in backends:
        if not isinstance(b, (str, Backend)):
            raise TypeError(f"backends: expected a Backend or a name, got {b!r}")
        if b == "tvm":
            continue
        made = find(b) if isinstance(b, str) else b
        if any(made.name == other.name and made is not other for other in out):
            raise ValueError(f"backends: there are two that are called {made.name}")
        if made not in out:
            out.append(made)
    return out
