"""Matrices of few bits that are parameters: kernels read them as they are stored, at each call."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib.resources import files
from typing import Any

from ...backend.region import Tensor

#: What C++ calls the dtypes of words, scales and zero points.
KINDS = {"uint8": "kWord8", "uint16": "kWord16", "uint32": "kWord32", "float16": "kHalf",
         "float32": "kFloat"}  # fmt: skip
FLOATS = ("float16", "float32")
HEADERS = ("stored_words", "few_words")
#: The bits of a tensor in a table of shapes; negative for integers, less 256 for unsigned ones.
SIZES = {"float32": 32, "float16": 16, "int32": -32, "int64": -64, "uint8": -264, "uint16": -272,
         "uint32": -288}  # fmt: skip


def unreadable(dtypes: Sequence[str], attrs: Mapping[str, Any]) -> str:
    """Why the kernels cannot read a stored matrix; empty if they can.

    Args:
        dtypes: Those of the words, the scales, and the zero points if there are any.
        attrs: The attributes of the dequantisation.
    """
    words, scales, *zeros = dtypes
    if words not in KINDS or words in FLOATS or scales not in FLOATS:
        return f"the words are {words} with scales of {scales}"
    if int(attrs["interleave"]) != 1 or attrs["packed_axis"] not in (None, attrs["axis"]):
        return "the words are interleaved, or packed along another axis than that of the groups"
    if any(z not in FLOATS for z in zeros):
        return f"the zero points are {zeros[0]}"
    return ""


def stored_words(
    tensors: Sequence[Tensor], attrs: Mapping[str, Any], axis: int, depth: int, columns: str,
    view: Callable[[Tensor], str],
) -> str:  # fmt: skip
    """Return the C++ of a matrix.

    Args:
        tensors: The words, the scales, and the zero points if there are any.
        attrs: The attributes of the dequantisation.
        axis: The axis that a product sums over, from the last one: -1 or -2.
        depth: The extent of the matrix along that axis.
        columns: The C++ of the other extent.
        view: Returns the C++ of a tensor.
    """
    along = [f"{{Kind::{KINDS[t.dtype]}, {view(t)}.data, {t.shape[axis]}}}" for t in tensors]
    if len(along) == 2:
        along.append("{Kind::kNone, nullptr, 0}")
    bits = int(attrs["bits"])
    per = int("".join(filter(str.isdigit, tensors[0].dtype))) // bits
    few = axis == -1 and int(attrs["group_size"]) % per == 0
    kind = f"Stored<float, {tensors[0].dtype}_t, {bits}, {int(len(tensors) > 2)}, {int(few)}>"
    return (f"const {kind} w{{{depth}, {columns}, {', '.join(along)}, {per}, "
            f"{int(attrs['group_size'])}, {float(attrs['offset'])!r}f, "
            f"{int(axis == -1)}}};")  # fmt: skip


def headers() -> list[str]:
    """Return the C++ of the kernels; it follows that of packed weights."""
    here = files(__package__) / "cpp"
    return [(here / f"{n}.hpp").read_text(encoding="utf-8") for n in HEADERS]
