"""Linear attention: a matrix of each head that is updated step by step, instead of a cache.

    S_t = exp(g_t) S_(t-1) + k_t outer d_t        o_t = scale S_t^T q_t
    d_t = v_t                                      for the rules linear and gated
    d_t = b_t (v_t - (exp(g_t) S_(t-1))^T k_t)     for delta and gated_delta

Rules without a gate have `g = 0`. Yang et al., Gated Delta Networks, 2412.06464.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tvm import te, tirx
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T


@dataclass(frozen=True)
class LinearAttention:
    """The kernel over all steps.

    Attributes:
        queries: The number of heads of queries.
        keys: That of keys.
        values: That of values, and of matrices.
        depth: The size of a query and of a key.
        width: The size of a value.
        scale: The factor of results.
        gates: How many numbers the gate of a head has, 0 for none.
        rates: How many heads have a rate `b` of their own, 0 for no rates.
    """

    queries: int
    keys: int
    values: int
    depth: int
    width: int
    scale: float
    gates: int
    rates: int

    def __call__(self, *operands: te.Tensor) -> Any:
        """Return [batch, steps, heads * width], the matrices after the last step, and scratch.

        Args:
            operands: Queries, keys and values, [batch, steps, heads * size]; the matrices before
                the first step, [batch, heads, depth, width]; then gates and rates, if there are.
        """
        query = operands[0]
        batch, steps, dtype = query.shape[0], query.shape[1], str(query.dtype)
        heads = max(self.queries, self.values)
        shapes = [(batch, steps, heads * self.width),
                  (batch, self.values, self.depth, self.width),
                  (batch, self.values, self.width)]  # fmt: skip

        def body(inputs: Any, outputs: Any) -> Any:
            with IRBuilder() as builder:
                with T.serial(0, batch) as b, T.serial(0, self.values) as h:
                    buffers = [T.buffer_proxy(x) for x in (*inputs, *outputs)]
                    self._head(buffers[: len(inputs)], buffers[len(inputs) :], (b, h, steps))
                return builder.get()

        return te.extern(shapes, list(operands), body, dtype=[dtype] * 3, name="linear_attention")

    def _head(self, inputs: Any, outputs: Any, at: tuple[Any, Any, Any]) -> None:
        """Emit all steps of one head."""
        b, h, steps = at
        query, key, value, before, *more = inputs
        out, state, change = outputs
        zero = tirx.const(0, query.dtype)
        with T.serial(0, self.depth) as i, T.serial(0, self.width) as j:
            state[b, h, i, j] = before[b, h, i, j]
        with T.serial(0, steps) as t:
            if self.gates:
                self._decay(state, more[0], (b, h, t))
            with T.serial(0, self.width) as j:
                change[b, h, j] = zero if self.rates else value[b, t, h * self.width + j]
            own = h // (self.values // self.keys) * self.depth
            if self.rates:
                with T.serial(0, self.depth) as i, T.serial(0, self.width) as j:
                    product = state[b, h, i, j] * key[b, t, own + i]
                    change[b, h, j] = change[b, h, j] + product
                rate = more[-1][b, t, h if self.rates > 1 else 0]
                with T.serial(0, self.width) as j:
                    rest = value[b, t, h * self.width + j] - change[b, h, j]
                    change[b, h, j] = rate * rest
            with T.serial(0, self.depth) as i, T.serial(0, self.width) as j:
                state[b, h, i, j] = state[b, h, i, j] + key[b, t, own + i] * change[b, h, j]
            self._read(query, state, out, (b, h, t))

    def _decay(self, state: Any, gate: Any, at: tuple[Any, Any, Any]) -> None:
        b, h, t = at
        factor = T.buffer_proxy(T.alloc_buffer((1,), gate.dtype, scope="local"))
        with T.serial(0, self.depth) as i:
            factor[0] = tirx.exp(gate[b, t, h * self.gates + (i if self.gates > 1 else 0)])
            with T.serial(0, self.width) as j:
                state[b, h, i, j] = state[b, h, i, j] * factor[0]

    def _read(self, query: Any, state: Any, out: Any, at: tuple[Any, Any, Any]) -> None:
        """Emit the results of the queries of a head; several matrices may share a query."""
        b, h, t = at
        zero, scale = tirx.const(0, query.dtype), tirx.const(self.scale, query.dtype)
        for k in range(max(self.queries // self.values, 1)):
            if self.queries >= self.values:
                place = h * (self.queries // self.values) + k
                own = place
            else:
                place, own = h, h // (self.values // self.queries)
            with T.serial(0, self.width) as j:
                out[b, t, place * self.width + j] = zero
            with T.serial(0, self.depth) as i, T.serial(0, self.width) as j:
                product = scale * query[b, t, own * self.depth + i] * state[b, h, i, j]
                column = place * self.width + j
                out[b, t, column] = out[b, t, column] + product
