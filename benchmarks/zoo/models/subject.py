"""A model of the zoo on disk, with inputs of several shapes."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from . import last_models, later_files, nets, proxies
from .fetch import fetched
from .last_models import LAST
from .later_files import LATER
from .model_files import FILES, Fill, ModelFile
from .proxies import PROXIES

Arrays = dict[str, "np.ndarray[Any, Any]"]


@dataclass(frozen=True)
class Subject:
    """A file that users would have, and inputs for it.

    Attributes:
        name: The model's name in the zoo.
        path: Its file, ``.onnx`` or ``.pt2``.
        inputs: Sets of inputs by name, in the order of the model's parameters; the first is timed.
        module: The torch module, if the model is one.
    """

    name: str
    path: Path
    inputs: tuple[Arrays, ...]
    module: Any = None


def names() -> list[str]:
    """Return the names of all models but the later and the last ones."""
    return [n for n in (*FILES, *nets.NETS) if n not in LATER | LAST]


def every() -> list[str]:
    """Return the names of all models of the zoo."""
    return [*names(), *sorted(LATER | LAST)]


def subject(name: str, folder: Path) -> Subject:
    """Return a model or a proxy; files that are written go to ``folder``."""
    if name in PROXIES:
        written, values = proxies.saved(name, folder)
        return Subject(name, written, (values,))
    file = (FILES | later_files.FILES | last_models.FILES).get(name)
    if file is not None:
        path = fetched(file)
        return Subject(name, path, tuple(_inputs(path, file)))
    module, sample, dynamic = nets.built(name)
    sets = [sample]
    if dynamic:
        sets.append(nets.resized(sample, dynamic, 2))
    arrays = tuple({key: value.numpy() for key, value in values.items()} for values in sets)
    return Subject(name, nets.saved(name, folder), arrays, module)


def _inputs(path: Path, file: ModelFile) -> list[Arrays]:
    """Return seeded inputs for each set of shapes, in the order of the graph's inputs."""
    import onnx
    from onnx.helper import tensor_dtype_to_np_dtype

    model = onnx.load(path, load_external_data=False)
    weights = {tensor.name for tensor in model.graph.initializer}
    dtypes = {value.name: tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
              for value in model.graph.input if value.name not in weights}  # fmt: skip
    random = np.random.default_rng(zlib.crc32(file.name.encode()))
    return [
        {name: _filled(random, shapes[name], dtype, file.fills.get(name))
         for name, dtype in dtypes.items()}
        for shapes in file.shapes
    ]  # fmt: skip


def _filled(
    random: np.random.Generator, shape: tuple[int, ...], dtype: Any, fill: Fill | None
) -> np.ndarray[Any, Any]:
    if fill == "ones":
        return np.ones(shape, dtype)
    if isinstance(fill, int):
        return np.full(shape, fill, dtype)
    if np.dtype(dtype).kind == "f":
        return random.standard_normal(shape).astype(dtype)
    low, high = fill or (1, 10)
    return random.integers(low, high, shape).astype(dtype)


def one_line(error: BaseException) -> str:
    """Return an error as one line of at most 400 characters."""
    text = " ".join(f"{type(error).__name__}: {error}".split())
    return text if len(text) < 400 else text[:400] + "…"
