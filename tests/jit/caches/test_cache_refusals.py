"""Functions whose caches cannot be written in place: refused, with the reason."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax, tirx

import opinfo
from opinfo.jit.arguments.signature import CACHES
from opinfo.transform import AppendToCaches

from .cache_modules import WIDTH, P, Q, draw, module_of, summed, tail, updated

op = relax.op
Array = np.ndarray[Any, Any]
Emit = Callable[[Any], Any]


@pytest.mark.parametrize(("body", "sizes", "why"), [
    (lambda e, x, c: op.add(x, x), (P,), "returns no parameter with new rows"),
    (lambda e, x, c: op.concat([e(op.exp(x)), c[0]], 1), (P,), "is not a parameter"),
    (lambda e, x, c: op.concat([c[0], x], 1), (7,), "axis 1 of a has no symbolic length"),
    (lambda e, x, c: op.concat([c[0], x, x], 1), (P,), "joins 3 tensors"),
    (lambda e, x, c: relax.Tuple([e(op.concat([c[0], x], 1)), e(op.concat([c[0], x], 1))]), (P,),
     "twice"),
    (lambda e, x, c: summed(e, op.concat(e(relax.Tuple([c[0], x])), 1)), (P,), "has a name"),
    (lambda e, x, c: op.concat([c[0], x], 1), (P,), "no tensor of known rank beside its caches"),
    # not the last rows
    *((lambda e, x, c, a=a: tail(e, c[0], x, *a), (P,), "not proved to be the last rows")
      for a in ((0, -3), (4, 1), (3, 0, 2))),
    (lambda e, x, c: tail(e, c[0], x, 3), (5,), "axis 1 of a has no symbolic length"),
    (lambda e, x, c: relax.Tuple([*tail(e, c[0], x, 3).fields, e(op.concat([c[1], x], 1))]),
     (P, P), "keeps different ones"),
    # not rows that replace others
    (lambda e, x, c: updated(e, c[0], x, reduction="add"), (8,), "adds to its cache"),
    (lambda e, x, c: updated(e, c[0], x, back=(1, 2, 0)), (8,), "axes in another order"),
    (lambda e, x, c: updated(e, e(op.exp(c[0])), x), (8,), "updates is not a parameter"),
    (lambda e, x, c: relax.Tuple([*updated(e, c[0], x).fields, e(op.exp(c[0]))]), (8,),
     "reads a elsewhere"),
    (lambda e, x, c: updated(e, c[0], x, lambda out: op.reshape(out, [8, WIDTH])), (8,),
     "may be a view of a cache"),
    (lambda e, x, c: updated(e, c[0], x, chained=op.exp), (8,), "reads a elsewhere"),
])  # fmt: skip
def test_functions_without_caches_say_why(body: Any, sizes: Any, why: str) -> None:
    with pytest.raises(ValueError, match=f"AppendToCaches: no function .*({why})"):
        AppendToCaches()(module_of(body, *sizes))


def refusal(params: list[Any], body: Callable[[Any], Any]) -> str:
    builder = relax.BlockBuilder()
    with builder.function("main", params):
        with builder.dataflow():
            out = builder.emit_output(body(builder))
        builder.emit_func_output(out)
    with pytest.raises(ValueError, match="AppendToCaches: no function") as caught:
        AppendToCaches()(builder.get())
    return str(caught.value)


def rows_of(name: str, *shape: Any, dtype: str = "float32") -> Any:
    return relax.Var(name, relax.TensorType(shape, dtype))


def test_a_matched_cache_is_refused() -> None:
    x, c, r = rows_of("x", 1, Q, WIDTH), rows_of("c", 1, P, WIDTH), tirx.Var("r", "int64")
    ty = relax.TensorType([1, r, WIDTH], "float32")
    why = refusal([x, c], lambda b: summed(b.emit, op.concat([b.match_cast(c, ty), x], 1)))
    assert "is not a parameter" in why


def test_a_tuple_of_caches_used_as_a_whole_is_refused() -> None:
    x, c = rows_of("x", 1, Q, WIDTH), rows_of("c", 1, P, WIDTH)
    past = relax.Var("past", relax.TupleType([c.ty, c.ty]))

    def body(b: Any) -> Any:
        whole = b.emit(op.concat(past, 2))
        return summed(b.emit, op.concat([relax.TupleGetItem(past, 0), x], 1), whole)

    assert "uses past as a whole" in refusal([x, past], body)


def test_a_flattening_concatenation_is_refused() -> None:
    x, c = rows_of("x", Q), rows_of("c", P)
    why = refusal([x, c], lambda b: (lambda j: relax.Tuple([b.emit(op.exp(j)), j]))(
        b.emit(op.concat([c, x], None))))  # fmt: skip
    assert "joins flattened tensors" in why


def test_a_cache_that_numpy_has_no_arrays_of_is_refused() -> None:
    x, c = (rows_of(n, 1, e, WIDTH, dtype="bfloat16") for n, e in (("x", Q), ("c", P)))
    assert "is bfloat16" in refusal([x, c], lambda b: summed(b.emit, op.concat([c, x], 1)))


def test_a_parameter_named_like_the_length_is_refused() -> None:
    x, c = rows_of("x", 1, Q, WIDTH), rows_of("c", 1, P, WIDTH)
    size = relax.Var("cache_length", relax.ShapeType([tirx.Var("n", "int64")]))
    why = refusal([x, size, c], lambda b: summed(b.emit, op.concat([c, x], 1)))
    assert "it has a parameter cache_length" in why


def test_a_store_that_was_simplified_away_is_refused() -> None:
    builder = relax.BlockBuilder()
    x, c = rows_of("x", 1, Q, WIDTH), rows_of("c", 1, P, WIDTH)
    length = relax.Var("cache_length", relax.ShapeType([tirx.Var("n", "int64")]))
    about = '{"caches": [[1, -1, 1, 1, 0]], "groups": [["n"]]}'
    with builder.function("main", [x, c, length], attrs={CACHES: about}):
        with builder.dataflow():
            out = builder.emit_output(op.exp(x))
        builder.emit_func_output(out)
    module = builder.get()
    with pytest.raises(ValueError, match="1 caches, and only 0 stores to them are left"):
        opinfo.compile(module, shapes="generic")


def test_a_session_without_caches_names_the_pass() -> None:
    compiled = opinfo.compile(module_of(lambda e, x, c: op.exp(x)), shapes="generic")
    with opinfo.Session(compiled) as session:
        with pytest.raises(ValueError, match=r"main has no caches; .*AppendToCaches"):
            session.start(draw(1))


def test_a_function_that_stays_beside_a_rewritten_one_is_named() -> None:
    module = module_of(lambda emit, x, pasts: summed(emit, op.concat([pasts[0], x], 1)), P)
    alone = module_of(lambda emit, x, pasts: op.concat([pasts[0], x], 1), P)
    module["prefill"] = alone["main"].with_attr("global_symbol", "prefill")
    with pytest.warns(UserWarning, match="does not change prefill: it returns no tensor"):
        after = AppendToCaches()(module)
    tvm.ir.assert_structural_equal(after["prefill"], module["prefill"])
