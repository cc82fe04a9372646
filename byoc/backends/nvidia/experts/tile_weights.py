"""A tile of weights of an expert: read as vectors of 16 bytes, and stored as halves."""

from __future__ import annotations

from typing import Any

from tvm import tirx

from .....analysis.blocks.tir import seq
from .....analysis.lifting.tir.node import as_dtype
from ..grouped_weights.grouped_product import GroupedProduct
from ..schedules.program.gpu_program import NoGpuSchedule
from ..schedules.program.thread_loops import load, local, number, store, unrolled, vectorized

#: Bytes of a vector, and halves of one.
BYTES, HALVES_OF = 16, 8
#: The exponent of 2**23, whose lowest mantissa bits are an integer.
INTEGER = 0x4B000000


class TileWeights:
    """The registers of a thread, and the statements over them.

    Args:
        what: The product.
        tile: The tile in shared memory, of shape (columns, depth and more).
        columns, depth: The sizes of the tile.
        threads: The threads of a block.

    Raises:
        NoGpuSchedule: Vectors of words do not fill the tile.
    """

    def __init__(
        self, what: GroupedProduct, tile: Any, columns: int, depth: int, threads: int
    ) -> None:
        self.what, self.tile, self.threads = what, tile, threads
        words = str(what.words.ty.dtype)
        self.per_word = what.width // what.bits
        self.lanes = BYTES * 8 // what.width
        self.values = self.lanes * self.per_word
        self.parts = depth // self.values
        if depth % self.values or columns * self.parts % threads or what.zeros is not None:
            raise NoGpuSchedule(f"vectors of {self.values} values do not fill tiles of weights")
        self.vectors = columns * self.parts // threads
        self.words = local(f"{what.words.name}_next", [self.vectors, self.lanes], words)
        self.buffers = [self.words]
        if what.scale is not None:
            self.scale = local(f"{what.scale.name}_next", [self.vectors], str(what.scale.ty.dtype))
            self.half = local(f"{what.words.name}_half", [HALVES_OF], str(tile.ty.dtype))
            self.buffers += [self.scale, self.half]

    def position(self, vector: Any, thread: Any) -> tuple[Any, Any]:
        """The column and the depth, in the tile, of a vector of a thread."""
        at = vector * number(self.threads) + thread
        column, part = (f(at, number(self.parts)) for f in (tirx.floordiv, tirx.floormod))
        return column, part * number(self.values)

    def read(self, expert: Any, column: Any, depth: Any, thread: Any) -> Any:
        """Load the vectors of a thread, of the columns from ``column`` on."""
        what = self.what

        def vector(q: Any) -> Any:
            n, k = self.position(q, thread)
            word = tirx.floordiv(depth + k, number(self.per_word))
            out = [vectorized("v", self.lanes, lambda v: store(
                self.words, load(what.words, expert, column + n, word + v), q, v))]  # fmt: skip
            if what.scale is not None:
                group = tirx.floordiv(depth + k, number(what.group))
                out.append(store(self.scale, load(what.scale, expert, column + n, group), q))
            return seq(out)

        return unrolled("q", self.vectors, vector)

    def place(self, thread: Any) -> Any:
        """Store the vectors that were read in shared memory."""

        def vector(q: Any) -> Any:
            n, k = self.position(q, thread)
            if self.what.scale is None:
                return vectorized("v", self.lanes, lambda v: store(
                    self.tile, load(self.words, q, v), n, k + v))  # fmt: skip
            return seq([self._part(q, n, k, e) for e in range(0, self.values, HALVES_OF)])

        return unrolled("q", self.vectors, vector)

    def _part(self, q: Any, n: Any, k: Any, first: int) -> Any:
        """Dequantise 16 bytes of the tile."""
        scale = as_dtype(load(self.scale, q), "float32")
        values = [store(self.half, self._value(q, first + e) * scale, number(e))
                  for e in range(HALVES_OF)]  # fmt: skip
        return seq([*values, vectorized("v", HALVES_OF, lambda v: store(
            self.tile, load(self.half, v), n, k + number(first) + v))])  # fmt: skip

    def _value(self, q: Any, e: int) -> Any:
        """A value of a vector without its scale, in float32."""
        what = self.what
        word, inside = divmod(e, self.per_word)
        raw = load(self.words, q, number(word))
        offset = tirx.FloatImm("float32", what.offset)
        if what.width == what.bits:
            return as_dtype(raw, "float32") - offset
        raw = as_dtype(raw, "uint32") >> tirx.IntImm("uint32", inside * what.bits)
        raw = raw & tirx.IntImm("uint32", (1 << what.bits) - 1)
        fraction = tirx.reinterpret("float32", raw | tirx.IntImm("uint32", INTEGER))
        return fraction - tirx.FloatImm("float32", what.offset + float(2**23))
