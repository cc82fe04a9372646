"""Products: `MatMul` with broadcasting, `Gemm`, `Einsum`."""

from __future__ import annotations

from ..graphs.graph import Graph

EQUATIONS = ("ij,jk->ik", "ij,ij->i", "bij,bjk->bik", "ij->ji", "ij->j", "ii->i", "i,j->ij",
             "bij,bkj->bik", "...ij,jk->...ik", "ij,ij->", "bhid,bhjd->bhij")  # fmt: skip


def matmul(g: Graph) -> None:
    """A product with a constant, another value, or itself transposed."""
    rng = g.rng
    x = g.pick("f" if rng.random() < 0.9 else "iu")
    if x is None or not x.rank:
        return
    if rng.random() < 0.25 and x.rank >= 2:
        order = [*range(x.rank - 2), x.rank - 1, x.rank - 2]
        y = g.add("Transpose", [x], perm=order)
        if y is not None:
            g.add("MatMul", [x, y] if rng.random() < 0.5 else [y, x])
        return
    others = [v for v in g.values if v.dtype == x.dtype and v.rank and
              v.shape[-2 if v.rank > 1 else 0] == x.shape[-1]]  # fmt: skip
    if others and rng.random() < 0.35:
        g.add("MatMul", [x, rng.choice(others)])
        return
    out = rng.choice((1, 2, 3, 4, 8))
    if rng.random() < 0.25 and x.rank >= 2:  # a constant on the left
        g.add("MatMul", [g.random_constant((out, x.shape[-2]), x.dtype), x])
        return
    batch = x.shape[: x.rank - 2] if rng.random() < 0.25 and len(g.sizes) == 1 else ()
    batch = tuple(d if rng.random() < 0.6 else 1 for d in batch)
    shape = (x.shape[-1],) if rng.random() < 0.12 else (*batch, x.shape[-1], out)
    y = g.add("MatMul", [x, g.random_constant(shape, x.dtype)])
    if y is not None and y.rank and rng.random() < 0.4:
        g.add("Add", [y, g.random_constant(y.shape[-1:], y.dtype)])


def gemm(g: Graph) -> None:
    """`Gemm` with its transpositions and factors, and a third operand that broadcasts."""
    rng = g.rng
    a = g.pick("f", (2,))
    if a is None:
        return
    first, second = rng.randrange(2), rng.randrange(2)
    rows, inner = (a.shape[1], a.shape[0]) if first else a.shape
    columns = rng.choice((1, 2, 4, 5))
    b = g.random_constant((columns, inner) if second else (inner, columns), a.dtype)
    fixed = len(g.sizes) == 1
    shapes = [(columns,), (1, columns), (1,), (), *([(rows, columns), (rows, 1)] if fixed else [])]
    c = g.random_constant(rng.choice(shapes), a.dtype) if rng.random() < 0.7 else None
    attrs = {name: value for name, value in (("transA", first), ("transB", second)) if value}
    attrs |= {k: rng.choice((0.5, 2.0, 1.0, 0.0, -1.0)) for k in ("alpha", "beta")
              if rng.random() < 0.35}  # fmt: skip
    g.add("Gemm", [a, b, c], **attrs)


def einsum(g: Graph) -> None:
    """An equation over one or two values of fitting ranks."""
    rng = g.rng
    equation = rng.choice(EQUATIONS)
    terms = equation.partition("->")[0].split(",")
    x = g.pick("f", (len(terms[0].replace("...", "b")),))
    if x is None:
        return
    sizes = dict(zip(terms[0].replace("...", "."), x.shape, strict=False))
    operands = [x]
    if len(terms) == 2:
        same = [v for v in g.values if v.dtype == x.dtype and v.rank == len(terms[1])]
        letters = terms[1].replace("...", ".")
        shape = [sizes.get(letter, rng.choice((1, 2, 3))) for letter in letters]
        operands.append(rng.choice(same) if same and rng.random() < 0.4
                        else g.random_constant(shape, x.dtype))  # fmt: skip
    g.add("Einsum", operands, equation=equation)
