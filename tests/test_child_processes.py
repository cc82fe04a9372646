"""Processes that tests start import TVM without torch, and torch where a program asks for it."""

from __future__ import annotations

import subprocess
import sys

import pytest


def test_tvm_finds_no_torch_and_programs_do() -> None:
    pytest.importorskip("torch")
    code = "import sys, tvm; print('torch' in sys.modules); import torch; print(torch.tensor(2))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["False", "tensor(2)"], done.stderr
