"""`opinfo compile --shapes`: what it writes, prints and refuses; and its old name."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import numpy as np
import pytest
import tvm
from typer.testing import CliRunner

from opinfo.cli import app
from opinfo.cli.run.aliases import renamed
from opinfo.jit import Session
from opinfo.jit.runtime.library import Sites, loaded
from tests.jit import modules


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "dense.json"
    path.write_text(tvm.ir.save_json(modules.dense()))
    return path


def run(*arguments: object, command: str = "compile") -> tuple[int, str]:
    words = [command, *map(str, arguments)]
    if command == "compile" and "--shapes" not in words:
        words += ["--shapes", "jit"]
    result = CliRunner().invoke(app, words)
    return result.exit_code, result.output


def test_the_library_serves_and_its_functions_are_listed(model: Path, tmp_path: Path) -> None:
    library = tmp_path / "dense.so"
    code, output = run(model, "-o", library, "--shapes", "aot", "--dim", "n=1:64:1",
                     "--likely", "n=1,8")  # fmt: skip
    assert code == 0
    assert "fused_matmul_relu  aot       contraction  2 shapes" in output
    with Session(library, strict=True) as session:
        x = modules.rows(8)
        got = session(tvm.runtime.tensor(x)).numpy()
        np.testing.assert_allclose(got, modules.expected(x), rtol=1e-4, atol=1e-5)
        with pytest.raises(ValueError, match="expected 1 to 64"):
            session(tvm.runtime.tensor(modules.rows(65)))


@pytest.mark.parametrize(
    ("options", "why"),
    [(["--range", "n=2:4,8:32:8,17:"], "3 ranges"),
     (["--max", "--dim", "n=0:20"], "1 shape, padded in n"),
     (["--pad", "--likely", "n=4,16"], "2 shapes, padded in n")],
)  # fmt: skip
def test_what_is_compiled_ahead_can_be_said(
    model: Path, tmp_path: Path, options: list[str], why: str
) -> None:
    """Of all functions or of those with an operator; each shape is served rightly."""
    library = tmp_path / "dense.so"
    code, output = run(model, "-o", library, "--op", "relax.matmul=aot", *options)
    assert code == 0
    assert re.search(rf"fused_matmul_relu  aot +contraction  {why} *$", output, re.MULTILINE)
    with Session(library) as session:
        for n in (1, 3, 16, 17, 24, 33):
            x = modules.rows(n)
            got = session(x).numpy()
            np.testing.assert_allclose(got, modules.expected(x), rtol=1e-4, atol=1e-5)


def test_a_range_may_have_no_end_and_begin_at_0(model: Path, tmp_path: Path) -> None:
    library = tmp_path / "dense.so"
    for text, summary in (("n=0:8", "n is 0 to 8"), ("n=8::4", "n is 8 or more, a multiple of 4")):
        assert run(model, "-o", library, "--shapes", "record", "--dim", text)[0] == 0
        shown = run(library, command="inspect")[1].splitlines()[-1]
        assert shown == f"1 function, 1 call site, {summary}"


def test_inspect_tells_the_strategies_of_a_library(tmp_path: Path) -> None:
    model, library = tmp_path / "attention.json", tmp_path / "attention.so"
    model.write_text(tvm.ir.save_json(modules.attention()))
    code, output = run(model, "-o", library, "--op", "relax.nn.softmax=generic",
                     "--op", "relax.permute_dims=record", "--dim", "n=2:8:2")  # fmt: skip
    assert code == 0
    code, again = run(library, command="inspect")
    assert code == 0
    assert again.splitlines()[-1] == "4 functions, 3 call sites, n is 2 to 8, a multiple of 2"
    assert again.splitlines()[:-1] == output.splitlines()[1:-1]
    rows = json.loads(run(library, "--json", command="inspect")[1])["rows"]
    assert [r["strategy"] for r in rows] == ["record", "jit", "generic", "jit"]


def test_inspect_tells_the_strategies_of_symbolic_functions_after_fusion(model: Path) -> None:
    code, output = run(model, "--fused", command="inspect")
    assert code == 0
    assert re.search(r"fused_matmul_relu +1 +jit, contraction +\$0 = relax.matmul", output)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("hello", "the file is truncated"),
        ("hello" * 99, "expected a 64-bit ELF file"),
        (None, "no such file"),
    ],
)
def test_inspect_of_another_file_is_an_error_of_one_line(
    tmp_path: Path, text: str | None, message: str, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "model.so"
    if text is not None:
        path.write_text(text)
    assert run(path, command="inspect") == (2, "")
    said = capfd.readouterr().err
    assert said.count("\n") == 1 and message in said


def test_inspect_runs_nothing_of_a_library(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """To load one runs its constructors."""
    source, library, ran = (tmp_path / name for name in ("evil.cc", "evil.so", "ran"))
    source.write_text(
        "#include <cstdio>\n__attribute__((constructor)) void run() "
        f'{{ if (FILE* f = fopen("{ran}", "w")) fclose(f); }}\n'
    )
    subprocess.run(["g++", "-shared", "-fPIC", "-o", library, source], check=True)
    assert run(library, command="inspect") == (2, "")
    said = capfd.readouterr().err
    assert said.count("\n") == 1 and "to serve it in a Session" in said
    assert not ran.exists()


def test_a_truncated_library_is_refused(model: Path, tmp_path: Path) -> None:
    """To load it would be a bus error."""
    library = tmp_path / "dense.so"
    assert run(model, "-o", library, "--shapes", "generic")[0] == 0
    library.write_bytes(library.read_bytes()[:8000])
    with pytest.raises(ValueError, match="the file is truncated"):
        Session(library)


def test_a_library_without_sites_is_refused() -> None:
    with pytest.raises(ValueError, match=r"compiled without shapes=.* by Compiled.run"):
        Sites(loaded(Path(tvm.__file__).parent / "lib" / "libtvm_runtime.so"))


@pytest.mark.parametrize(
    ("options", "message"),
    [(["--shapes", "fast"], "--shapes: expected one of jit, aot, generic, library, record, got"),
     (["--op", "relax.matmul=ao"], "--op relax.matmul: expected one of jit, aot, generic, libr"),
     (["--shapes", "aot", "--likely", "n=4", "--tuned", "absent"], "expected a database of"),
     (["--op", "relax.matmul"], "expected NAME=VALUE, as in --op relax.matmul=aot"),
     (["--dim", "n"], "--dim n: expected NAME=VALUE, as in --dim n=1:128"),
     (["--dim", "n=1-8"], "--dim n: expected integers LOW:HIGH or LOW:HIGH:MULTIPLE"),
     (["--dim", "n=8"], "HIGH may be omitted, got 8"),
     (["--dim", "n=1:2:3:4"], "got 1:2:3:4"),
     (["--dim", "n=1:2:"], "got 1:2:"),
     (["--dim", "n=9:8"], "the range is empty"),
     (["--dim", "n=1:8:0"], "multiple_of must be positive"),
     (["--dim", "n=1:8", "--dim", "n=9:10"], "--dim n: expected once, got 1:8 and 9:10"),
     (["--likely", "n=0"], "--likely n: the likely value 0 is not in 1 or more"),
     (["--likely", "n=1;2"], "--likely n: expected comma-separated integers, got 1;2"),
     (["--shapes", "aot", "--range", "n=1:4,8"], "--range n: expected integers LOW:HIGH or"),
     (["--shapes", "aot", "--range", "n=9:8"], "--range n: Range(low=9, high=8,"),
     (["--shapes", "aot", "--range", "m=1:8"], "unknown dimension m"),
     (["--shapes", "aot", "--range", "n=1:8", "--max"], "max cannot be combined with buckets"),
     (["--max", "--op", "relax.matmul=generic"], "or --op ...=aot, got jit, generic"),
     (["--report", "page.html"], "--report: with --shapes, this requires --backend"),
     (["--dim", "m=1:8"], "unknown dimension m; the dimensions of the model: n (x:0)")],
)  # fmt: skip
def test_bad_options_are_one_line(
    model: Path, tmp_path: Path, options: list[str], message: str, capfd: pytest.CaptureFixture[str]
) -> None:
    code, _ = run(model, "-o", tmp_path / "dense.so", *options)
    said = capfd.readouterr().err
    assert code == 2
    assert message in said and said.count("\n") == 1
    assert not (tmp_path / "dense.so").exists()


def test_options_of_shapes_need_shapes(
    model: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    words = ["compile", str(model), "-o", str(tmp_path / "dense.so"), "--dim", "n=1:8"]
    assert CliRunner().invoke(app, words).exit_code == 2
    assert capfd.readouterr().err == "opinfo: --dim requires --shapes, such as --shapes jit\n"


def test_backends_and_shapes_go_together(model: Path, tmp_path: Path) -> None:
    """onednn takes one operator; the kernels of the other are compiled for shapes."""
    library, page = tmp_path / "dense.so", tmp_path / "page.html"
    code, output = run(model, "-o", library, "--backend", "onednn", "--shapes", "aot", "--likely",
                     "n=4", "--force", "relu=tvm", "--verify", "--report", page)  # fmt: skip
    assert code == 0, output
    lines = output.splitlines()
    assert lines[0].startswith("compiled for llvm, ")
    assert lines[1].startswith("offloaded 1 of 2 ops") and "onednn 1, tvm 1" in lines[1]
    assert any(re.match(r"relu +aot +pointwise +1 shape\b", line) for line in lines), output
    assert lines[-1].startswith("outputs differ by") and "relax.matmul" in page.read_text()
    with Session(library) as session:
        for n in (3, 4):
            x = modules.rows(n)
            got = session(x).numpy()
            np.testing.assert_allclose(got, modules.expected(x), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["specialize", "m"], ["compile", "--shapes", "jit", "m"]),
        (["specialize", "m", "--strategy", "aot"], ["compile", "m", "--shapes", "aot"]),
        (["specialize", "m", "--strategy=aot"], ["compile", "m", "--shapes=aot"]),
        (["compile", "specialize"], ["compile", "specialize"]),
        ([], []),
    ],
)
def test_the_old_name_is_that_of_a_command_with_an_option(
    words: list[str], expected: list[str]
) -> None:
    found, warning = renamed(words)
    assert found == expected
    assert bool(warning) == (words[:1] == ["specialize"])


def test_the_old_name_works_and_says_the_new_one(
    model: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    library = tmp_path / "dense.so"
    words = ["specialize", model, "-o", library, "--strategy", "generic"]
    result = CliRunner().invoke(app, [*map(str, words)])
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines()[-1] == f"written: {library}, 1 function"
    warning = "`opinfo specialize` is now `opinfo compile --shapes`; the old name is removed in the"
    assert capfd.readouterr().err == f"opinfo: {warning} next release\n"
