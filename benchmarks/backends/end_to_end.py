"""Run `opinfo compile MODEL -o model.so --backend onednn,tvm --verify` on real models.

    python -m benchmarks.end_to_end [--json FILE] [--page [FILE]] [MODEL ...]

Each model is a file, .onnx or .pt2, with all its weights. The command runs in its own process and
verifies on random inputs. Then a new process with TVM's runtime, but without opinfo, torch or ONNX,
loads the library and calls it on seeded inputs; the outputs are compared with the unmodified module
built by TVM. Exits with 1 if a model fails or differs by more than 1e-3 of an output's largest
value. Everything runs on one thread. `--json` stores rows by model, so that the table can be
measured in pieces: without names, the models without a row, or with a failed one, are run.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import time
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common.full_models import inputs, save
from benchmarks.common.pages import add_page_option
from benchmarks.common.resources import use_threads
from benchmarks.common.rows import measure_models, model_parser, stored_rows

#: A model, or a model and a shape that replaces those of `benchmarks.common.full_models`.
MODELS = ("bvlc_alexnet", "densenet121", "inception_v1", "inception_v2", "resnet50", "shufflenet",
          "squeezenet", "vgg19", "zfnet512", "ocr_det", "ocr_det x:n,3,320,320", "ocr_rec",
          "ocr_cls", "torch:bert", "torch:vit", "torch:mobilenet_v2", "torch:mobilenet_v3",
          "torch:unet", "torch:resnet18")  # fmt: skip
TOLERANCE = 1e-3
#: A process with TVM's runtime that loads a library, calls it, and stores the results.
FRESH = """
import sys, time
for foreign in ("opinfo", "torch", "onnx", "onnxruntime", "scipy"):
    sys.modules[foreign] = None  # importing it is an error
import numpy as np, tvm
from tvm import relax

library, values, results = sys.argv[1:]
with np.load(values) as archive:
    tensors = [tvm.runtime.tensor(archive[f"x{k}"]) for k in range(len(archive.files))]
start = time.perf_counter()
main = relax.VirtualMachine(tvm.runtime.load_module(library), tvm.cpu())["main"]
loaded = time.perf_counter()

def flat(y):
    return [y.numpy()] if isinstance(y, tvm.runtime.Tensor) else [a for z in y for a in flat(z)]

np.savez(results, *flat(main(*tensors)))
print(loaded - start)
"""
HEAD = """# Real models, end to end

Written by `python -m benchmarks.end_to_end --json FILE --page`. Each row is

    opinfo compile MODEL -o model.so --backend onednn,tvm --verify

on a file with all of its weights: PP-OCRv4's own, seeded ones otherwise. **Verified** is the
largest difference between the compiled model and the unmodified module built by TVM, relative to an
output's largest value, as the command prints it, on random inputs. **Fresh process** is the same
for the library loaded into a process with TVM's runtime but without opinfo, torch or ONNX, on other
inputs. **Compiling** is the time of a new process until the library is written, including the C++
compiler. **Times** are of one call, as `--verify` prints them, on one thread of a busy machine;
`python -m benchmarks.byoc` measures speed with more care.

`torch:bert` has the size of BERT-base and 128 tokens, `torch:vit` the size of ViT-B/16. Images are
224x224, PP-OCRv4's 320x320, 48x320 and 48x192. The detector is also compiled for any batch size;
TVM's importer rejects a symbolic height and width.

"""
COLUMNS = ("model", "verified", "fresh process", "ops offloaded", "of FLOPs", "compiling, s",
           "library, MB", "loading, s", "unmodified, ms", "compiled, ms")  # fmt: skip


@dataclass(frozen=True)
class Row:
    """One model; ``failed`` is the error message, or ""."""

    model: str
    failed: str
    verified: float = float("nan")
    fresh: float = float("nan")
    summary: str = ""
    seconds: float = 0.0
    megabytes: float = 0.0
    loading: float = 0.0
    unmodified: float = 0.0
    compiled: float = 0.0

    @property
    def good(self) -> bool:
        return not self.failed and self.verified <= TOLERANCE and self.fresh <= TOLERANCE

    def as_line(self) -> str:
        """Format the row as one line."""
        return f"{self.model}: {self.failed or ', '.join(_line(self)[1:])}"


def measure(name: str) -> Row:
    model, _, shape = name.partition(" ")
    with tempfile.TemporaryDirectory() as place, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        folder = Path(place)
        path, shapes = save(model, folder)
        saved = [f"{k}:{','.join(map(str, v))}" for k, v in shapes.items()]
        shaped = [shape] if shape else saved
        try:
            row = compiled(path, folder, shaped)
            loading, difference = in_a_fresh_process(model, path, folder, shaped)
        except subprocess.CalledProcessError as error:
            return Row(name, (error.stdout or error.stderr).strip().splitlines()[-1])
        return Row(name, "", fresh=difference, loading=loading, **row)


def compiled(path: Path, folder: Path, shapes: list[str]) -> dict[str, Any]:
    """Run the command; return its figures, and the time until the library was written."""
    library = folder / "model.so"
    words = [sys.executable, "-m", "opinfo", "compile", str(path), "-o", str(library),
             "--backend", "onednn,tvm", "--verify"]  # fmt: skip
    start = time.time()
    output = subprocess.run([*words, *(w for s in shapes for w in ("--shape", s))], check=True,
                          capture_output=True, text=True).stdout  # fmt: skip
    stat = library.stat()
    times = dict(re.findall(r"^(unmodified|compiled) +(\S+)", output, re.M))
    (verified,) = re.findall(r"^outputs differ by (\S+)", output, re.M)
    (summary,) = re.findall(r"^offloaded .*", output, re.M)
    return {"verified": float(verified), "summary": summary,
            "seconds": stat.st_mtime - start, "megabytes": stat.st_size / 1e6,
            **{build: float(ms) for build, ms in times.items()}}  # fmt: skip


def in_a_fresh_process(
    name: str, path: Path, folder: Path, shapes: list[str]
) -> tuple[float, float]:
    """Return the seconds of loading, and the largest difference from the unmodified module."""
    import opinfo
    from opinfo.frontend import parse_shape
    from opinfo.verify.verification import difference
    from tests.common.run import run

    arrays = list(inputs(name).values())
    files = [str(folder / f) for f in ("model.so", "x.npz", "y.npz")]
    np.savez(files[1], **{f"x{k}": a for k, a in enumerate(arrays)})  # type: ignore[arg-type]
    process = subprocess.run([sys.executable, "-c", FRESH, *files], check=True, capture_output=True,
                          text=True, cwd=folder)  # fmt: skip
    expected = run(opinfo.load(path, dict(map(parse_shape, shapes))), arrays)
    with np.load(files[2]) as results:
        actual = [results[key] for key in results.files]
    differences = [difference(e, f) for e, f in zip(expected, actual, strict=True)]
    return float(process.stdout), max(differences, key=lambda d: (d != d, d))


def page(rows: list[Row]) -> str:
    from benchmarks.common.pages import table

    order = {name: k for k, name in enumerate(MODELS)}
    lines = [_line(r) for r in sorted(rows, key=lambda r: order.get(r.model, len(order)))]
    bad = sum(not r.good for r in rows)
    return f"{HEAD}{table(COLUMNS, lines)}\n\n{len(rows) - bad} of {len(rows)} agree.\n"


def _line(row: Row) -> tuple[str, ...]:
    if row.failed:
        return (row.model, row.failed, *[""] * (len(COLUMNS) - 2))
    offloaded, share, *_ = row.summary.split(", ")
    return (row.model, f"{row.verified:.0e}", f"{row.fresh:.0e}",
            offloaded.removeprefix("offloaded ").removesuffix(" ops"),
            share.removesuffix(" of FLOPs"), f"{row.seconds:.0f}", f"{row.megabytes:.0f}",
            f"{row.loading:.2f}", f"{row.unmodified:.0f}", f"{row.compiled:.1f}")  # fmt: skip


def main() -> int:
    parser = model_parser("benchmarks.end_to_end", __doc__, ())
    add_page_option(parser, "end-to-end.md")
    options = parser.parse_args()
    if options.page and not options.json:
        parser.error("--page needs --json")
    use_threads(1)
    measured = {r["model"] for r in stored_rows(options.json) if not r["failed"]}
    options.model = options.model or [m for m in MODELS if m not in measured]
    rows = measure_models(options, measure, Row, page)
    return 0 if all(r.good for r in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
