"""Find oneDNN: the packages `onednn-devel-cpu-gomp` (headers) and `onednn-cpu-gomp`."""

from __future__ import annotations

import functools
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path

from ...codegen.host_target import flags
from ..common.installed import linked, no_compiler, version_of

HEADERS = "onednn-devel-cpu-gomp"
LIBRARY = "onednn-cpu-gomp"
MEND = "pip install 'opinfo[onednn]'"

#: Little optimisation, since most of the work is the library's; but sums of products as one
#: instruction in the loops that are not.
FAST = ("-O1", "-fexpensive-optimizations", "-ffp-contract=fast")
#: Optimisation of what has no loops over data. GCC inlines less at this level, so it has less code
#: to optimise.
GLUE = "-Og"


def available() -> str | None:
    """Why oneDNN cannot be used; None if it can."""
    if (reason := no_compiler()) is not None:
        return reason
    if include() is None:
        return f"the headers of oneDNN are not installed ({MEND})"
    return f"libdnnl is not installed ({MEND})" if library() is None else None


def version() -> str:
    """The version of the library; empty if it is not installed."""
    return version_of(LIBRARY)


def options() -> tuple[str, ...]:
    """The compiler options for oneDNN."""
    return (*FAST, *_found())


def glue_options() -> tuple[str, ...]:
    """The compiler options for code that only calls oneDNN and loops of other files."""
    return (GLUE, *_found())


def _found() -> tuple[str, ...]:
    headers, shared = include(), library()
    if headers is None or shared is None:
        raise RuntimeError(available())
    return (*vectors(), *linked(headers, shared))


def vectors() -> tuple[str, ...]:
    """The compiler options for the vectors of the CPU that code is built for."""
    names = flags()
    wide = ("avx512f", "avx512vl", "avx512bw", "avx512dq")
    groups = (("avx2", "fma"), wide) if names.issuperset(wide) else (("avx2", "fma"),)
    return tuple(f"-m{n}" for group in groups if names.issuperset(group) for n in group)


@functools.cache
def include() -> Path | None:
    """The folder with `oneapi/dnnl/dnnl.h`."""
    header = _find(HEADERS, "oneapi/dnnl/dnnl.h")
    return None if header is None else header.parents[2]


@functools.cache
def library() -> Path | None:
    """The shared object, by the name that it has at run time."""
    return _find(LIBRARY, "libdnnl.so.3")


def _find(package: str, ending: str) -> Path | None:
    try:
        listed = files(package) or []
    except PackageNotFoundError:
        return None
    paths = (Path(str(f.locate())).resolve() for f in listed if str(f).endswith(ending))
    return next((p for p in paths if p.exists()), None)
