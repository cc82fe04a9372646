"""A backend of plain C++ loops, to test everything around one."""

from __future__ import annotations

from collections.abc import Sequence

from opinfo.analysis import Constant
from opinfo.byoc.backend.backend import Backend, Code
from opinfo.byoc.backend.region import Call, Region
from opinfo.byoc.codegen.abi import ABI
from opinfo.byoc.patterns.pattern import Node, Pattern, maybe, one


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
    return Code(ABI + "#include <cmath>\n" + "".join(map(_function, regions)), symbols)


def _function(r: Region) -> str:
    tensors = [f"x{k}" for k in range(len(r.inputs))] + [f"out{k}" for k in range(len(r.results))]
    count = 1
    for e in r.result.shape:
        count *= e
    lines = [f"    float v{k} = {_value(c)};" for k, c in enumerate(r.calls)]
    lines += [f"    pout{k}[i] = v{t.index};" for k, t in enumerate(r.results)]
    pointers = "".join(
        f"  auto* p{n} = reinterpret_cast<float*>(opinfo::data(opinfo::tensor(args[{k}])));\n"
        for k, n in enumerate(tensors)
    )
    return f"""
OPINFO_FUNCTION({r.symbol}) {{
{pointers}  for (int64_t i = 0; i < {count}; ++i) {{
{chr(10).join(lines)}
  }}
  return 0;
}}
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
    if c.op == "relax.maximum":
        return f"fmaxf({values[0]}, {values[1]})"
    return f"fmaxf({values[0]}, 0.f)" if c.op == "relax.nn.relu" else f"expf({values[0]})"


TOY = Backend("toy", PATTERNS, convert)
