"""Matrix products, einsum, attention."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from . import Variant, family, forms, options

SIZES: dict[str, Any] = {"n": 4, "m": 5, "k": 6, "b": 2}
MATMUL = (
    ("T[n, k]", "T[k, m]"), ("T[b, n, k]", "T[k, m]"), ("T[b, n, k]", "T[b, k, m]"),
    ("T[n, k]", "T[b, k, m]"), ("T[b, 1, n, k]", "T[3, k, m]"), ("T[1, n, k]", "T[b, k, m]"),
    ("T[b, 3, n, k]", "T[b, 3, k, m]"), ("T[k]", "T[k, m]"), ("T[n, k]", "T[k]"),
    ("T[k]", "T[k]"), ("T[k]", "T[b, k, m]"), ("T[b, n, k]", "T[k]"), ("T[1, k]", "T[k, m]"),
    ("T[n, k]", "T[k, 1]"), ("T[1, k]", "T[k, 1]"), ("T[n, 1]", "T[1, m]"), ("T[1, 1]", "T[1, 1]"),
    ("T[b, 1, k]", "T[b, k, 1]"), ("T[n, n]", "T[n, n]"), ("T[b, n, n]", "T[b, n, n]"),
)  # fmt: skip
EINSUM = (
    "ij,jk->ik", "ik,jk->ij", "ki,kj->ij", "bij,bjk->bik", "bik,bjk->bij", "bhqd,bhkd->bhqk",
    "bqhd,bkhd->bhqk", "ij,ij->i", "ij,ij->", "i,j->ij", "ij,j->i", "ijk,k->ij", "ij->ji",
    "ij->i", "ij->", "ijk->ik", "ijk->kji", "ij,ij->ij", "ii->", "ii->i", "ij,jk,kl->il",
    "abc,cd->abd", "abc,abd->acd", "i,i->", "ij,k->ijk", "b...i,b...j->b...",
    "...ij,...jk->...ik",
    "bij,bij->b",
)  # fmt: skip
LETTERS: dict[str, Any] = {
    "i": 3,
    "j": 4,
    "k": 5,
    "l": 2,
    "b": 2,
    "h": 3,
    "q": 4,
    "d": 3,
    "a": 2,
    "c": 3,
}


@family
def matmuls() -> Iterator[Variant]:
    for pair in MATMUL:
        for dtype, out in (
            ("float32", None), ("float16", None), ("float16", "float32"), ("int8", "int32"),
            ("int8", None), ("float64", None), ("int32", None), ("uint8", "int32"),
        ):  # fmt: skip
            attrs = {"out_dtype": out} if out else {}
            keep = ("", "n", "nmkb") if dtype == "float32" else ("", "n")
            yield from forms("relax.matmul", pair, attrs, keep=keep, dtypes=(dtype,), **SIZES)


@family
def einsums() -> Iterator[Variant]:
    for subscripts in EINSUM:
        ends = subscripts.partition("->")[0].split(",")
        types = [f"T[{', '.join(end.replace('...', 'yz'))}]" for end in ends]
        for keep in ("", ends[0].replace(".", "")[:1], "".join(LETTERS)):
            yield from forms(
                "relax.einsum",
                types,
                {"subscripts": subscripts},
                keep=(keep,),
                dtypes=("float32", "float16", "int32"),
                y=2,
                z=3,
                **LETTERS,
            )


@family
def attentions() -> Iterator[Variant]:
    q, k, v = "T[b, s, 2, 8]", "T[b, t, 2, 8]", "T[b, t, 2, 6]"
    sizes: dict[str, Any] = {"b": 2, "s": 4, "t": 6}
    for o in options(
        scale=(None, 0.5), causal_mask=(None, "TopLeft", "BottomRight"), bias=(None, "", "1"),
        square=(False, True), window_size=(None, 3),
    ):  # fmt: skip
        if "window_size" in o and "causal_mask" not in o:
            continue
        rest = [f"T[{'1' if o['bias'] else 'b'}, 2, s, t]"] if "bias" in o else []
        attrs = {k: v for k, v in o.items() if k not in ("bias", "square")}
        for dtype in ("float32", "float16"):
            given = {**sizes, "t": 4} if o["square"] else sizes
            operands = (q, k, v, *rest)
            yield from forms("relax.nn.attention", operands, attrs, keep=("", "b"),
                             dtypes=(dtype,), **given)  # fmt: skip
            if dtype == "float32":
                if o["square"]:
                    operands = tuple(t.replace("t,", "s,").replace("t]", "s]") for t in operands)
                yield from forms("relax.nn.attention", operands, attrs, keep=("bst",), **given)
