"""The records of a `.pt2` archive that are data, written anew.

`torch.export.load` runs what an archive tells it to: pickles of weights, constants and sample
inputs, libraries of AOTInductor, symbolic sizes by `eval` (`sympy.sympify`), names that become
Python source (`torch.fx`), modules to import (pytree contexts), and attributes of `torch` by any
path. Here the archive of one exported program is read, each of these is checked or dropped, and
torch gets the archive that is written of the rest. It never sees the file.
"""

from __future__ import annotations

import ast
import io
import json
import re
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

#: What `torch.export.save` writes, below the one folder of the archive.
_MODEL = "models/model.json"
_CONFIGS = ("data/weights/model_weights_config.json", "data/constants/model_constants_config.json")
_SAMPLE = "data/sample_inputs/model.pt"
_RAW = re.compile(r"data/(weights/weight|constants/tensor)_\d+")
_TENSOR = re.compile(r"(weight|tensor)_\d+")
_PLAIN = re.compile(r"archive_format|archive_version|byteorder|\.data/(version|serialization_id)")
#: Operators by their whole names, or by their first parts.
_OPERATORS = re.compile(
    r"torch\.ops\.(aten|prims|_c10d_functional|higher_order|quantized_decomposed|torchvision)"
    r"(\.\w+){1,2}"
    r"|torch\.(_?sym_\w+|_check)|_operator\.[a-z]\w*|math\.[a-z]\w*"
)
_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_PATH = re.compile(r"[\w.]*", re.ASCII)
_SYMPY = (
    ast.Expression, ast.Call, ast.keyword, ast.Name, ast.Constant, ast.BinOp, ast.UnaryOp,
    ast.Compare, ast.operator, ast.unaryop, ast.cmpop, ast.expr_context,
)  # fmt: skip
#: Keys whose string is a name in generated code, or a path of attributes in it.
_NAMES = {"name", "as_name", "as_custom_obj"}
_PATHS = {"parameter_name", "buffer_name", "tensor_constant_name", "class_fqn", "fqn", "graph_name"}


class BadArchive(ValueError):
    """What the archive holds that is no data of an exported program."""


def rebuilt(path: Path) -> io.BytesIO:
    """An archive of the same program for `torch.export.load`. Raises `BadArchive`."""
    out = io.BytesIO()
    with zipfile.ZipFile(path) as archive, zipfile.ZipFile(out, "w") as clean:
        records = _records(archive)
        for name, info in records.items():
            clean.writestr(f"model/{name}", _checked(name, archive.read(info)))
    out.seek(0)
    return out


def _records(archive: zipfile.ZipFile) -> dict[str, zipfile.ZipInfo]:
    """The records by their names below the folder."""
    found: dict[str, zipfile.ZipInfo] = {}
    for info in archive.infolist():
        name = info.filename.partition("/")[2]
        if info.compress_type != zipfile.ZIP_STORED:
            raise BadArchive(f"{info.filename[:80]!r} is compressed; torch.export.save does not")
        if not (name in (_MODEL, _SAMPLE, *_CONFIGS) or _RAW.fullmatch(name)
                or _PLAIN.fullmatch(name)):  # fmt: skip
            raise BadArchive(f"{info.filename[:80]!r} is no record of one exported program")
        if name in found:
            raise BadArchive(f"{info.filename[:80]!r} is there twice")
        found[name] = info
    absent = [name for name in (_MODEL, *_CONFIGS) if name not in found]
    if absent:
        raise BadArchive(f"{absent[0]} is missing: no archive of torch.export.save, or an old one")
    return found


def _checked(name: str, data: bytes) -> bytes:
    if name == _SAMPLE:
        return b""  # a pickle; torch takes none for an empty one
    if name in _CONFIGS:
        config = json.loads(data)
        for key, value in config["config"].items():
            if value["use_pickle"] or not _TENSOR.fullmatch(value["path_name"]):
                raise BadArchive(f"{key[:80]!r} is a pickled object")
        return json.dumps(config).encode()
    if name == _MODEL:
        model = json.loads(data)
        model["guards_code"] = []  # source
        for where, key, value in _walk(model, "", ""):
            _check(where, key, value)
        return json.dumps(model).encode()
    return data


def _walk(value: Any, where: str, key: str) -> Iterator[tuple[str, str, Any]]:
    """Each string with its key, and what it is in: a node's operator is called `target`, too."""
    match value:
        case dict():
            inside = "node" if {"target", "inputs", "outputs"} <= value.keys() else ""
            for name, part in value.items():
                yield "", "key", name
                yield from _walk(part, inside, name)
        case list():
            for part in value:
                yield from _walk(part, where, key)
        case str():
            yield where, key, value


def _check(where: str, key: str, text: str) -> None:
    """Raise `BadArchive` for a string that is more than data."""
    shown = f"{key} is {text[:80]!r}"
    if not all(c.isprintable() or c in "\n\t" for c in text):
        raise BadArchive(f"{shown}: control characters")
    if (where == "node" and key == "target") or key == "as_operator":
        if not _OPERATORS.fullmatch(text):
            raise BadArchive(f"the operator {text[:80]!r} is not known")
    elif key in _NAMES and text and not _NAME.fullmatch(text):
        raise BadArchive(f"{shown}, expected an identifier")
    elif key in _PATHS and not _PATH.fullmatch(text):
        raise BadArchive(f"{shown}, expected names with dots")
    elif key == "expr_str":
        _check_size(text)
    elif key in ("in_spec", "out_spec") and ("default_factory" in text or "__enum__" in text):
        raise BadArchive(f"{key} names a module to import")


def _check_size(text: str) -> None:
    """`Mul(Integer(16), Symbol('s72', positive=True))`: by name, of numbers and names."""
    try:
        tree = ast.parse(text, mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise BadArchive(f"the size {text[:80]!r} is no expression") from error
    for node in ast.walk(tree):
        plain = isinstance(node, _SYMPY)
        if isinstance(node, ast.Call):
            plain = isinstance(node.func, ast.Name) and node.func.id[0].isupper()
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            plain = _NAME.fullmatch(node.value) is not None
        if not plain:
            raise BadArchive(f"the size {text[:80]!r} is more than arithmetic")
