"""What was passed instead of the path of a model, and how to get a path."""

from __future__ import annotations

from typing import Any

from .error import shortened

#: By the names of a class and of its packages, which need not be installed.
SAVED = {
    ("onnx", "ModelProto"): "an ONNX model: save it by onnx.save and pass the path of the file",
    ("torch", "ExportedProgram"): "a program of torch.export: save it by torch.export.save and "
    "pass the path of the .pt2 file",
    ("torch", "Module"): "a torch module: export it by torch.export.export, save the program by "
    "torch.export.save, and pass the path of the .pt2 file",
    ("tvm", "Function"): "a Relax function: pass the module that it is in",
}


def described(model: Any) -> str:
    """Return in one line what a value is, and for a model in memory what to do with it."""
    for base in type(model).__mro__:
        advice = SAVED.get((base.__module__.partition(".")[0], base.__name__))
        if advice is not None:
            return advice
    return shortened(repr(model).partition("\n")[0], 80)
