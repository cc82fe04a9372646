"""Calls as one graph: results, addresses that change, shapes, streams, limits."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm
import tvm_ffi
from tvm import relax

from opinfo.byoc.backends.nvidia.graphs.whole_call import WholeCall, whole_call

from . import whole_call_cases as cases
from .whole_call_cases import Machine, kernel, module, planned

N = tvm.tirx.Var("n", "int64")
ROWS = 8


def _chain(emit: Any, x: Any) -> Any:
    for name in ("t_count", "t_double", "t_late", "t_count", "t_double"):
        x = kernel(emit, name, x)
    return x


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return cases.built(planned(module(_chain, [(N, 4)], n=ROWS)), tmp_path_factory.mktemp("calls"))


@pytest.fixture
def machine(library: Any) -> Machine:
    return Machine(library)


def _array(seed: int, rows: int = 3) -> Any:
    return np.random.default_rng(seed).integers(-99, 99, (rows, 4)).astype("float32")


def _tensor(seed: int, rows: int = 3) -> Any:
    return tvm.runtime.tensor(_array(seed, rows))


def _put(tensor: Any, seed: int) -> None:
    tensor.copyfrom(_array(seed, tensor.shape[0]))


def test_a_call_with_the_same_addresses_is_launched(machine: Machine) -> None:
    x = _tensor(0)
    for k in range(12):
        _put(x, k)  # the graph reads what is there now
        np.testing.assert_array_equal(machine(x).numpy(), 4 * _array(k))
    counted = machine.counted()
    # Results are in a few places in turn, as a machine keeps the last one, and shapes in others.
    assert counted["instances"] <= 4 and counted["launches"] >= 7


def test_memory_is_cleared_where_a_graph_begins(machine: Machine) -> None:
    x = _tensor(0)
    for _ in range(8):
        np.testing.assert_array_equal(machine(x).numpy(), 4 * _array(0))
    counted = machine.counted()
    assert counted["launches"] > 1
    assert counted["clears"] == 3 * counted["instances"]  # two parts, and what was in use before


def test_results_that_the_caller_holds_are_kept(machine: Machine) -> None:
    x, held = _tensor(0), []
    for k in range(40):
        _put(x, k)
        held.append(machine(x))
    for k, y in enumerate(held):
        np.testing.assert_array_equal(y.numpy(), 4 * _array(k))
    counted = machine.counted()
    assert counted["launches"] >= 35 and counted["instances"] <= 3


def test_inputs_that_are_never_the_same_are_copied(machine: Machine) -> None:
    held = [_tensor(k) for k in range(40)]
    for k, x in enumerate(held):
        np.testing.assert_array_equal(machine(x).numpy(), 4 * _array(k))
    counted = machine.counted()
    assert counted["launches"] >= 35 and counted["instances"] <= 3


def test_another_tensor_at_the_same_address(machine: Machine) -> None:
    memory = np.zeros((ROWS, 4), "float32")
    seen = set()
    for k in range(12):
        rows = 1 + k % 3
        x = tvm_ffi.from_dlpack(memory[:rows])  # other shapes at one address
        memory[:rows] = _array(k, rows)
        seen.add(ctypes.cast(x.data_ptr(), ctypes.c_void_p).value)
        np.testing.assert_array_equal(machine(x).numpy(), 4 * _array(k, rows))
    assert len(seen) == 1


def test_a_view_with_gaps_does_not_reuse_a_compact_instance(machine: Machine) -> None:
    memory = np.zeros((3, 8), "float32")
    for _ in range(3):
        plain = tvm_ffi.from_dlpack(memory.reshape(-1)[:12].reshape(3, 4))
        machine(plain)
    with_gaps = tvm_ffi.from_dlpack(memory[:, :4])  # the same address, shape and dtype
    memory[:, :4] = _array(5)
    machine.counted()
    for _ in range(6):
        machine(with_gaps)
    counted = machine.counted()
    assert (counted["instances"], counted["launches"]) == (0, 0)


@contextmanager
def _stream(number: int) -> Iterator[None]:
    set_stream = ctypes.CDLL(tvm_ffi.libinfo.find_libtvm_ffi()).TVMFFIEnvSetStream
    before = ctypes.c_void_p()
    set_stream(1, 0, ctypes.c_void_p(number), ctypes.byref(before))
    try:
        yield
    finally:
        set_stream(1, 0, before, None)


def test_calls_on_other_streams_wait_for_each_other(machine: Machine) -> None:
    x = _tensor(0)
    for _ in range(3):
        machine(x)
    machine.counted()
    with _stream(64):
        machine(x)
    assert machine.counted()["synchronised"] == 1  # there was no event to wait for
    machine(x)
    with _stream(64):
        machine(x)
    counted = machine.counted()
    assert (counted["waits"], counted["synchronised"]) == (2, 0)
    with _stream(64):
        machine(x)
    assert machine.counted()["waits"] == 0


def test_graphs_are_limited(library: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPINFO_CUDA_GRAPHS", "3")
    machine = Machine(library)
    xs = [_tensor(k, rows) for k, rows in enumerate(range(1, ROWS + 1))]
    for _ in range(4):
        for k, x in enumerate(xs):
            np.testing.assert_array_equal(machine(x).numpy(), 4 * _array(k, k + 1))
    counted = machine.counted()
    assert counted["instances"] >= ROWS and counted["live"] <= 3


def _update(emit: Any, x: Any, cache: Any) -> Any:
    x = kernel(emit, "t_double", x)
    emit(relax.Call(relax.ExternFunc("t_append"), [x, cache], ty_args=[relax.AnyType()]))
    return kernel(emit, "t_double", cache)


def _with_packed(build: Any, shapes: Any) -> Any:
    """As `module`, in a block whose calls may have effects."""
    xs = [relax.Var(f"x{k}", relax.TensorType(s, "float32")) for k, s in enumerate(shapes)]
    builder = relax.BlockBuilder()
    with builder.function("main", xs, attrs={"relax.force_pure": True}):
        builder.emit_func_output(build(builder.emit, *xs))
    return builder.get()


def test_what_is_written_in_place_is_neither_copied_nor_written_twice(tmp_path: Path) -> None:
    mod = planned(_with_packed(_update, [(3, 4), (3, 4)]))
    found = whole_call(mod, mod["main"], cases.SYMBOLS)
    assert isinstance(found, WholeCall) and found.written == (1,)
    machine = Machine(cases.built(mod, tmp_path))
    total, cache = np.zeros((3, 4), "float32"), tvm.runtime.tensor(np.zeros((3, 4), "float32"))
    held = [_tensor(k) for k in range(6)]
    for k, x in enumerate(held):
        y = machine(x, cache)
        total += 2 * _array(k)
        np.testing.assert_array_equal(cache.numpy(), total)
        np.testing.assert_array_equal(y.numpy(), 2 * total)
    assert machine.counted()["launches"] > 0
    other = tvm.runtime.tensor(np.ones((3, 4), "float32"))
    np.testing.assert_array_equal(machine(held[0], other).numpy(), 4 * _array(0) + 2)
    np.testing.assert_array_equal(cache.numpy(), total)


def test_a_view_of_what_is_written_is_not_copied(tmp_path: Path) -> None:
    def build(emit: Any, view: Any, x: Any, cache: Any) -> Any:
        emit(relax.Call(relax.ExternFunc("t_append"), [x, cache], ty_args=[relax.AnyType()]))
        return kernel(emit, "t_double", view)

    machine = Machine(cases.built(planned(_with_packed(build, [(3, 4)] * 3)), tmp_path))
    memory = np.zeros((3, 4), "float32")
    cache, view = tvm_ffi.from_dlpack(memory), tvm_ffi.from_dlpack(memory)
    held = [_tensor(k) for k in range(6)]
    for x in held:
        y = machine(view, x, cache)
        np.testing.assert_array_equal(y.numpy(), 2 * memory)


def test_weights_that_stay_where_they_are_are_not_copied(tmp_path: Path) -> None:
    def build(emit: Any, x: Any, weight: Any) -> Any:
        y = kernel(emit, "t_double", x)
        emit(relax.Call(relax.ExternFunc("t_append"), [weight, y], ty_args=[relax.AnyType()]))
        return kernel(emit, "t_double", y)

    machine = Machine(cases.built(planned(_with_packed(build, [(3, 4)] * 2)), tmp_path))
    weight, xs = _tensor(100), [_tensor(k) for k in range(20)]
    held = [machine(x, weight) for x in xs]
    for k, y in enumerate(held):
        np.testing.assert_array_equal(y.numpy(), 4 * _array(k) + 2 * _array(100))
    counted = machine.counted()
    assert 0 < counted["copies"] <= 2 * len(xs)  # inputs and results
    other = _tensor(101)
    for k, x in enumerate(xs):
        np.testing.assert_array_equal(machine(x, other).numpy(), 4 * _array(k) + 2 * _array(101))


def test_a_failing_kernel_costs_its_call_only(tmp_path: Path) -> None:
    def build(emit: Any, x: Any) -> Any:
        return kernel(emit, "t_fail", kernel(emit, "t_double", x))

    machine = Machine(cases.built(planned(module(build, [(3, 4)])), tmp_path))
    for _ in range(3):
        with pytest.raises(ValueError, match="a kernel of the test"):
            machine(_tensor(0))
    assert machine.counted()["live"] == 0


def test_graphs_end_with_their_machine(library: Any) -> None:
    machine, x = Machine(library), _tensor(0)
    for _ in range(6):
        machine(x)
    assert machine.counted()["live"] > 0
    machine.end()
    assert machine.counted()["live"] < 0


def test_tuples_of_parameters_are_inputs(tmp_path: Path) -> None:
    """As the keys and values of all layers: kernels read them where they are."""
    ty = relax.TensorType((3, 4), "float32")
    x, past = relax.Var("x", ty), relax.Var("past", relax.TupleType([ty, ty]))
    builder = relax.BlockBuilder()
    with builder.function("main", [x, past]):
        with builder.dataflow():
            first, second = (builder.emit(relax.TupleGetItem(past, k)) for k in range(2))
            y = kernel(builder.emit, "t_double", kernel(builder.emit, "t_double", x))
            results = [y, kernel(builder.emit, "t_double", second), first]
            out = builder.emit_output(relax.Tuple(results))
        builder.emit_func_output(out)
    mod = planned(builder.get())
    assert isinstance(whole_call(mod, mod["main"], cases.SYMBOLS), WholeCall)
    machine = Machine(cases.built(mod, tmp_path))
    tensors = [_tensor(k) for k in range(3)]
    for k in range(12):
        for j, tensor in enumerate(tensors):
            _put(tensor, 3 * k + j)
        got = machine(tensors[0], tensors[1:])
        want = 4 * _array(3 * k), 2 * _array(3 * k + 2), _array(3 * k + 1)
        for have, value in zip(got, want, strict=True):
            np.testing.assert_array_equal(have.numpy(), value)
        del got
    counted = machine.counted()
    assert counted["launches"] > 0 and counted["copies"] <= 12 * 3


REFUSED = {
    "sizes have no bounds": lambda: module(_chain, [(N, 4)]),
    "it has 1 kernels": lambda: module(lambda e, x: kernel(e, "t_double", x), [(3, 4)]),
    "it calls host_function": lambda: module(
        lambda e, x: kernel(e, "host_function", kernel(e, "t_double", x)), [(3, 4)]),
}  # fmt: skip


@pytest.mark.parametrize("reason", REFUSED)
def test_what_is_not_one_graph(reason: str) -> None:
    mod = planned(REFUSED[reason]())
    found = whole_call(mod, mod["main"], cases.SYMBOLS)
    assert isinstance(found, str) and found.startswith(reason)
