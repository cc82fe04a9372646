"""The reason why a file's suffix is not one of a model, with a hint for those of other tools."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

_EXPORT = "export the module with torch.export, and save it as .pt2 with torch.export.save"
_CONVERT = "convert it to ONNX"
_HINTS = {
    **dict.fromkeys((".pt", ".pth", ".ckpt", ".bin", ".safetensors"), _EXPORT),
    **dict.fromkeys((".pb", ".h5", ".keras", ".tflite", ".mlmodel"), _CONVERT),
    ".so": "this command takes a model, not a compiled library",
}


def wrong_suffix(path: Path, known: Collection[str]) -> str:
    """Return what is wrong with a path whose suffix is not among the known ones."""
    if path.is_dir():
        return "is a folder"
    hint = _HINTS.get(path.suffix.lower())
    got = f"got '{path.suffix}'" if path.suffix else "got none"
    return f"expected a suffix of {', '.join(known)}, {got}" + (f"; {hint}" if hint else "")
