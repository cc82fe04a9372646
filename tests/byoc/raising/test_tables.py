"""TVM's own pattern tables match what was lowered, stripped and raised."""

from __future__ import annotations

import functools
from collections import Counter
from typing import Any

import numpy as np
import pytest
from tvm import relax
from tvm.relax.backend.pattern_registry import get_patterns_with_prefix

from benchmarks.backends.tables.partitions import TABLES, WANTS, composites
from benchmarks.backends.tables.zoo import ZOO, module
from opinfo.byoc import keeping_chains
from opinfo.byoc.prepare.raising.raise_ops import raise_ops
from opinfo.layout.graph.read_graph import graph
from opinfo.layout.graph.relax_graph import Value
from opinfo.layout.model.layout import Layout
from opinfo.layout.plan import plan_layout
from opinfo.layout.search.function_plan import bytes_moved
from opinfo.testing.strip import strip_module
from opinfo.transform import RaiseOps

from ...common.run import run
from ...layout import nets
from ...layout.nets import const

nn, op = relax.op.nn, relax.op
#: A table, and graphs that its patterns are for.
MATCHED = (("cutlass", "convs NHWC"), ("cutlass", "matmuls"), ("cutlass", "attentions"),
           ("cutlass", "norms"), ("cudnn", "convs NHWC"), ("cudnn", "attentions"),
           ("cublas", "matmuls"), ("hipblas", "matmuls"), ("dnnl", "convs NHWC"),
           ("dnnl", "matmuls"), ("tensorrt", "single operators"))  # fmt: skip
#: Patterns that go by the name of a PrimFunc, or whose operator TVM does not lower.
NOT_LOWERED = ("cutlass.decode_matmul", "cutlass.rms_norm", "cutlass.attention_var_len")
#: The table has both names for one compute.
SAME = {"tensorrt.nn.adaptive_avg_pool2d": "tensorrt.mean",
        "tensorrt.nn.batch_flatten": "tensorrt.reshape"}  # fmt: skip


@functools.cache
def _modules(zoo: str) -> tuple[Any, Any, Any]:
    """As imported, lowered and stripped, raised."""
    original = module(ZOO[zoo]())
    lowered = strip_module(relax.transform.LegalizeOps()(original))
    return original, lowered, raise_ops(lowered).module


@pytest.mark.parametrize(("table", "zoo"), MATCHED)
def test_a_raised_module_matches_as_the_original(table: str, zoo: str) -> None:
    before, lowered, after = (composites(m, table) for m in _modules(zoo))
    assert not lowered
    usual: Counter[str] = Counter()
    for name, n in before.items():
        usual[SAME.get(name, name)] += n
    assert after == usual
    assert after


def test_every_pattern_of_a_table_is_met() -> None:
    met: set[str] = set()
    for table, zoo in MATCHED:
        met |= set(composites(_modules(zoo)[0], table))
    for table in ("cutlass", "cudnn", "hipblas", "tensorrt"):
        names = {str(p.name) for p in get_patterns_with_prefix(f"{table}.")}
        assert {n for n in names - met if not n.startswith(NOT_LOWERED)} == set()
    assert not get_patterns_with_prefix("dnnl")


@pytest.mark.parametrize("table", ["cutlass", "cudnn"])
def test_planned_layouts_are_those_that_the_table_takes(table: str) -> None:
    def build(emit: Any, rng: Any, x: Any) -> Any:
        for _ in range(2):
            y = emit(nn.conv2d(x, const(rng, 8, 8, 3, 3), padding=1))
            x = emit(nn.relu(emit(op.add(y, const(rng, 1, 8, 1, 1)))))
        return emit(op.mean(x, [2, 3]))

    lowered = strip_module(nets.net(build, (1, 8, 6, 6)))
    planned = raise_ops(plan_layout(lowered, WANTS[table], mode="graph").module).module
    found = composites(planned, table)
    name = {"cutlass": "cutlass.conv2d_bias_relu", "cudnn": "cudnn.conv2d.nhwc_ohwi_bias_relu"}
    assert found == {name[table]: 2}
    assert 'kernel_layout="OHWI"' in planned.script()
    assert composites(raise_ops(lowered).module, "cutlass").total() == 0


def _ends_in_its_bias(emit: Any, rng: Any, x: Any, y: Any) -> Any:
    z = emit(nn.conv2d(x, const(rng, 8, 8, 3, 3), padding=1))
    z = emit(nn.relu(emit(op.add(z, const(rng, 1, 8, 1, 1)))))
    return emit(op.add(z, y))


@pytest.mark.parametrize(("chains", "name"), [
    (False, "cutlass.conv2d"), (True, "cutlass.conv2d_bias_relu_residual_add")])  # fmt: skip
def test_a_conversion_cuts_no_chain_if_that_is_asked(chains: bool, name: str) -> None:
    lowered = nets.net(_ends_in_its_bias, (1, 8, 6, 6), (1, 8, 6, 6))
    objective = keeping_chains() if chains else "bytes"
    planned = plan_layout(lowered, WANTS["cutlass"], mode="graph", objective=objective).module
    assert composites(raise_ops(planned).module, "cutlass") == {name: 1}
    xs = [np.random.default_rng(k).standard_normal((1, 8, 6, 6)).astype("float32") for k in (0, 1)]
    np.testing.assert_allclose(run(planned, xs)[0], run(lowered, xs)[0], rtol=1e-4, atol=1e-5)


def test_chains_are_kept_where_there_are_some() -> None:
    def build(emit: Any, rng: Any, x: Any) -> Any:
        y = emit(nn.conv2d(x, const(rng, 8, 8, 3, 3), padding=1))
        z = emit(nn.relu(emit(op.add(y, const(rng, 1, 8, 1, 1)))))
        w = emit(op.exp(emit(op.mean(z, [2, 3]))))
        return emit(relax.Tuple([w, emit(op.tanh(w))]))

    mod = nets.net(build, (1, 8, 6, 6))
    values = {v.name: v for v in graph(mod, mod["main"]).values}
    cost = keeping_chains()

    def dearer(v: Value) -> bool:
        layout = Layout.identity(v.rank)
        return cost(v, layout) > bytes_moved(v, layout)

    assert {name for name, v in values.items() if dearer(v)} == {"lv", "lv1"}


def test_of_several_names_the_preferred_one_is_raised() -> None:
    def build(emit: Any, rng: Any, x: Any) -> Any:
        return emit(nn.relu(emit(op.mean(x, [2, 3], keepdims=True))))

    lowered = strip_module(nets.net(build, (2, 4, 6, 6)))
    pool = "relax.nn.adaptive_avg_pool2d"

    def names(*prefer: str) -> list[str]:
        return [s.op for s in raise_ops(lowered, prefer=prefer).raised]

    assert names() == ["relax.mean", "relax.nn.relu"]
    assert names("relax.exp", pool, "relax.mean") == [pool, "relax.nn.relu"]
    assert "adaptive_avg_pool2d" in RaiseOps(prefer=[pool])(lowered).script()
    with pytest.raises(TypeError, match="sequence of operators, got 'relax"):
        raise_ops(lowered, prefer="relax.mean")


def test_a_partition_does_not_change_the_module_that_is_counted() -> None:
    original = _modules("matmuls")[0]
    text = original.script()
    for table in TABLES:
        composites(original, table)
    assert original.script() == text
