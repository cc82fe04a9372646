"""``relax.nn.batch_flatten``: all axes but the first as one."""

from opinfo.analysis import Matches, Proposal, Refusal, Refuses, recogniser

MATCHES = [
    Matches("relax.nn.batch_flatten", ("float32[4, 5, 3]",)),
    Matches("relax.nn.batch_flatten", ("float16[n, 2, 3, 5]",)),
    Matches("relax.nn.batch_flatten", ("int8[2, 3, 4]",)),
]

REFUSES = [
    Refuses(
        "the first two axes are made one, not the last two",
        """
@T.prim_func(s_tir=True)
def main(x: T.Buffer((4, 5, 3), "float32"), out: T.Buffer((20, 3), "float32")):
    for i, j in T.grid(20, 3):
        with T.sblock("b"):
            vi, vj = T.axis.remap("SS", [i, j])
            out[vi, vj] = x[vi // 5, vi % 5, vj]
""",
    ),
    Refuses(
        "the elements of a row are in another order",
        """
@T.prim_func(s_tir=True)
def main(x: T.Buffer((4, 5, 3), "float32"), out: T.Buffer((4, 15), "float32")):
    for i, j in T.grid(4, 15):
        with T.sblock("b"):
            vi, vj = T.axis.remap("SS", [i, j])
            out[vi, vj] = x[vi, vj % 5, vj // 5]
""",
    ),
]


# Lower values run first: this one runs before opinfo's data movement (200). Both names are right.
@recogniser("batch_flatten", precedence=150, ops=("relax.nn.batch_flatten",))
def batch_flatten(f):
    """Guess from the shapes alone; opinfo proves that the elements are in order."""
    if len(f.outputs) != 1 or len(f.params) != 2:
        return Refusal("a reshape has one operand and one result")
    x, out = f.params
    if len(x.shape) < 3 or len(out.shape) != 2 or x.shape[0] != out.shape[0]:
        return Refusal("it is not from rank 3 or more to rank 2 with the same first extent")
    return [Proposal("relax.nn.batch_flatten", (0,))]
