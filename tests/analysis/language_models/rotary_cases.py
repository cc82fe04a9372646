"""Forms of rotary embeddings: kernels of TVM, and calls of the operator."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from tvm import relax
from tvm.relax.frontend.nn.llm import position_embedding as llm

from opinfo.analysis import OpInfo
from opinfo.analysis.lifting.lift import lift
from opinfo.analysis.proposal.build import rebuild
from opinfo.analysis.proposal.proposal import Proposal

from ...common.interpret import compiled

LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 8192}  # fmt: skip
LLAMA4 = LLAMA3 | {"rope_type": "llama4"}
YARN = {"rope_type": "yarn", "factor": 4.0, "beta_fast": 32, "beta_slow": 1,
        "original_max_position_embeddings": 4096,
        "inv_theta_log_scale": 1 / (2 * math.log(1e4))}  # fmt: skip
GPTJ = {"rope_type": "gptj"}


def mapped(scaling: Mapping[str, Any], make: Any = None, **options: Any) -> Any:
    """TVM's kernel over a map of positions."""
    given = {"theta": 10000, "scale": 1.0, "head_dim": 8, "num_q_heads": 4, "num_kv_heads": 2,
             "dtype": "float16", "rope_scaling": dict(scaling), **options}  # fmt: skip
    return (make or llm.llama_rope_with_position_map)(**given)


#: TVM's kernel and the attributes that differ from the usual ones.
FORMS: Mapping[str, tuple[Any, Mapping[str, Any]]] = {
    "neox": (lambda: mapped({}), {}),
    "scaled positions": (lambda: mapped({}, scale=0.3), {"scale": 0.3}),
    "float32": (lambda: mapped({}, dtype="float32", theta=500000), {"base": 500000.0}),
    "other heads": (lambda: mapped({}, num_q_heads=3, num_kv_heads=1), {"heads": (3, 1, 1)}),
    "partial": (lambda: mapped({}, rotary_dim=4), {"rotary_dim": 4}),
    "gptj": (lambda: mapped(GPTJ), {"style": "gptj"}),
    "gptj partial": (lambda: mapped(GPTJ, rotary_dim=4), {"style": "gptj", "rotary_dim": 4}),
    "llama3": (
        lambda: mapped(LLAMA3),
        {"scaling": "llama3", "parameters": (1 / 8, 8192 / (2 * math.pi) * (1 / 3), 1 / 3)},
    ),
    "llama4": (
        lambda: mapped(LLAMA4, llm.llama4_rope_with_position_map),
        {"scaling": "llama3", "style": "gptj",
         "parameters": (1 / 8, 8192 / (2 * math.pi) * (1 / 3), 1 / 3)},
    ),
    "llama4 step": (
        lambda: mapped(LLAMA4 | {"high_freq_factor": 1.0}, llm.llama4_rope_with_position_map),
        {"scaling": "llama4", "style": "gptj", "parameters": (8.0, 8192.0, 2 * math.pi)},
    ),
    "yarn": (lambda: mapped(YARN), {"scaling": "yarn"}),
}  # fmt: skip


def module(make: Any, operands: list[Any], attrs: Mapping[str, Any]) -> Any:
    params = [relax.Var(f"a{k}", relax.TensorType(a.shape, str(a.dtype)))
              for k, a in enumerate(operands)]  # fmt: skip
    builder = relax.BlockBuilder()
    with builder.function("main", params):
        with builder.dataflow():
            out = builder.emit_output(make(*params, **attrs))
        builder.emit_func_output(out)
    return builder.get()


X = np.random.default_rng(0).uniform(-2, 2, (3, 8, 8)).astype("float32")
DATA = np.random.default_rng(1).uniform(-2, 2, (2, 3, 8, 8))
INPUTS = [([DATA[k], np.array(p, "int32")], {"seq_len": 3, "apply_rope": switch})
          for k, (p, switch) in enumerate([([1, 5, 2], 1), ([3, 0, 9], 0)])]  # fmt: skip


def operators(
    func: Any, info: OpInfo, values: list[Any], sizes: Mapping[str, int]
) -> list[Any]:  # fmt: skip
    """What the recovered operator computes, by its own lowering."""
    built = rebuild(Proposal(info.name, info.operands, info.attrs), lift(func))
    scalars = [np.array(sizes.get(p.name, 0)) for p in func.params]
    inputs = [*values, *scalars[len(values) :]]
    results = len(lift(func).outputs)
    read = [p.position for p in built.params[:-results]]  # type: ignore[union-attr]
    return compiled(built.func)([inputs[p] for p in read], {"seq_len": 3})
