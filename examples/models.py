"""Write the model files that the documentation uses.

    python -m examples.models [FOLDER]

``light_squeezenet.onnx`` and ``light_resnet50.onnx`` come with the onnx package; all of their
weights are equal. ``mlp.pt2`` is a program of torch for any number of rows.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from importlib.util import find_spec
from pathlib import Path

LIGHT = ("light_squeezenet.onnx", "light_resnet50.onnx")


def write(folder: Path) -> list[Path]:
    """Write the models that the installed packages allow, and return their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    if (onnx := _package("onnx")) is not None:
        written += [_copy(onnx / "backend/test/data/light" / name, folder) for name in LIGHT]
    if _package("torch") is not None:
        written.append(_mlp(folder / "mlp.pt2"))
    return written


def _package(name: str) -> Path | None:
    """The folder of a package, which is not imported."""
    spec = find_spec(name)
    return None if spec is None or spec.origin is None else Path(spec.origin).parent


def _copy(source: Path, folder: Path) -> Path:
    return Path(shutil.copy(source, folder))


def _mlp(path: Path) -> Path:
    """Two layers from 64 to 10 numbers, for up to 512 rows."""
    import torch

    layers = torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 10)
    net, rows = torch.nn.Sequential(*layers), torch.export.Dim("n", max=512)
    program = torch.export.export(net, (torch.zeros(2, 64),), dynamic_shapes=({0: rows},))
    torch.export.save(program, path)
    return path


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m examples.models", description="Write the models of the documentation."
    )
    parser.add_argument("folder", metavar="FOLDER", type=Path, nargs="?", default=Path(),
                        help="where to write them; by default the current folder")  # fmt: skip
    written = write(parser.parse_args().folder)
    for path in written:
        print(path)
    for package, extra in (("onnx", "onnx"), ("torch", "torch")):
        if _package(package) is None:
            print(f"{package} is not installed: pip install -e '.[{extra}]' for its models",
                  file=sys.stderr)  # fmt: skip


if __name__ == "__main__":
    main()
