"""`.pt2` archives whose records are changed or replaced by code."""
# ruff: noqa: E501 (lines of files)

from __future__ import annotations

import io
import json
import pickle
import random
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .case import Case, command, damaged


class _Runs:
    """An object that runs code when it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Any, ...]:
        return eval, (command(self.mark),)


def saved(folder: Path) -> bytes:
    """Return the archive of a small program with a symbolic size."""
    import torch

    net = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU())
    sizes = ({0: torch.export.Dim("n", min=2, max=8)},)
    program = torch.export.export(net, (torch.zeros(3, 4),), dynamic_shapes=sizes)
    path = folder / "net.pt2"
    torch.export.save(program, path)
    return path.read_bytes()


def records(content: bytes) -> dict[str, bytes]:
    """Return the records of an archive, by name below its folder."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return {i.filename.partition("/")[2]: archive.read(i) for i in archive.infolist()}


def packed(parts: dict[str, bytes], how: int = zipfile.ZIP_STORED) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", how) as archive:
        for name, data in parts.items():
            archive.writestr(f"net/{name}", data)
    return out.getvalue()


def cases(rng: random.Random, mark: Path, count: int, content: bytes) -> Iterator[Case]:
    """Yield hand-written archives, then random changes of one record or of the file."""
    parts = records(content)
    code = pickle.dumps(_Runs(mark))
    for name, changed in (*_pickles(parts, code), *_models(parts, mark)):
        yield Case(name, ".pt2", packed({**parts, **changed}))
    for name in ("../../evil", "/tmp/evil", "data/aotinductor/model/a.so", "extra/x.py"):
        yield Case(f"record {name}", ".pt2", packed({**parts, name: b"\x7fELF" + b"\0" * 60}))
    large = packed({**parts, "data/weights/weight_0": b"\0" * 2**28}, zipfile.ZIP_DEFLATED)
    yield Case("compressed zeros", ".pt2", large)
    yield Case("a pickle", ".pt2", code)
    old = io.BytesIO()
    with zipfile.ZipFile(old, "w") as archive:
        archive.writestr("version", "8.14")
        for part in ("exported_program.json", "state_dict.pt", "constants.pt", "example_inputs.pt"):
            archive.writestr(f"serialized_{part}", code)
    yield Case("an old archive", ".pt2", old.getvalue())
    for k in range(count):
        if k % 2:
            yield Case("bytes", ".pt2", damaged(rng, content))
        else:
            name = rng.choice(sorted(parts))
            changed = {**parts, name: damaged(rng, parts[name] or b"\0")}
            yield Case(f"bytes of {name}", ".pt2", packed(changed))


def _pickles(parts: dict[str, bytes], code: bytes) -> Iterator[tuple[str, dict[str, bytes]]]:
    """Yield archives with pickles in the places that may hold them."""
    yield "pickled sample inputs", {"data/sample_inputs/model.pt": code}
    yield "old weights", {"data/weights/model.pt": code}
    yield "old constants", {"data/constants/model.pt": code}
    weights = "data/weights/model_weights_config.json"
    config = json.loads(parts[weights])
    key = next(iter(config["config"]))
    config["config"][key]["use_pickle"] = True
    yield "pickled weight", {weights: json.dumps(config).encode(), "data/weights/weight_0": code}
    constants = "data/constants/model_constants_config.json"
    for name in ("tensor_0", "custom_obj_0", "opaque_obj_0"):
        entry = {**config["config"][key], "path_name": name}
        content = json.dumps({"config": {"c": entry}}).encode()
        yield f"pickled {name}", {constants: content, f"data/constants/{name}": code}


def _models(parts: dict[str, bytes], mark: Path) -> Iterator[tuple[str, dict[str, bytes]]]:
    """Yield archives with code where torch evaluates, imports, or writes source."""
    name = "models/model.json"
    text = parts[name].decode()
    run = command(mark)
    places = {
        "a size": ("expr_str", [run, f"Symbol({run!r})", "().__class__", "9**9**9", "-" * 10_000 + "1"]),
        "an operator": ("target", ["torch.os.system", "torch.hub.load", "_operator.attrgetter",
                                   "math.__loader__.load_module", "torch.load", "#x", "builtins.eval",
                                   "torch.ops.load_library", "torch.utils.cpp_extension.load"]),
        "a name": ("name", [f"x={run}", "x\ry", f"x):\n  {run}\ndef g(y", "1", "__class__"]),
        "a parameter": ("parameter_name", [f"a']+{run}+['", "a\"b", ".."]),
        "a tree": ("in_spec", [json.dumps([1, {
            "type": "collections.defaultdict", "children_spec": [], "context": json.dumps({
                "default_factory_module": "antigravity", "default_factory_name": "x",
                "dict_context": []})}])]),
    }  # fmt: skip
    for what, (key, values) in places.items():
        for value in values:
            model = json.loads(text)
            _replace(model, key, value)
            yield f"{what}: {value[:40]}", {name: json.dumps(model).encode()}
    model = json.loads(text)
    model["guards_code"] = [run]
    yield "guards", {name: json.dumps(model).encode()}


def _replace(value: Any, key: str, new: str) -> bool:
    """Set the first string under a key."""
    if isinstance(value, list):
        return any(_replace(part, key, new) for part in value)
    if not isinstance(value, dict):
        return False
    if isinstance(value.get(key), str):
        value[key] = new
        return True
    return any(_replace(part, key, new) for part in value.values())
