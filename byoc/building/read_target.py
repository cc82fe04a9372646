"""Targets as users write them: ``llvm -mcpu=haswell -num-cores=2``."""

from __future__ import annotations

import shlex
from typing import Any

import tvm
from tvm.target import codegen

from ...analysis.support.wording import did_you_mean
from ..codegen.loading.cuda_device import no_gpu, no_runtime

#: Options of TVM that are not flags for users.
HIDDEN = frozenset(("kind", "from_device", "target_device_type"))
#: What TVM writes for the architecture of a GPU if nothing says it; CUDA 13 has dropped it.
UNKNOWN = "sm_50"


def read_target(target: Any) -> Any:
    """TVM's target from a name, a dict, a target, or a name with flags.

    TVM 0.27 reads only the first three and JSON. ``-mcpu=haswell``, ``-mcpu haswell`` and
    ``--mcpu=haswell`` are the same.

    Raises:
        ValueError: The kind or a flag is unknown, or a flag has the wrong type.
    """
    if isinstance(target, str) and len(target.split()) > 1 and not target.lstrip().startswith("{"):
        return _target(_fields(target), target)
    return _target(target.strip() if isinstance(target, str) else target, target)


def compile_target(target: Any) -> Any:
    """TVM's target to compile for; its architecture must be known.

    Raises:
        ValueError: As `read_target` does; or nothing says which architecture a GPU has, or LLVM
            does not know the CPU, in whose place TVM would take a generic one.
    """
    parsed = read_target(target)
    _check_cpu(parsed, target)
    if parsed.kind.name == "cuda" and parsed.attrs.get("arch") == UNKNOWN and (reason := no_gpu()):
        raise ValueError(f"target {target!r}: name the GPU's architecture, as -arch=sm_90 does, or "
                         f"the GPU, as nvidia/nvidia-h100 does: {reason}")  # fmt: skip
    return parsed


def _check_cpu(parsed: Any, target: Any) -> None:
    """Raise ``ValueError`` for a CPU that LLVM does not know; of other systems, TVM asks nobody."""
    name = parsed.attrs.get("mcpu")
    if parsed.kind.name != "llvm" or not name or parsed.attrs.get("mtriple"):
        return
    if codegen.llvm_is_valid_cpu(name, codegen.llvm_get_system_triple()):
        return
    hint = did_you_mean(name, codegen.llvm_get_cpu_archlist(tvm.target.Target("llvm")))
    here = "; without a target, opinfo compiles for this CPU" if name == "native" else ""
    raise ValueError(f"target {target!r}: LLVM does not know the CPU {name}{hint or here}")


def _target(fields: Any, target: Any) -> Any:
    if "cuda" in str(fields):
        no_runtime()  # TVM asks the GPU of this machine what the target leaves open
    try:
        return tvm.target.Target(fields)
    except ValueError as error:
        reason = str(error).split(" Target creation from ")[0].rstrip(". ")
        kind = fields if isinstance(fields, str) else dict(fields).get("kind", "")
        near = "" if kind in _kinds() else did_you_mean(kind, _kinds())
        raise ValueError(f"target {target!r}: {reason}{near}") from error


def _kinds() -> list[str]:
    return sorted(map(str, tvm.target.Target.list_kinds()))


def _fields(text: str) -> dict[str, Any]:
    """``llvm -num-cores=2`` as ``{"kind": "llvm", "num-cores": 2}``."""
    kind, *words = shlex.split(text)
    if kind not in _kinds():
        near = did_you_mean(kind, _kinds()) or f"; the kinds are {', '.join(_kinds())}"
        raise ValueError(f"target {text!r}: unknown kind {kind}{near}")
    options = tvm.target.TargetKind.options_from_name(kind)
    types = {str(n): str(type_).lower() for n, type_ in options.items() if str(n) not in HIDDEN}
    fields: dict[str, Any] = {"kind": kind}
    while words:
        flag, equals, value = words.pop(0).partition("=")
        name = flag.lstrip("-")
        if not flag.startswith("-") or name not in types:
            raise ValueError(f"target {text!r}: {kind} has no flag {flag}; "
                             f"it has -{', -'.join(sorted(types))}")  # fmt: skip
        if not equals and words and not words[0].startswith("-"):
            value, equals = words.pop(0), "="
        if name in fields:
            raise ValueError(f"target {text!r}: {flag} occurs twice")
        fields[name] = _value(text, flag, value if equals else None, types[name])
    return fields


def _value(text: str, flag: str, value: str | None, type_: str) -> Any:
    """The value of a flag, of the type that TVM expects."""
    if "bool" in type_:
        switch = {None: True, "1": True, "true": True, "0": False, "false": False}
        if value not in switch:
            raise ValueError(f"target {text!r}: {flag}: expected 0 or 1, got {value}")
        return switch[value]
    if not value:
        raise ValueError(f"target {text!r}: {flag}: expected a value")
    if "array" in type_:
        return value.split(",")
    if "int" in type_:
        if not value.isdigit():
            raise ValueError(f"target {text!r}: {flag}: expected a number, got {value}")
        return int(value)
    return value
