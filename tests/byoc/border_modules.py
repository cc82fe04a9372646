"""Modules of Relax whose checks of indices cannot run before a file in a runtime."""

from __future__ import annotations

from tvm.script import ir as I
from tvm.script import relax as R
from tvm.script import tirx as T


@I.ir_module
class Rounded:
    @R.function
    def main(x: R.Tensor((4,), "float32"), t: R.Tensor((9, 2), "float32")) -> R.Tensor:
        with R.dataflow():
            y = R.take(t, R.astype(R.exp(x), "int32"), axis=0)
            R.output(y)
        return y


@I.ir_module
class Narrow:
    """300.0 is 44 in code for x86, and may be 127 elsewhere."""

    @R.function
    def main(x: R.Tensor((4,), "float32"), t: R.Tensor((100, 2), "float32")) -> R.Tensor:
        with R.dataflow():
            y = R.take(t, R.astype(R.floor(x), "int8"), axis=0)
            R.output(y)
        return y


@I.ir_module
class Branch:
    @R.function
    def main(
        c: R.Tensor((), "bool"), i: R.Tensor((4,), "int64"), t: R.Tensor((9, 2), "float32")
    ) -> R.Tensor:
        if c:
            y = R.take(t, R.add(i, i), axis=0)
        else:
            y = R.take(t, R.subtract(i, i), axis=0)
        return y


@I.ir_module
class OfBranch:
    @R.function
    def main(
        c: R.Tensor((), "bool"), i: R.Tensor((4,), "int64"), t: R.Tensor((9, 2), "float32")
    ) -> R.Tensor:
        if c:
            j = R.add(i, i)
        else:
            j = R.multiply(i, i)
        y = R.take(t, j, axis=0)
        return y


@I.ir_module
class Symbolic:
    @R.function
    def main(i: R.Tensor(("n",), "int64"), t: R.Tensor((9, 2), "float32")) -> R.Tensor:
        with R.dataflow():
            y = R.take(t, R.add(i, i), axis=0)
            R.output(y)
        return y


@I.ir_module
class SymbolicInput:
    @R.function
    def main(
        i: R.Tensor((4,), "int64"), t: R.Tensor((9, 2), "float32"), u: R.Tensor(("n",), "float32")
    ) -> R.Tensor:
        with R.dataflow():
            y = R.take(t, R.add(i, i), axis=0)
            z = R.add(R.sum(y), R.sum(u))
            R.output(z)
        return z


@I.ir_module
class Called:
    @R.function(private=True)
    def rows(i: R.Tensor((4,), "int64"), t: R.Tensor((9, 2), "float32")) -> R.Tensor((4, 2)):
        with R.dataflow():
            y = R.take(t, R.add(i, i), axis=0)
            R.output(y)
        return y

    @R.function
    def main(i: R.Tensor((4,), "int64"), t: R.Tensor((9, 2), "float32")) -> R.Tensor:
        cls = Called
        y = cls.rows(i, t)
        return y


@I.ir_module
class Large:
    @R.function
    def main(i: R.Tensor((200, 100), "int64"), t: R.Tensor((9,), "float32")) -> R.Tensor:
        with R.dataflow():
            y = R.sum(R.take(t, R.add(i, i), axis=0))
            R.output(y)
        return y


@I.ir_module
class Writes:
    @T.prim_func(private=True)
    def double(x: T.Buffer((4,), "int64")) -> None:
        for i in range(4):
            x[i] = x[i] * T.int64(2)

    @R.function
    def main(i: R.Tensor((4,), "int64"), t: R.Tensor((9, 2), "float32")) -> R.Tensor:
        cls = Writes
        with R.dataflow():
            j = R.add(i, i)
            k = R.call_tir_inplace(cls.double, (j,), inplace_indices=[0],
                                   out_ty=[R.Tensor((4,), "int64")])  # fmt: skip
            y = R.take(t, k, axis=0)
            R.output(y)
        return y


@I.ir_module
class Unrecovered:
    @T.prim_func(private=True)
    def odd(x: T.Buffer((4,), "int64"), y: T.Buffer((4,), "int64")) -> None:
        for i in range(4):
            y[i] = T.call_extern("int64", "rand") + x[i]

    @R.function
    def main(i: R.Tensor((4,), "int64"), t: R.Tensor((9, 2), "float32")) -> R.Tensor:
        cls = Unrecovered
        with R.dataflow():
            j = R.call_tir(cls.odd, (i,), out_ty=R.Tensor((4,), "int64"))
            y = R.take(t, j, axis=0)
            R.output(y)
        return y


@I.ir_module
class NoInputs:
    @T.prim_func(private=True)
    def numbers(y: T.Buffer((4,), "int64")) -> None:
        for i in range(4):
            y[i] = T.int64(2) * i

    @R.function
    def main() -> R.Tensor:
        cls = NoInputs
        with R.dataflow():
            j = R.call_tir(cls.numbers, (), out_ty=R.Tensor((4,), "int64"))
            y = R.take(R.zeros((9, 2), "float32"), j, axis=0)
            R.output(y)
        return y


@I.ir_module
class NoShape:
    @R.function
    def main(
        i: R.Tensor((4,), "int64"), t: R.Tensor((9, 2), "float32"), u: R.Tensor(ndim=1)
    ) -> R.Tensor:
        with R.dataflow():
            y = R.take(t, R.add(i, i), axis=0)
            R.output(y)
        return y


#: A module, and why its checks cannot run before a file.
REFUSED = {
    "no shape": (NoShape, "the model has no inputs, or one without a shape"),
    "rounded": (Rounded, "exp of floating point, which runtimes may round differently"),
    "a narrow cast": (Narrow, "casts floating point to int8, which may wrap around"),
    "in a branch": (Branch, "an index is checked in a branch"),
    "of a branch": (OfBranch, "stems from raw, which PrimFuncs do not compute"),
    "symbolic": (Symbolic, "an extent is symbolic"),
    "a symbolic input": (SymbolicInput, "an extent is symbolic"),
    "a function": (Called, "a function that the model calls"),
    "large": (Large, "compute 40000 elements, of 60001 of the model: too many"),
    "writes": (Writes, "a function may write into its arguments"),
    "unrecovered": (Unrecovered, "which was not recovered"),
}
