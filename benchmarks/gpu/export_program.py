"""Write a model as a program of torch.

python -m benchmarks.gpu.export_program FILE.pt2 NET-bN DTYPE
"""

from __future__ import annotations

import sys

import torch

from .build_model import network


def main() -> None:
    path, name, dtype = sys.argv[1:4]
    module, inputs = network(name, dtype)
    with torch.no_grad():
        torch.export.save(torch.export.export(module, inputs, strict=False), path)
    print("{}")


if __name__ == "__main__":
    main()
