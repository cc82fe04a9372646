"""Libraries for a store that are not worth compiling, and real ones."""

from __future__ import annotations

import hashlib
import tempfile
from pathlib import Path
from typing import Any

from opinfo.jit.store.store import KernelStore

KEYS = [hashlib.sha256(bytes([n])).hexdigest()[:40] for n in range(32)]


def library(key: str, size: int = 20_000) -> bytes:
    """Bytes that follow from the key, some kilobytes as kernels have."""
    block = hashlib.sha512(key.encode()).digest()
    return b"\x7fELF" + block * (size // len(block))


def stored(store: KernelStore, key: str) -> Path:
    with tempfile.NamedTemporaryFile(suffix=".so") as file:
        file.write(library(key))
        file.flush()
        path = store.put(key, file.name)
    assert path is not None
    return path


def product(n: int | None = None, k: int = 64, m: int = 32, name: str = "kernel") -> Any:
    """The PrimFunc of ``relu(x[n, k] @ w[k, m])``; ``n`` None: symbolic."""
    from tvm import tirx

    (func,) = (f for f in model(n, k, m).functions.values() if isinstance(f, tirx.PrimFunc))
    return func.with_attr("global_symbol", name)


def model(n: int | None = None, k: int = 64, m: int = 32) -> Any:
    """The module of it, fused."""
    import tvm
    from tvm import relax, tirx

    x = relax.Var("x", relax.TensorType((tirx.Var("n", "int64") if n is None else n, k)))
    w = relax.Var("w", relax.TensorType((k, m)))
    builder = relax.BlockBuilder()
    with builder.function("main", [x, w]):
        with builder.dataflow():
            y = builder.emit(relax.op.nn.relu(builder.emit(relax.op.matmul(x, w))))
            out = builder.emit_output(y)
        builder.emit_func_output(out)
    t = relax.transform
    passes = [t.LegalizeOps(), t.AnnotateTIROpPattern(), t.FuseOps(), t.FuseTIR()]
    return tvm.transform.Sequential(passes)(builder.get())
