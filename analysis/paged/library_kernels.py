"""TVM's own kernels of attention and of paged caches, each compared with a PrimFunc as a whole.

A kernel has loops whose ends are data, a softmax that is corrected as keys come in, and on a GPU
threads that share memory. It is not lifted; the PrimFunc has to be the very kernel that TVM
generates for the operator.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import tvm_ffi
from tvm import tirx

from ..composites.page_copies import COPY, MOVE
from ..terms.term import TensorVar, Var
from . import library_generators as generators
from .attention import DECODE, PAGED_TREE, PREFILL, RAGGED, TREE
from .library_generators import Key
from .scaled_rotations import without_scaling

TESTED = "TVM's kernel computes what the operator's definition says, which is tested, not proved"
SPLIT = "starts of sequences begin with 0, do not decrease, and end with the number of rows"
SEEN = "each row sees a key with a score above -49000, so that keys it does not see weigh nothing"
ROOM = "a tile of rows behind the last node of a tree may be read"
UNTURNED = "the rotary mode is 0, which the PrimFunc asserts"
FADED = "keys that a row does not see, whose scores are -72135 times the factor, weigh nothing"
WRITTEN = (
    "what the kernel reads behind its factor of earlier sums is that factor, and a maximum "
    "that it reads before it is written is below the scores that a row sees by 100 at most"
)
STALE = (
    "a maximum that is read before it is written, or is left from another row, exceeds the "
    "scores that a row sees by 100 at most"
)
UNREAD = "no token is read after another one has been stored in its place"
APART = "sequences do not store in each other's tokens"


@dataclass(frozen=True)
class LibraryKernel:
    """A kernel of TVM.

    Attributes:
        operator: The operator that it computes.
        signature: A word for each parameter: f or i for the dtype, and the rank of a buffer.
        operands: The operator's operands among the parameters.
        groups: The parameter and the axis with the heads of keys.
        outputs: The parameters that it writes.
        generate: Returns it for its sizes.
        assumptions: Where it computes the operator.
        inplace: Whether the outputs count as updates: they are read, or an input follows them.
    """

    operator: str
    signature: str
    operands: tuple[int, ...]
    groups: tuple[int, int]
    outputs: tuple[int, ...]
    generate: Callable[[Any, Key], Any]
    assumptions: tuple[str, ...]
    inplace: bool = False


#: The operators with scalings of rotary embeddings. Trees over pages turn nothing.
SCALED = (DECODE, PREFILL, RAGGED, TREE)
_ROPE = "i f f f"
_QUERIES, _PAGES, _KEYS = "f3 i1", "f5 i1 i1 {lengths} i1 i1", "f3 f3 i1"
_ATTENTION = (TESTED, SPLIT, SEEN)


def _with_lengths(lengths: str) -> tuple[LibraryKernel, ...]:
    """The kernels over pages for lengths of one rank: those for GPUs, then those for CPUs."""
    pages = _PAGES.format(lengths=lengths)
    decode = LibraryKernel(DECODE, f"f3 {pages} f3 f2 {_ROPE}", (*range(7), *range(9, 13)),
                           (1, 2), (7, 8), generators.decode, _ATTENTION)  # fmt: skip
    prefill = LibraryKernel(PREFILL, f"{_QUERIES} {pages} f3 f2 i {_ROPE}",
                            (*range(8), *range(10, 15)), (2, 2), (8, 9), generators.prefill,
                            _ATTENTION)  # fmt: skip
    written = (*_ATTENTION, WRITTEN)
    return (decode, prefill, replace(decode, generate=generators.decode_cpu),
            replace(prefill, generate=generators.prefill_cpu, assumptions=written))  # fmt: skip


_RAGGED = LibraryKernel(
    RAGGED, f"{_QUERIES} {_KEYS} i1 i1 f3 f2 i {_ROPE}", (*range(7), *range(9, 14)), (2, 1), (7, 8),
    generators.ragged, _ATTENTION)  # fmt: skip

_TREE = LibraryKernel(
    TREE, f"{_QUERIES} {_KEYS} i1 i1 i2 f3 f2 {_ROPE}", (*range(8), *range(10, 14)), (2, 1), (8, 9),
    generators.tree, (*_ATTENTION, ROOM))  # fmt: skip
_PAGED_TREE = LibraryKernel(
    PAGED_TREE, f"{_QUERIES} {_PAGES.format(lengths='i1')} f3 f2 {_ROPE} i1 i2",
    (*range(6), 14, 15, 13), (2, 2), (8, 9), generators.paged_tree, (*_ATTENTION, ROOM, UNTURNED),
    inplace=True)  # fmt: skip

_MOVE = LibraryKernel(MOVE, "f5 i1 i2 i", (0, 1, 2), (0, 2), (0,), generators.compact,
                      (TESTED, SPLIT, UNREAD, APART), inplace=True)  # fmt: skip


KERNELS = (
    *_with_lengths("i1"),
    *_with_lengths("i2"),
    _RAGGED,
    replace(_RAGGED, generate=generators.ragged_cpu, assumptions=(*_ATTENTION, FADED)),
    _TREE,
    replace(_TREE, generate=generators.tree_cpu, assumptions=(*_ATTENTION, FADED)),
    _PAGED_TREE,
    replace(_PAGED_TREE, generate=generators.paged_tree_cpu,
            assumptions=(*_ATTENTION, STALE, UNTURNED)),
    _MOVE,
    replace(_MOVE, generate=generators.compact_cpu),
    LibraryKernel(COPY, "f5 i i i", (0, 1, 2, 3), (0, 2), (0,), generators.copy_cpu,
                  (TESTED,), inplace=True),
)  # fmt: skip


def candidates(
    func: Any, params: Sequence[TensorVar | Var]
) -> Iterator[tuple[LibraryKernel, dict[str, Any], Any, Any]]:
    """Yield the kernels of TVM that a PrimFunc may be, with attributes, and two PrimFuncs.

    These are the kernel, and the PrimFunc that has to be equal to it: without a scaling of rotary
    embeddings, which is among the attributes.

    Args:
        func: The PrimFunc.
        params: Its parameters.
    """
    signature = " ".join(map(_word, params))
    kernels = [kernel for kernel in KERNELS if kernel.signature == signature]
    plain, attrs = _unscaled(func) if kernels else (func, {})
    for kernel in kernels:
        scaling = attrs if kernel.operator in SCALED else {}
        sliding = "i2" in signature and kernel.operator in (DECODE, PREFILL)
        windows = _windows(func) if sliding and kernel.operator == PREFILL else [0]
        for window in windows:
            key = _key(kernel, params, sliding, window)
            generated = None if key is None else _generated(kernel, key)
            if generated is not None:
                seen = {"window": window} if kernel.operator == PREFILL else {}
                yield kernel, {**seen, **scaling}, generated, plain


def _unscaled(func: Any) -> tuple[Any, dict[str, Any]]:
    """A PrimFunc without a scaling of rotary embeddings, and the attributes for this."""
    found = without_scaling(func)
    if found is None:
        return func, {}
    plain, scaling = found
    return plain, {"scaling": scaling.name, "parameters": scaling.parameters}


def _word(param: TensorVar | Var) -> str:
    if isinstance(param, Var):
        return "i"
    kind = "f" if "float" in param.dtype else "i"
    return kind if param.scalar else f"{kind}{len(param.shape)}"


def _key(
    kernel: LibraryKernel, params: Sequence[TensorVar | Var], sliding: bool, window: int
) -> Key | None:
    """The sizes of a kernel; None if one of them is symbolic."""
    place, axis = kernel.groups
    query, keys = params[0], params[place]
    assert isinstance(query, TensorVar) and isinstance(keys, TensorVar)
    groups, features = keys.shape[axis].const, keys.shape[-1].const
    heads = query.shape[1].const if len(query.shape) == 3 else groups
    page = keys.shape[3].const if len(keys.shape) == 5 else 16
    if groups is None or heads is None or features is None or page is None:
        return None
    return groups, heads, features, query.dtype, page, sliding, window


@lru_cache(maxsize=64)
def _generated(kernel: LibraryKernel, key: Key) -> Any:
    """The kernel for some sizes; None if TVM has none."""
    try:
        from tvm.relax.frontend.nn.llm import kv_cache
    except ImportError:
        return None
    try:
        return kernel.generate(kv_cache, key)
    except Exception:  # the generators assert what they need; other versions take other arguments
        return None


def _windows(func: Any) -> list[int]:
    """The literals from which a PrimFunc subtracts, at most four."""
    literals = {0}

    def visit(node: Any) -> None:
        if isinstance(node.a, tirx.IntImm):
            literals.add(int(node.a))

    tvm_ffi.structural_walk(func.body, (tirx.Sub, visit))
    return sorted(literals, reverse=True)[:4]
