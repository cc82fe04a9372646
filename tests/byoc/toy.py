"""A backend of plain C++ loops, to test everything around one."""

from __future__ import annotations

from collections.abc import Sequence

from opinfo.analysis import Constant
from opinfo.byoc.backend import Backend, Code
from opinfo.byoc.pattern import Node, Pattern, maybe, one
from opinfo.byoc.region import Call, Region

HEAD = """#include <tvm/ffi/tvm_ffi.h>
#include <tvm/ffi/container/tensor.h>
#include <cmath>
using tvm::ffi::TensorView;
"""


def static(node: Node) -> str | None:
    dims = node.result.shape
    return None if all(isinstance(e, int) for e in dims) else "the shape is symbolic"


def flat(node: Node) -> str | None:
    """Operands of one shape only, or literals."""
    same = all(v.shape == node.result.shape for v in node.others)
    return None if same else "an operand is broadcast"


PATTERNS = (
    Pattern("pointwise", one("relax.add", static, flat), maybe("relax.nn.relu"),
            maybe("relax.exp")),
    Pattern("relu", one("relax.nn.relu", static)),
)  # fmt: skip


def convert(regions: Sequence[Region]) -> Code:
    """A function for each region."""
    symbols = tuple(r.symbol for r in regions)
    return Code(HEAD + "".join(map(_function, regions)), symbols)


def _function(r: Region) -> str:
    names = [f"x{k}" for k in range(len(r.inputs))]
    count = 1
    for e in r.result.shape:
        count *= e
    lines = [f"    float v{k} = {_value(c)};" for k, c in enumerate(r.calls)]
    pointers = "".join(
        f"  auto* p{n} = static_cast<float*>({n}.data_ptr());\n" for n in [*names, "out"]
    )
    return f"""
static void {r.symbol}_({", ".join(f"TensorView {n}" for n in [*names, "out"])}) {{
{pointers}  for (int64_t i = 0; i < {count}; ++i) {{
{chr(10).join(lines)}
    pout[i] = v{len(r.calls) - 1};
  }}
}}
TVM_FFI_DLL_EXPORT_TYPED_FUNC({r.symbol}, {r.symbol}_)
"""


def _value(c: Call) -> str:
    def read(o: object) -> str:
        if isinstance(o, Constant):
            return f"{float(o.value)}f"
        assert not isinstance(o, Constant)
        return f"px{o.index}[i]" if o.source == "input" else f"v{o.index}"  # type: ignore[attr-defined]

    values = list(map(read, c.operands))
    if c.op == "relax.add":
        return f"{values[0]} + {values[1]}"
    return f"fmaxf({values[0]}, 0.f)" if c.op == "relax.nn.relu" else f"expf({values[0]})"


TOY = Backend("toy", PATTERNS, convert)
