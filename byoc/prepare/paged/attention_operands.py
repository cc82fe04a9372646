"""The operands of a PrimFunc that is known to be attention, by their roles."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tvm import tirx
from tvm.tirx.buffer import is_buffer_var

from ....analysis import OpInfo, Refusal
from ....analysis.blocks.tir import static
from ....analysis.composites.positions.rope_scaling import PLAIN, RopeScaling
from ....analysis.lifting.tir.node import as_dtype, items
from ....analysis.paged.attention import DECODE, PAGED_TREE, PREFILL, RAGGED, TREE
from ....analysis.support.ir.constructors import constructor_of
from ..loops.bfloat16_words import WIDE
from .vector_terms import INDEX

#: The operators that have a kernel here.
OPERATORS = (DECODE, PREFILL, RAGGED, TREE, PAGED_TREE)
#: The dtypes of queries, keys and values.
DTYPES = ("float32", "float16", "bfloat16")


@dataclass(frozen=True)
class AttentionOperands:
    """The parameters of a PrimFunc by their roles in the operator, and their sizes.

    Attributes:
        operator: One of `OPERATORS`.
        roles: The parameters by the names that the operator's definition has for them.
        output: The parameter for the result.
        merged: The parameter for the logarithms of the sums of exponentials.
        heads: The number of heads of queries.
        groups: The number of heads of keys.
        features: The elements of a head.
        window: The keys that causal attention sees; 0 without a window.
        scaling: The scaling of rotary embeddings.
    """

    operator: str
    roles: Mapping[str, Any]
    output: Any
    merged: Any
    heads: int
    groups: int
    features: int
    window: int
    scaling: RopeScaling

    @classmethod
    def of(cls, func: Any, info: OpInfo) -> AttentionOperands | Refusal:
        """Return the operands of a PrimFunc that computes an operator, or why it has no kernel."""
        if info.name not in OPERATORS:
            return Refusal(f"{info.name} has no kernel for CPUs; expected one of {OPERATORS}")
        params = items(func.params)
        names = inspect.signature(constructor_of(info.name)).parameters
        places = [k for k in info.operands if isinstance(k, int)]
        if len(places) < len(info.operands):
            return Refusal(f"operands of {info.name} are constants; expected parameters")
        roles = {n: params[k] for n, k in zip(names, places, strict=False)}
        output, merged = (p for k, p in enumerate(params) if k not in places and _is_floats(p))
        _, heads, features = map(static, items(roles["query"].ty.shape))
        keys = roles["pages"] if "pages" in roles else roles["keys"]
        groups, last = (static(keys.ty.shape[k]) for k in ((2, 4) if "pages" in roles else (1, 2)))
        if heads is None or features is None or groups is None or last != features:
            return Refusal("the heads or features are symbolic, or differ; expected numbers")
        if str(keys.ty.dtype) not in DTYPES:
            return Refusal(f"keys are {keys.ty.dtype}; expected one of {DTYPES}")
        parameters = tuple(info.attrs.get("parameters", ()))
        scaling = RopeScaling(info.attrs.get("scaling", PLAIN), parameters)
        return cls(info.name, roles, output, merged, heads, groups, features,
                   int(info.attrs.get("window", 0)), scaling)  # fmt: skip

    def __getitem__(self, role: str) -> Any:
        return self.roles[role]

    def at(self, role: str, place: Any) -> Any:
        """Return an integer from a vector of them, in the dtype of indices."""
        return as_dtype(tirx.BufferLoad(self[role], [place]), INDEX)

    @property
    def pages(self) -> Any | None:
        """The pages with keys and values; None if they follow each other."""
        return self.roles.get("pages")

    @property
    def page(self) -> int:
        """The tokens of a page."""
        size = static(self["pages"].ty.shape[3])
        assert size is not None  # TVM's kernels are generated for a number
        return size

    @property
    def slides(self) -> bool:
        """Whether lengths say which tokens are hidden."""
        return self.pages is not None and len(self["lengths"].ty.shape) == 2

    @property
    def together(self) -> int:
        """The heads of queries that share one of keys."""
        return self.heads // self.groups

    @property
    def single(self) -> bool:
        """Whether each sequence has one row."""
        return "query_indptr" not in self.roles

    @property
    def keys(self) -> Any:
        """The most keys of all sequences together."""
        if self.pages is None:
            return as_dtype(self["keys"].ty.shape[0], INDEX)
        return as_dtype(self["page_table"].ty.shape[0], INDEX) * tirx.IntImm(INDEX, self.page)

    @property
    def is_tree(self) -> bool:
        """Whether rows are nodes of trees, which see their ancestors."""
        return "tree" in self.roles

    @property
    def scalars(self) -> tuple[Any, Any, Any, Any]:
        """The rotary mode, the factor of positions, the base of frequencies, and that of scores.

        Without rotary embeddings, the first three are literals.
        """
        plain = {"rotary_mode": tirx.IntImm("int32", 0), "rope_scale": tirx.FloatImm(WIDE, 1.0),
                 "rope_theta": tirx.FloatImm(WIDE, 1.0)}  # fmt: skip
        known = {**plain, **self.roles}
        names = ("rotary_mode", "rope_scale", "rope_theta", "scale")
        mode, scale, theta, factor = (known[n] for n in names)
        return mode, scale, theta, factor


def _is_floats(param: Any) -> bool:
    return is_buffer_var(param) and "float" in str(param.ty.dtype)
