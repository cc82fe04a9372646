"""Import timm without torchvision.

timm imports torchvision for its data pipeline. The wheels of torchvision on the package index are
linked against the CUDA build of torch and cannot be loaded beside the CPU build. The models use
none of it, so where torchvision is not installed, placeholders replace its names during the import.
"""

from __future__ import annotations

import sys
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType
from typing import Any

_PACKAGE = "torchvision"


class _Named(type):
    """A class whose attributes are classes again, such as `InterpolationMode.BILINEAR`."""

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        value = _Named(name, (), {})
        setattr(cls, name, value)
        return value


class _Placeholder(ModuleType):
    __path__: list[str] = []  # noqa: RUF012

    def __getattr__(self, name: str) -> Any:
        return getattr(_Named(self.__name__, (), {}), name)


class _Finder(MetaPathFinder, Loader):
    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        inside = fullname.partition(".")[0] == _PACKAGE
        return ModuleSpec(fullname, self, is_package=True) if inside else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _Placeholder(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        pass


def timm() -> Any:
    """Return the module `timm`; raises `ImportError` if it is not installed."""
    if find_spec(_PACKAGE) is not None:
        import timm

        return timm
    finder = _Finder()
    sys.meta_path.append(finder)
    try:
        import timm
    finally:
        sys.meta_path.remove(finder)
        for name in [name for name in sys.modules if name.partition(".")[0] == _PACKAGE]:
            del sys.modules[name]
    return timm
