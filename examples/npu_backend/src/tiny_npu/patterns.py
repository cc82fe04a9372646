"""What the device takes: a product with constant weights, a bias by column, relu."""

from opinfo.byoc import Node, Pattern, Unmet, maybe, one


def in_float32(node: Node) -> Unmet | None:
    """A condition: None if it holds, else why not, and what would help."""
    dtype = node.result.dtype
    if dtype == "float32":
        return None
    return Unmet(f"the dtype is {dtype}, expected float32", "cast to float32")


def of_matrices(node: Node) -> str | None:
    ranks = [len(v.shape) for v in (node.operand(0), node.operand(1)) if v is not None]
    return None if ranks == [2, 2] else f"the operands have the ranks {ranks}, expected [2, 2]"


def with_constant_weights(node: Node) -> str | None:
    weights = node.operand(1)
    known = weights is not None and weights.constant
    return None if known else "the weights are not constant"


def by_column(node: Node) -> str | None:
    """The sum is with a constant of one number for each column."""
    shapes = [v.shape for v in node.others if v.constant]
    columns = node.result.shape[-1]
    fits = shapes in ([(columns,)], [(1, columns)])
    return None if fits else f"the bias is not a constant of the shape ({columns},)"


PATTERNS = (
    Pattern(
        "dense",
        one("relax.matmul", in_float32, of_matrices, with_constant_weights),
        maybe("relax.add", by_column),
        maybe("relax.nn.relu"),
    ),
)
