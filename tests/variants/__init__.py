"""Calls of every operator, generated: products of attribute values, types and shapes.

A family is a function that yields `Variant`; `variants` gathers them by operator.
Types are texts, ``"float32[n, 3, 8]"``; a letter is a symbolic dimension, also in the attributes.
"""

from __future__ import annotations

import importlib
import pkgutil
import random
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import product
from typing import Any

FLOATS = ("float32", "float16", "float64")
NUMBERS = (*FLOATS, "int32", "int8", "uint8", "int64")


@dataclass(frozen=True)
class Variant:
    """``op(*operands, **attrs)``; ``sizes`` are the numbers for letters where it is run."""

    op: str
    operands: tuple[str, ...]
    attrs: Mapping[str, Any] = field(default_factory=dict)
    sizes: Mapping[str, int] = field(default_factory=dict)

    @property
    def symbolic(self) -> bool:
        return bool(self.sizes)

    @property
    def dtype(self) -> str:
        given = str(self.attrs.get("dtype") or "float32")
        return self.operands[0].partition("[")[0] if self.operands else given

    @property
    def literal(self) -> str:
        """The type of scalars among the attributes."""
        return self.operands[-1].partition("[")[0] if self.operands else self.dtype

    def __str__(self) -> str:
        attrs = (f"{k}={getattr(v, '__name__', repr(v))}" for k, v in self.attrs.items())
        arguments = [*self.operands, *attrs]
        return f"{self.op}({', '.join(arguments)})"


Family = Callable[[], Iterable[Variant]]
_FAMILIES: list[Family] = []


def family(generate: Family) -> Family:
    """Register the generator of a family's variants."""
    _FAMILIES.append(generate)
    return generate


@cache
def variants() -> Mapping[str, tuple[Variant, ...]]:
    """The variants of each operator, without repetitions, in a fixed order."""
    for m in sorted(pkgutil.iter_modules(__path__), key=lambda m: m.name):
        importlib.import_module(f"{__name__}.{m.name}")
    found: dict[str, dict[str, Variant]] = {}
    for generate in _FAMILIES:
        for v in generate():
            found.setdefault(v.op, {}).setdefault(str(v), v)
    return {op: tuple(thin(vs.values(), LIMITS.get(op, LIMIT))) for op, vs in sorted(found.items())}


#: At most so many variants of an operator, and more of those with many attributes.
LIMIT = 36
LIMITS = {
    "relax.nn.conv2d": 240, "relax.nn.conv1d": 96, "relax.nn.conv3d": 72,
    "relax.nn.conv2d_transpose": 96, "relax.nn.max_pool2d": 96, "relax.nn.avg_pool2d": 120,
    "relax.nn.avg_pool1d": 60, "relax.matmul": 120, "relax.einsum": 96,
    "relax.strided_slice": 96,
    "relax.nn.batch_norm": 72, "relax.nn.group_norm": 72, "relax.nn.layer_norm": 72,
    "relax.image.resize2d": 144, "relax.nn.pad": 84, "relax.take": 72, "relax.astype": 97,
    "relax.nn.attention": 72, "relax.sum": 72, "relax.reshape": 84,
}  # fmt: skip


# ---------------------------------------------------------------------------- generating


def options(**values: Sequence[Any]) -> Iterator[dict[str, Any]]:
    """The product of attribute values; None leaves an attribute at its default."""
    for chosen in product(*values.values()):
        named = zip(values, chosen, strict=True)
        yield {k: v for k, v in named if v is not None}


def thin(items: Iterable[Any], count: int) -> list[Any]:
    """So many of the items, drawn by a fixed seed, in their order."""
    every = list(items)
    if len(every) <= count:
        return every
    chosen = sorted(random.Random(0).sample(range(len(every)), count))
    return [every[k] for k in chosen]


def forms(
    op: str,
    operands: Sequence[str],
    attrs: Mapping[str, Any] | None = None,
    *,
    keep: Sequence[str] = ("",),
    dtypes: Sequence[str] = ("float32",),
    **sizes: Any,
) -> Iterator[Variant]:
    """A call with the letters of each ``keep`` symbolic and the others numbers, in each type.

    ``T`` in an operand's type stands for the type.
    """
    letters = {letter for text in operands for letter in re.findall(r"\b[a-z]\b", text)}
    for dtype, kept in product(dtypes, keep):
        fixed = {k: v for k, v in sizes.items() if k not in kept}
        texts = tuple(fill(t, fixed).replace("T[", f"{dtype}[") for t in operands)
        given = {k: _number(v, fixed) for k, v in (attrs or {}).items()}
        used = {k: sizes[k] for k in kept if k in letters or k in str(given)}
        yield Variant(op, texts, given, used)


def fill(text: str, sizes: Mapping[str, int]) -> str:
    """A type with numbers for letters."""
    head, _, rest = text.partition("[")
    return f"{head}[" + re.sub(r"\b[a-z]\b", lambda m: str(sizes.get(m[0], m[0])), rest)


def _number(value: Any, sizes: Mapping[str, int]) -> Any:
    if isinstance(value, (list, tuple)):
        return type(value)(_number(v, sizes) for v in value)
    return sizes.get(value, value) if isinstance(value, str) else value
