"""Keys of stored times: the operators, their shapes, the code, the machine."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import tvm_ffi

from ..backend.backend import Code


@dataclass(frozen=True)
class Key:
    """Two candidates with equal keys take the same time.

    ``ops`` is the structural hash of the operators over their shapes, ``code`` the hash of the
    generated source: so a backend without a version is measured again when its converter changes.
    """

    ops: str
    shapes: tuple[str, ...]
    target: str
    backend: str
    version: str
    code: str
    device: str
    threads: int

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "shapes": list(self.shapes)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Key:
        """Read a key. Raises ``KeyError`` or ``TypeError`` for anything else."""
        texts = {k: _is(data[k], str) for k in ("ops", "target", "backend", "version", "code",
                                                "device")}  # fmt: skip
        shapes = tuple(_is(s, str) for s in _is(data["shapes"], list))
        return cls(**texts, shapes=shapes, threads=_is(data["threads"], int))


def hash_of_module(mod: Any) -> str:
    """The structural hash of a module, equal in all processes."""
    return f"{tvm_ffi.structural_hash(mod, skip_tensor_content=True):016x}"


def hash_of_code(code: Code) -> str:
    """The hash of the source and its options; constants do not count."""
    text = "\0".join([code.source, *code.options])
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _is(value: Any, kind: type) -> Any:
    if not isinstance(value, kind) or isinstance(value, bool):
        raise TypeError(f"expected {kind.__name__}, got {value!r}")
    return value
