"""Attention of trees, and with scaled rotary embeddings, has kernels of our own, too."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np
import pytest
import tvm
import tvm_ffi
from tvm import tirx

from opinfo.analysis import OpInfo, op_info
from opinfo.byoc.codegen.host_target import native_target
from opinfo.byoc.prepare.paged.own_attention import own_attention
from opinfo.testing.mutants import mutants

from .attention_cases import THETA, Case, numbered, scaled
from .kernel_runs import attended, check, generated

#: Parents of nodes: a chain that forks, a forest, one node.
FORK, FOREST, SINGLE = (-1, 0, 0, 1, 1, 2), (-1, -1, 0, 1, 2), (-1,)

TREES = {
    "float32": Case(2, 4, 32, "float32", (6, 5, 1), (6, 5, 1), trees=(FORK, FOREST, SINGLE)),
    "turned, float16": Case(1, 4, 64, "float16", (6, 1), (6, 1), trees=(FORK, SINGLE), turned=1),
    "a long chain": Case(1, 2, 32, "float32", (70,), (70,), trees=(tuple(range(-1, 69)),)),
    "bfloat16": Case(1, 2, 32, "bfloat16", (5,), (5,), trees=(FOREST,), turned=1),
}
PAGED = {
    "float16": Case(2, 4, 32, "float16", (6, 5, 1), (46, 5, 17), trees=(FORK, FOREST, SINGLE)),
    "fewer rows than nodes": Case(1, 3, 32, "float32", (2, 5), (40, 33), trees=(FORK, FOREST)),
}


@pytest.mark.part
@pytest.mark.parametrize("cpu", [False, True])
@pytest.mark.parametrize("name", TREES)
def test_nodes_of_trees_see_their_ancestors(name: str, cpu: bool) -> None:
    check("tree", TREES[name], cpu=cpu)


@pytest.mark.part
@pytest.mark.parametrize("cpu", [False, True])
@pytest.mark.parametrize("name", PAGED)
def test_nodes_of_trees_see_pages_before_the_tree(name: str, cpu: bool) -> None:
    check("paged tree", PAGED[name], cpu=cpu)


def test_kernels_of_trees_for_cpus_compute_what_ours_do() -> None:
    check("tree", TREES["float32"], cpu=True, own=False)
    check("paged tree", PAGED["fewer rows than nodes"], cpu=True, own=False)


def test_nodes_are_numbered_depth_first() -> None:
    assert numbered(FORK) == [(0, 6), (1, 4), (4, 6), (2, 3), (3, 4), (5, 6)]


@pytest.mark.parametrize("cpu", [False, True])
def test_trees_over_pages_still_assert_that_nothing_is_turned(cpu: bool) -> None:
    func = generated("paged tree", PAGED["float16"], cpu)
    mod = tvm.IRModule({"main": func.with_attr("global_symbol", "main")})
    found: list[Any] = []
    (new,) = own_attention(mod, native_target()).functions.values()
    tvm_ffi.structural_walk(new.body, (tirx.AssertStmt, found.append))
    assert [str(node.condition) for node in found] == [f"{func.params[10].name} == 0"]


SCALINGS: dict[str, dict[str, Any]] = {
    "llama3": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0,
               "high_freq_factor": 4.0, "original_max_position_embeddings": 64},
    "yarn": {"rope_type": "yarn", "factor": 4.0, "beta_fast": 8, "beta_slow": 1,
             "original_max_position_embeddings": 256,
             "inv_theta_log_scale": 1 / (2 * math.log(THETA))},
    "longrope": {"rope_type": "longrope", "max_position_embeddings": 4096,
                 "original_max_position_embeddings": 64},
}  # fmt: skip
SCALED = {
    "decode": Case(1, 4, 32, "float16", (1, 1), (20, 33), turned=1),
    "prefill": Case(1, 3, 32, "float32", (4, 9), (6, 70), turned=1),
    "ragged": Case(1, 4, 32, "float32", (3, 0, 7), (3, 9, 33), causal=0, turned=1),
    "tree": Case(1, 4, 32, "float32", (6, 1), (6, 1), trees=(FORK, SINGLE), turned=1),
}


def scaled_case(kind: str, scaling: str) -> Case:
    return replace(SCALED[kind], scaling=tuple(SCALINGS[scaling].items()))


@pytest.mark.part
@pytest.mark.parametrize("scaling", SCALINGS)
@pytest.mark.parametrize("kind", SCALED)
def test_rotary_embeddings_may_be_scaled(kind: str, scaling: str) -> None:
    check(kind, scaled_case(kind, scaling), cpu=kind == "ragged")


@pytest.mark.part("longrope")
@pytest.mark.parametrize("scaling", SCALINGS)
def test_kernels_with_scalings_for_cpus_compute_what_ours_do(scaling: str) -> None:
    check("decode", scaled_case("decode", scaling), cpu=True, own=False)


@pytest.mark.parametrize("scaling", SCALINGS)
def test_a_scaling_changes_results(scaling: str) -> None:
    """Else the tests above would also pass for another scaling."""
    *_, plain, _ = attended("decode", SCALED["decode"])
    *_, other, _ = attended("decode", scaled_case("decode", scaling))
    assert np.abs(plain - other).max() > 0.02


def test_trees_over_pages_turn_nothing_whatever_the_scaling() -> None:
    case = replace(PAGED["float16"], scaling=tuple(SCALINGS["yarn"].items()))
    check("paged tree", case)


def test_parameters_are_those_of_the_model() -> None:
    info = op_info(generated("decode", scaled_case("decode", "llama3"), False))
    assert isinstance(info, OpInfo) and info.attrs["scaling"] == "llama3"
    part, alpha, beta = info.attrs["parameters"]
    assert (part, beta) == (1 / 8, 1 / 3) and alpha == pytest.approx(64 / (2 * math.pi) / 3)
    frequencies, _ = scaled(32, SCALINGS["llama3"])
    power = THETA ** -(np.arange(16) / 16)
    smooth = np.clip(alpha * power - beta, 0, 1)
    np.testing.assert_allclose((1 - smooth) * power * part + smooth * power, frequencies[:16])


#: What is changed in a rotation.
CHANGED = (tirx.FloatImm, tirx.Min, tirx.Sub)


def changed(func: Any, place: int) -> Any:
    """The PrimFunc with one number or operation of one rotation changed: the one of this place."""
    seen = iter(range(1000))

    def visit(node: Any, mutator: Any) -> Any:
        if next(seen) != place:
            return node if isinstance(node, tirx.FloatImm) else mutator.default_mutate(node)
        if isinstance(node, tirx.FloatImm):
            return tirx.FloatImm("float32", float(node.value) + 0.5)
        return (tirx.Max if isinstance(node, tirx.Min) else tirx.Add)(node.a, node.b)

    def let(node: Any, mutator: Any) -> Any:
        value = tvm_ffi.structural_mutate(node.value, [(kind, visit) for kind in CHANGED])
        return tirx.Let(node.var, value, mutator.mutate(node.body))

    return func.with_body(tvm_ffi.structural_mutate(func.body, [(tirx.Let, let)]))


@pytest.mark.parametrize("scaling", ["", *SCALINGS])
def test_a_rotation_that_differs_in_one_number_stays(scaling: str) -> None:
    case = scaled_case("decode", scaling) if scaling else SCALED["decode"]
    func = generated("decode", case, True)
    others = [changed(func, place) for place in range(9 if scaling in ("llama3", "yarn") else 2)]
    for other in others:
        assert not tvm_ffi.structural_equal(other, func)
        mod = tvm.IRModule({"main": other})
        assert own_attention(mod, native_target()) is mod


@pytest.mark.parametrize("kind", ["tree", "paged tree"])
def test_mutants_of_trees_stay(kind: str) -> None:
    func = generated(kind, TREES["float32"] if kind == "tree" else PAGED["float16"], True)
    for change, mutant in islice(mutants(func), 6):
        mod = tvm.IRModule({"main": mutant})
        assert own_attention(mod, native_target()) is mod, change
