"""`opinfo specialize`: what it writes, tells and refuses."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import tvm
from typer.testing import CliRunner

from opinfo.cli import app
from opinfo.jit import Session
from tests.jit import modules


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "dense.json"
    path.write_text(tvm.ir.save_json(modules.dense()))
    return path


def run(*arguments: object) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["specialize", *map(str, arguments)])
    return result.exit_code, result.output


def test_the_library_serves_and_functions_are_told(model: Path, tmp_path: Path) -> None:
    library = tmp_path / "dense.so"
    code, told = run(model, "-o", library, "--strategy", "aot", "--dim", "n=1:64:1",
                     "--likely", "n=1,8")  # fmt: skip
    assert code == 0
    assert "fused_matmul_relu  aot       contraction  2 shapes" in told
    with Session(library, strict=True) as session:
        x = modules.rows(8)
        got = session(tvm.runtime.tensor(x)).numpy()
        np.testing.assert_allclose(got, modules.expected(x), rtol=1e-4, atol=1e-5)
        with pytest.raises(ValueError, match="allowed is 1 to 64"):
            session(tvm.runtime.tensor(modules.rows(65)))


@pytest.mark.parametrize(
    ("options", "told"),
    [(["--strategy", "fast"], "expected a strategy or one of"),
     (["--strategy", "aot", "--likely", "n=4", "--tuned", "absent"], "is no database"),
     (["--op", "relax.matmul"], "relax.matmul: expected NAME=VALUE"),
     (["--dim", "n=1-8"], "1-8: expected integers with ':' between them"),
     (["--dim", "n=1:2:3:4"], "--dim n: expected LOW:HIGH or LOW:HIGH:MULTIPLE"),
     (["--dim", "n=9:8"], "there is no such number"),
     (["--likely", "n=0"], "the likely value 0 is not in"),
     (["--dim", "m=1:8"], "there is no dimension m; those of the model: n (x:0)")],
)  # fmt: skip
def test_bad_options_are_one_line(
    model: Path, tmp_path: Path, options: list[str], told: str, capfd: pytest.CaptureFixture[str]
) -> None:
    code, _ = run(model, "-o", tmp_path / "dense.so", *options)
    said = capfd.readouterr().err
    assert code == 2
    assert told in said and "Traceback" not in said
    assert not (tmp_path / "dense.so").exists()
