"""What `benchmarks.faults` breaks: a small model, and a C++ backend that takes most of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import tvm
from tvm import relax

from opinfo.byoc import Backend, Code, Node, Pattern, Region, maybe, one
from opinfo.byoc.codegen.abi import ABI

#: The operator whose region is broken; the others are these.
VICTIM = "relax.multiply"
OTHERS = ("relax.add", "relax.nn.relu", "relax.exp", "relax.add")
SHAPE = (4, 8)
Array = np.ndarray[Any, Any]


def module() -> Any:
    """Return a module with four regions of the backend; tanh stays with TVM."""
    x, y = (relax.Var(n, relax.TensorType(SHAPE, "float32")) for n in "xy")
    builder = relax.BlockBuilder()
    with builder.function("main", [x, y]):
        with builder.dataflow():
            a = builder.emit(relax.op.nn.relu(builder.emit(relax.op.add(x, y))))
            b = builder.emit(relax.op.multiply(a, y))
            c = builder.emit(relax.op.exp(b))
            d = builder.emit(relax.op.add(c, a))
            out = builder.emit_output(builder.emit(relax.op.tanh(d)))
        builder.emit_func_output(out)
    return builder.get()


def inputs() -> list[Array]:
    rng = np.random.default_rng(0)
    return [rng.standard_normal(SHAPE).astype("float32") for _ in range(2)]


def unmodified() -> Array:
    """Return the output of TVM's own build of the module."""
    built = tvm.compile(module(), target="llvm")
    out = relax.VirtualMachine(built, tvm.cpu())["main"](*map(tvm.runtime.tensor, inputs()))
    return np.array(out.numpy())


def float32(node: Node) -> str | None:
    return None if node.result.dtype == "float32" else f"{node.result.dtype} is not float32"


def patterns(*conditions: Callable[[Node], Any]) -> tuple[Pattern, ...]:
    """Return the backend's patterns; ``conditions`` apply to the victim."""
    return (
        Pattern("sum", one("relax.add", float32), maybe("relax.nn.relu")),
        Pattern("product", one(VICTIM, float32, *conditions)),
        Pattern("exp", one("relax.exp", float32)),
    )


def is_victim(region: Region) -> bool:
    return region.find(VICTIM) is not None


def body(region: Region) -> str:
    """Return the C++ function of a region, exported with `OPINFO_TYPED`."""
    names = [f"x{k}" for k in range(len(region.inputs))]
    pointers = [f"  auto* p{n} = reinterpret_cast<float*>(opinfo::data({n}));"
                for n in (*names, "out")]  # fmt: skip
    lines = "".join(f"    float v{k} = {_value(c)};\n" for k, c in enumerate(region.calls))
    count = int(np.prod(SHAPE))
    tensors = ", ".join(f"const DLTensor* {n}" for n in (*names, "out"))
    return (
        f"static void {region.symbol}_({tensors}) {{\n" + "\n".join(pointers)
        + f"\n  for (int i = 0; i < {count}; ++i) {{\n{lines}"
        + f"    pout[i] = v{len(region.calls) - 1};\n"
        + f"  }}\n}}\nOPINFO_TYPED({region.symbol}, {region.symbol}_)\n"
    )  # fmt: skip


def _value(call: Any) -> str:
    values = [f"px{o.index}[i]" if o.source == "input" else f"v{o.index}" for o in call.operands]
    if call.op == "relax.add":
        return f"{values[0]} + {values[1]}"
    if call.op == VICTIM:
        return f"{values[0]} * {values[1]}"
    return (
        f"std::fmax({values[0]}, 0.f)" if call.op == "relax.nn.relu" else f"std::exp({values[0]})"
    )


def convert(regions: Sequence[Region]) -> Code:
    source = ABI + "#include <cmath>\n" + "".join(map(body, regions))
    return Code(source, tuple(r.symbol for r in regions))


PLAIN = Backend("plain", patterns(), convert)


def changed(change: Callable[[Code, Region], Code]) -> Backend:
    """Return the backend with ``change`` applied to the code of the victim's regions."""

    def broken(regions: Sequence[Region]) -> Code:
        code = convert(regions)
        for region in filter(is_victim, regions):
            code = change(code, region)
        return code

    return replace(PLAIN, convert=broken)
