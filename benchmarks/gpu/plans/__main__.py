"""Time plans of cuDNN's attention for many shapes: python -m benchmarks.gpu.plans

For each shape of BERT-base: how long a plan takes to build and to run, with and without what cuDNN
offers for sizes that are known at run time.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from importlib.resources import files
from pathlib import Path

from opinfo.byoc.backends.nvidia.libraries.locate import CUDART, CUDNN, CUDNN_FRONTEND, options


def main() -> None:
    """Compile the program and run it."""
    source = Path(__file__).with_name("attention_plans.cpp")
    with tempfile.TemporaryDirectory() as folder:
        program = f"{folder}/plan_times"
        loader = f"-I{files('opinfo.byoc.backends.nvidia.attention')}"
        words = (loader, *options(CUDNN_FRONTEND, CUDNN, CUDART))
        subprocess.run(["g++", "-std=c++17", "-O1", str(source), "-o", program, *words, "-ldl",
                        "-pthread"], check=True)  # fmt: skip
        sys.exit(subprocess.run([program], timeout=300).returncode)


if __name__ == "__main__":
    main()
