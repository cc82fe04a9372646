"""Backends by name: registered in this process, built in, or from an installed package.

Built-in backends are loaded like those of other packages: when one of that name is requested.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from importlib.metadata import version

from ...analysis.support import plugins
from ...analysis.support.plugins import Plugin, PluginError
from ...analysis.support.warn import warn
from ...analysis.support.wording import did_you_mean
from ..patterns.failure import ForeignError, foreign
from .backend import Backend, Code
from .region import Region

#: Backends that come with opinfo, and where their objects are.
BUILT_IN = {
    "onednn": "onednn:ONEDNN",
    "blas": "blas:BLAS",
    "weight_only": "weight_only:WEIGHT_ONLY",
    "experts": "experts:EXPERTS",
    "onnxruntime": "onnxruntime:ONNXRUNTIME",
    "openvino": "openvino:OPENVINO",
    "example_npu": "example_npu:NPU",
    "cublaslt": "nvidia.products.cublaslt:BACKEND",
    "cudnn": "nvidia.cudnn.cudnn:BACKEND",
    "cutlass": "nvidia.products.cutlass:BACKEND",
    "tensorrt": "nvidia.tensorrt:BACKEND",
}
_HOME = f"{__package__.rpartition('.')[0]}.backends"
_REGISTRY: dict[str, Backend] = {}
#: Plug-ins that a warning named already.
_SHADOWED: set[Plugin] = set()
NAME_TAKEN = "opinfo has a backend of this name; rename the entry point and the Backend"


def register(backend: Backend) -> Backend:
    """Register a backend under its name, and replace any other backend of this name.

    Args:
        backend: The backend. opinfo discovers backends of installed packages by itself.

    Returns:
        The backend.

    Raises:
        TypeError: The argument is not a `Backend`.
    """
    if not isinstance(backend, Backend):
        raise TypeError(f"register: expected a Backend, got {backend!r}")
    _REGISTRY[backend.name] = backend
    return backend


def registered() -> dict[str, Backend]:
    """The backends of this process by name: those registered, and those requested so far."""
    return dict(_REGISTRY)


def find(name: str) -> Backend:
    """The backend of a name. If it cannot be loaded, it is unavailable and says why.

    Raises:
        ValueError: No backend has this name; the message lists those that exist.
    """
    _warn_if_shadowed(name)
    if name in _REGISTRY:
        return _REGISTRY[name]
    entry_points = entries(name)
    if not entry_points:
        names = sorted({*_REGISTRY, *BUILT_IN, *(p.name for p in outside())})
        off = "" if plugins.enabled() else f"; {plugins.VARIABLE} switches plug-ins off"
        raise ValueError(f"unknown backend {name!r}; known: {', '.join(names)}{off}"
                         f"{did_you_mean(name, names)}")  # fmt: skip
    try:
        return register(loaded(entry_points))
    except PluginError as error:
        reason = f"it cannot be loaded: {error}"
        return Backend(name, (), _no_code, lambda: reason)


def outside() -> tuple[Plugin, ...]:
    """The backends of other installed packages."""
    return plugins.installed(plugins.BACKENDS)


def entries(name: str) -> list[Plugin]:
    """The entry points of backends with this name: opinfo's own, else those of other packages."""
    if name in BUILT_IN:
        return [Plugin(name, f"{_HOME}.{BUILT_IN[name]}", "opinfo", version("opinfo"))]
    return [p for p in outside() if p.name == name]


def loaded(entry_points: Sequence[Plugin]) -> Backend:
    """The backend of the only entry point. Raises `PluginError` if there are several."""
    if len(entry_points) > 1:
        raise PluginError(
            f"{len(entry_points)} packages provide a backend of this name: "
            f"{'; '.join(map(str, entry_points))}; uninstall all but one"
        )
    (plugin,) = entry_points
    backend = plugin.load()
    if not isinstance(backend, Backend):
        raise PluginError(f"{plugin}: expected a Backend, got {type(backend).__name__}")
    if backend.name != plugin.name:
        raise PluginError(f"{plugin}: its Backend is named {backend.name}, expected the name of "
                          "the entry point")  # fmt: skip
    return backend


def _no_code(regions: Sequence[Region]) -> Code:
    raise RuntimeError("this backend is not available")


def _warn_if_shadowed(name: str) -> None:
    """Warn once of each package whose backend has the name of a built-in one."""
    for plugin in outside() if name in BUILT_IN else ():
        if plugin.name == name and plugin not in _SHADOWED:
            _SHADOWED.add(plugin)
            warn(f"plug-in ignored: {plugin}: {NAME_TAKEN}")


def unusable(backend: Backend) -> str | None:
    """Why a backend cannot be used here, None if it can."""
    try:
        with foreign():
            reason = backend.available()
            if reason is not None and not isinstance(reason, str):
                return f"available returned {repr(reason)[:80]}, expected None or why not"
    except ForeignError as error:
        return f"its available() failed: {error}"
    return None if reason is None else " ".join(reason.split())


def resolve_backends(backends: Sequence[str | Backend]) -> list[Backend]:
    """The backends of a request, with names looked up; ``"tvm"`` is left out.

    Raises:
        TypeError: One is neither a name nor a `Backend`.
        ValueError: Two different backends have the same name.
    """
    if isinstance(backends, str) or not isinstance(backends, Iterable):
        hint = f"; pass [{backends!r}]" if isinstance(backends, str) else ""
        raise TypeError("backends: expected a sequence of backends or names, "
                        f"got {backends!r}{hint}")  # fmt: skip
    out: list[Backend] = []
    for item in backends:
        if not isinstance(item, (str, Backend)):
            raise TypeError(f"backends: expected a Backend or a name, got {item!r}")
        if item == "tvm":
            continue
        backend = find(item) if isinstance(item, str) else item
        if any(backend.name == earlier.name and backend is not earlier for earlier in out):
            raise ValueError(f"backends: two different backends are named {backend.name}")
        if backend not in out:
            out.append(backend)
    return out
