"""Programs that were read before: what an entry depends on, and that the module is the same."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import tvm
import tvm_ffi
from torch import nn

import opinfo
from opinfo.analysis.support.files.bounded_folder import forget_oldest
from opinfo.frontend.checks.ir_json.large_constants import Message
from opinfo.frontend.process import kept_programs
from opinfo.frontend.process.kept_programs import KeptProgram, kept_program
from opinfo.frontend.process.reader_client import Reader, shared_reader
from tests.common.damaged_entries import DAMAGES

WIDTH = 1024


class Layer(nn.Module):
    """Two weights of 4 MiB."""

    def __init__(self) -> None:
        super().__init__()
        self.product = nn.Linear(WIDTH, WIDTH)
        self.other = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> Any:
        return self.other(torch.relu(self.product(x)))


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("program") / "layer.pt2"
    rows = torch.export.Dim("rows", max=8)
    layer = torch.export.export(Layer(), (torch.zeros(2, WIDTH),), dynamic_shapes=({0: rows},))
    torch.export.save(layer, path)
    return path


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("OPINFO_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "programs"


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The files that the reader was asked for; it reads them."""
    out: list[Path] = []
    read = Reader.read

    def noted(self: Reader, path: Path, *args: Any) -> Message:
        out.append(path)
        return read(self, path, *args)

    monkeypatch.setattr(Reader, "read", noted)
    return out


def _of(path: Path, shapes: Any = ()) -> KeptProgram:
    kept = kept_program(path, dict(shapes))
    assert kept is not None
    return kept


def test_a_program_is_read_once(program: Path, cache: Path, asked: list[Path]) -> None:
    first = opinfo.load(program)
    assert asked == [program]
    (entry,) = cache.iterdir()
    assert entry.stat().st_size < program.stat().st_size // 8  # the weights stay in the file
    tvm.ir.assert_structural_equal(opinfo.load(program), first)
    assert asked == [program]
    assert _of(program).find() is not None


def test_other_shapes_are_another_program(program: Path, cache: Path, asked: list[Path]) -> None:
    free = opinfo.load(program)
    fixed = opinfo.load(program, {"x": (3, WIDTH)})
    again = opinfo.load(program, {"x": (3, WIDTH)})
    assert len(asked) == 2
    tvm.ir.assert_structural_equal(again, fixed)
    assert not tvm_ffi.structural_equal(free, fixed)


def test_another_file_of_the_same_name_is_read(
    program: Path, cache: Path, asked: list[Path], tmp_path: Path
) -> None:
    path = tmp_path / "copy.pt2"
    path.write_bytes(program.read_bytes())
    opinfo.load(program)
    opinfo.load(path)  # what counts is the content
    assert asked == [program]
    torch.export.save(torch.export.export(nn.ReLU(), (torch.zeros(2),)), path)
    assert len(opinfo.load(path)["main"].params) == 1
    assert asked == [program, path]


@pytest.mark.parametrize("part", ["_readers", "_version"])
def test_other_readers_read_again(
    program: Path, cache: Path, monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    before = _of(program).entry
    kept_programs._readers.cache_clear()
    assert _of(program).entry == before
    kept_programs._readers.cache_clear()
    monkeypatch.setattr(kept_programs, part, lambda *_: ["another"])
    assert _of(program).entry != before
    monkeypatch.undo()
    kept_programs._readers.cache_clear()


def test_changed_sources_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_programs, "PACKAGE", tmp_path)
    (tmp_path / "inner").mkdir()
    source = tmp_path / "inner" / "reader.py"
    source.write_text("x = 1")
    before = kept_programs._readers.__wrapped__()
    assert kept_programs._readers.__wrapped__() == before
    os.utime(source, ns=(0, 1))
    assert kept_programs._readers.__wrapped__() != before


@pytest.mark.parametrize("damage", [*DAMAGES, "others"])
def test_what_is_damaged_is_read_again(
    program: Path, cache: Path, asked: list[Path], damage: str
) -> None:
    first = opinfo.load(program)
    (entry,) = cache.iterdir()
    whole = entry.read_bytes()
    if damage == "others":
        cache.chmod(0o777)
    else:
        entry.write_bytes(DAMAGES[damage](whole))
    tvm.ir.assert_structural_equal(opinfo.load(program), first)
    assert asked == [program, program]
    if damage != "others":
        assert entry.read_bytes() == whole


def test_a_file_that_changes_while_it_is_read_is_not_kept(
    program: Path, cache: Path, tmp_path: Path
) -> None:
    path = tmp_path / "copy.pt2"
    path.write_bytes(program.read_bytes())
    kept = _of(path)
    os.utime(path, ns=(0, 1))
    message = shared_reader().read(path, {})
    kept.keep(message)
    assert not cache.exists()
    _of(path).keep(message)
    assert len(list(cache.iterdir())) == 1


def test_arrays_that_the_file_lacks_are_kept(program: Path, cache: Path) -> None:
    from opinfo.frontend.checks.ir_json.large_constants import heading, unpacked

    kept = _of(program)
    _, (weight, *others) = unpacked(shared_reader().read(program, {}))
    arrays = [weight + 1, weight, *others]
    kept.keep(b"".join([heading(b"{}", arrays), b"{}", *(a.tobytes() for a in arrays)]))
    found = kept.find()
    assert found is not None and found[0] == b"{}"
    for array, right in zip(found[1], arrays, strict=True):
        np.testing.assert_array_equal(array, right)
    assert weight.nbytes < kept.entry.stat().st_size < 2 * weight.nbytes


def test_the_oldest_entries_go(tmp_path: Path) -> None:
    for k in range(4):
        (tmp_path / f"entry{k}").write_bytes(bytes(1000))
        os.utime(tmp_path / f"entry{k}", ns=(k, k))
    forget_oldest(tmp_path, 2500)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["entry2", "entry3"]


def test_large_files_and_other_formats_are_not_kept(
    program: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert kept_program(program.with_suffix(".onnx"), {}) is None
    monkeypatch.setattr(kept_programs, "LARGEST", 1000)
    assert kept_program(program, {}) is None
