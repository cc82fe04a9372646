"""Rebuild a `.pt2` archive from the records that are plain data.

`torch.export.load` can execute parts of an archive: pickles of weights, constants and sample
inputs, libraries of AOTInductor, symbolic sizes by `eval` (`sympy.sympify`), names that become
Python source (`torch.fx`), modules to import (pytree contexts), and arbitrary attributes of
`torch`. Each of these is checked or dropped here, and torch reads a new archive of the rest. It
never sees the file. Classes of inputs and outputs, which only their own modules know, become tuples
of their parts.
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

#: Records of `torch.export.save`, below the folder of the archive.
_MODEL = "models/model.json"
_CONFIGS = ("data/weights/model_weights_config.json", "data/constants/model_constants_config.json")
_SAMPLE = "data/sample_inputs/model.pt"
_RAW = re.compile(r"data/(weights/weight|constants/tensor)_\d+")
_TENSOR = re.compile(r"(weight|tensor)_\d+")
_PLAIN = re.compile(r"archive_format|archive_version|byteorder|\.data/(version|serialization_id)")
#: Allowed operators.
_OPERATORS = re.compile(
    r"torch\.ops\.(aten|prims|_c10d_functional|higher_order|quantized_decomposed|torchvision)"
    r"(\.\w+){1,2}"
    r"|torch\.(_?sym_\w+|_check)|_operator\.[a-z]\w*|math\.[a-z]\w*"
)
_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)
#: What sympy writes in `Float('0.5', precision=53)`; longer numbers take time to convert.
_NUMBER = re.compile(r"-?\d{1,40}(\.\d{0,40})?(e[-+]?\d{1,3})?", re.ASCII)
_PATH = re.compile(r"[\w.]*", re.ASCII)
_SYMPY = (
    ast.Expression, ast.Call, ast.keyword, ast.Name, ast.Constant, ast.BinOp, ast.UnaryOp,
    ast.Compare, ast.operator, ast.unaryop, ast.cmpop, ast.expr_context,
)  # fmt: skip
#: Keys whose strings become names, or attribute paths, in generated code.
_NAMES = {"name", "as_name", "as_custom_obj"}
_PATHS = {"parameter_name", "buffer_name", "tensor_constant_name", "class_fqn", "fqn", "graph_name"}
#: Nestings of inputs and outputs, and the types in them that torch knows by itself.
_SPECS = {"in_spec", "out_spec"}
_CONTAINERS = {"builtins.tuple", "builtins.list", "builtins.dict"}


class BadArchive(ValueError):
    """An archive contains more than the data of an exported program."""


def rebuilt(path: Path) -> io.BytesIO:
    """Return a checked archive for `torch.export.load`; raises `BadArchive`."""
    out = io.BytesIO()
    with zipfile.ZipFile(path) as archive, zipfile.ZipFile(out, "w") as clean:
        records = _records(archive)
        for name, info in records.items():
            clean.writestr(f"model/{name}", _checked(name, archive.read(info)))
    out.seek(0)
    return out


def guards_in(path: Path) -> list[str]:
    """Return the guards of an archive that `rebuilt` accepts: lines of Python, as data.

    torch executes them, so that the rebuilt archive has none.
    """
    with zipfile.ZipFile(path) as archive:
        model = json.loads(archive.read(_records(archive)[_MODEL]))
    return [str(line) for line in model.get("guards_code") or ()]


def _records(archive: zipfile.ZipFile) -> dict[str, zipfile.ZipInfo]:
    """Return the records by name below the folder; raises `BadArchive`."""
    records: dict[str, zipfile.ZipInfo] = {}
    for info in archive.infolist():
        name = info.filename.partition("/")[2]
        if info.compress_type != zipfile.ZIP_STORED:
            raise BadArchive(
                f"{info.filename[:80]!r} is compressed, expected an uncompressed record"
            )
        if not (name in (_MODEL, _SAMPLE, *_CONFIGS) or _RAW.fullmatch(name)
                or _PLAIN.fullmatch(name)):  # fmt: skip
            raise BadArchive(f"{info.filename[:80]!r} is not a record of an exported program")
        if name in records:
            raise BadArchive(f"{info.filename[:80]!r} occurs twice")
        records[name] = info
    absent = [name for name in (_MODEL, *_CONFIGS) if name not in records]
    if absent:
        raise BadArchive(f"{absent[0]} is missing: not an archive of a recent torch.export.save")
    return records


def _checked(name: str, data: bytes) -> bytes:
    if name == _SAMPLE:
        return b""  # a pickle; torch treats an empty record as absent
    if name in _CONFIGS:
        config = json.loads(data)
        for key, value in config["config"].items():
            if value["use_pickle"] or not _TENSOR.fullmatch(value["path_name"]):
                raise BadArchive(f"{key[:80]!r} is a pickled object")
        return json.dumps(config).encode()
    if name == _MODEL:
        model = json.loads(data)
        model["guards_code"] = []  # source; see `guards_in`
        for entry in model["graph_module"]["module_call_graph"]:
            for key in _SPECS & (entry["signature"] or {}).keys():
                entry["signature"][key] = _plain_spec(entry["signature"][key])
        for where, key, value in _walk(model, "", ""):
            _check(where, key, value)
        return json.dumps(model).encode()
    return data


def _plain_spec(text: str) -> str:
    """Return a nesting of inputs or outputs (JSON) without classes; its leaves stay in order."""
    protocol, spec = json.loads(text)
    pending = [spec]
    while pending:
        node = pending.pop()
        pending += node["children_spec"]
        if node["type"] is not None and node["type"] not in _CONTAINERS:
            node["type"], node["context"] = "builtins.tuple", "null"
    return json.dumps([protocol, spec])


def _walk(value: Any, where: str, key: str) -> Iterator[tuple[str, str, Any]]:
    """Yield each string with its key, and whether it is in a node: `target` is ambiguous."""
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
    """Raise `BadArchive` for a string that could execute code."""
    shown = f"{key} is {text[:80]!r}"
    if not all(c.isprintable() or c in "\n\t" for c in text):
        raise BadArchive(f"{shown}: control characters")
    if (where == "node" and key == "target") or key == "as_operator":
        if not _OPERATORS.fullmatch(text):
            raise BadArchive(f"unknown operator {text[:80]!r}")
    elif key in _NAMES and text and not _NAME.fullmatch(text):
        raise BadArchive(f"{shown}, expected an identifier")
    elif key in _PATHS and not _PATH.fullmatch(text):
        raise BadArchive(f"{shown}, expected dotted names")
    elif key == "expr_str":
        _check_size(text)
    elif key in _SPECS and ("default_factory" in text or "__enum__" in text):
        raise BadArchive(f"{key} would import a module")


def _check_size(text: str) -> None:
    """Check a size such as `Mul(Integer(16), Symbol('s72', positive=True))`."""
    try:
        tree = ast.parse(text, mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise BadArchive(f"the size {text[:80]!r} is not an expression") from error
    arguments = {id(part) for node in ast.walk(tree) if isinstance(node, ast.Call)
                 for part in (*node.args, *(k.value for k in node.keywords))}  # fmt: skip
    for node in ast.walk(tree):
        plain = isinstance(node, _SYMPY)
        if isinstance(node, ast.Call):
            plain = isinstance(node.func, ast.Name) and node.func.id[0].isupper()
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            known = _NAME.fullmatch(node.value) or _NUMBER.fullmatch(node.value)
            plain = known is not None and id(node) in arguments  # "9" * 10**9 is long
        if not plain:
            raise BadArchive(f"the size {text[:80]!r} contains more than arithmetic")
