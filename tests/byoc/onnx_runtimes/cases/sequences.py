"""Sorting, reversed sequences and recurrent layers that ONNX has."""

from __future__ import annotations

from typing import Any

import numpy as np
from tvm import relax

from opinfo.analysis.recurrent.quantized_lstm_operator import quantized_lstm
from opinfo.analysis.recurrent.recurrence_operator import recurrence

from ....layout.nets import const
from .onnx_case import LACKED, Build, N, OnnxCase, call

op = relax.op


def _largest(kind: str, k: int, dtype: str) -> Build:
    """The largest or smallest of few different numbers, and their places."""

    def build(e: Any, r: Any, x: Any) -> Any:
        found = e(op.topk(e(op.floor(x)), k, 1, kind, k > 2, dtype))
        if kind != "both":
            return found
        values, places = (e(relax.TupleGetItem(found, j)) for j in range(2))
        return e(op.add(values, e(op.multiply(e(op.astype(places, "float32")), relax.const(9.0)))))

    return build


def _recurrent(cell: str, activations: tuple[str, ...], **attrs: Any) -> OnnxCase:
    """A layer of 4 units over a batch of 1, of which all states are read."""
    gates, states = {"LSTM": (4, 2), "GRU": (3, 1), "RNN": (1, 1)}[cell]

    def build(e: Any, r: Any, x: Any, *initial: Any) -> Any:
        inputs = e(op.add(e(op.matmul(x, const(r, 3, 4 * gates))), const(r, 4 * gates)))
        operands = [inputs, const(r, 4, 4 * gates), const(r, 4 * gates), *initial]
        found = e(recurrence(operands, cell, activations, **attrs))
        steps, *last = (e(relax.TupleGetItem(found, k)) for k in range(1 + states))
        return e(op.concat([e(op.reshape(steps, (N, 4))), *last], 0))

    return OnnxCase(build, ((N, 1, 3), *[(1, 4)] * states))


def _quantized_lstm(dtype: str, zero: int, columns: int, **attrs: Any) -> OnnxCase:
    """An LSTM of 4 units over integers, whose weights have so many scales and zero points."""

    def build(e: Any, r: Any, x: Any, *initial: Any) -> Any:
        weights = []
        for rows in (3, 4):
            codes = r.integers(zero - 128, zero + 128, (rows, 16)).astype(dtype)
            scale = r.uniform(0.01, 0.02, columns).astype("float32")
            weights += [relax.const(codes), relax.const(scale),
                        relax.const(np.full(columns, zero, dtype))]  # fmt: skip
        operands = [x, *weights, const(r, 16), *initial]
        found = e(quantized_lstm(operands, ("Sigmoid", "Tanh", "Tanh"), **attrs))
        steps, *last = (e(relax.TupleGetItem(found, k)) for k in range(3))
        return e(op.concat([e(op.reshape(steps, (N, 4))), *last], 0))

    return OnnxCase(build, ((N, 1, 3), (1, 4), (1, 4)), refused=LACKED)


ORDERED: dict[str, OnnxCase] = {
    "topk": OnnxCase(_largest("both", 3, "int64"), ((4, 9),), refused=LACKED),
    "topk, values": OnnxCase(_largest("values", 2, "int64"), ((4, 9),), refused=LACKED),
    "topk, places": OnnxCase(_largest("indices", 2, "int32"), ((N, 9),), refused=LACKED),
    "sort": OnnxCase(call(op.sort, 1, True), ((3, N),)),
    "argsort": OnnxCase(lambda e, r, x: e(op.argsort(e(op.floor(x)), 0, dtype="int32")),
                        ((9, 4),), refused=LACKED),
    "reverse_sequence": OnnxCase(lambda e, r, x: e(op.reverse_sequence(
        x, relax.const(np.array([2, 1, 4, 3])), 0, 1)), ((5, 4, 2),)),
    "lstm": _recurrent("LSTM", ("Sigmoid", "Tanh", "Tanh")),
    "lstm, reverse": _recurrent("LSTM", ("Sigmoid", "Relu", "Tanh"), reverse=True),
    "lstm, quantised": _quantized_lstm("int8", 0, 1),
    "lstm, quantised by columns": _quantized_lstm("uint8", 128, 16, reverse=True),
    "gru": _recurrent("GRU", ("Sigmoid", "Tanh")),
    "gru, reset after": _recurrent("GRU", ("Sigmoid", "Tanh"), linear_before_reset=True),
    "rnn": _recurrent("RNN", ("Tanh",), reverse=True),
}  # fmt: skip
