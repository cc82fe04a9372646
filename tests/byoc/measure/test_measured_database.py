"""The database of measured times: written by several processes, read as far as it can be."""

from __future__ import annotations

import multiprocessing
import os
from pathlib import Path

import pytest
from tvm import relax

from opinfo.byoc import Excluded, Measure, Measured
from opinfo.byoc.matching.lowered import read
from opinfo.byoc.measure import run_candidates as running
from opinfo.byoc.measure.candidate import by_backend
from opinfo.byoc.measure.database import Database
from opinfo.byoc.measure.subject import subject
from opinfo.byoc.measure.timing_key import Key

from ...layout import nets
from ..backends.odd import ODD
from .test_measure import SHAPE


def _key(k: int) -> Key:
    return Key(f"{k:x}", ("float32[2]",), "llvm", "odd", "1", "c", "cpu", 1)


def _write(path: Path, first: int) -> None:
    database = Database(path)
    for k in range(first, first + 50):
        database.put(_key(k), Measured(float(k)))
    os._exit(0)


def test_several_processes_write_one_database(tmp_path: Path) -> None:
    path = tmp_path / "new" / "times.jsonl"
    fork = multiprocessing.get_context("fork")
    writers = [fork.Process(target=_write, args=(path, 50 * k)) for k in range(4)]
    for w in writers:
        w.start()
    for w in writers:
        w.join()
    assert Database(path).results == {_key(k): Measured(float(k)) for k in range(200)}


def test_a_file_of_another_kind_is_not_added_to(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(b"some\nother\nfile\n")
    with pytest.raises(ValueError, match="is not a database of times: none of its 3 lines"):
        Database(path)
    path.write_bytes(b'{"torn": ')
    with pytest.warns(UserWarning, match="1 entries are ignored"):
        Database(path)


def test_entries_that_cannot_be_read_are_ignored(tmp_path: Path) -> None:
    path = tmp_path / "times.jsonl"
    database = Database(path)
    database.put(_key(1), Measured(1.0))
    database.put(_key(1), Excluded("it hangs"))
    good = path.read_text().splitlines()[0]
    bad = ['{"format": 9}', "[1]", good.replace("1.0", "NaN"), good.replace('"llvm"', "7"),
           good.replace('"threads": 1', '"threads": true'), good.replace("1.0", "1" + "0" * 400),
           good[:40]]  # fmt: skip
    path.write_bytes(path.read_bytes() + "\n".join(bad).encode() + b"\n\xff\xfe")
    with pytest.warns(UserWarning, match=r"8 entries are ignored.*lines 3, 4, 5, 6, 7 …"):
        again = Database(path)
    assert again.results == {_key(1): Excluded("it hangs")}
    again.put(_key(2), Measured(2.0))  # after a line that was torn
    with pytest.warns(UserWarning, match="8 entries"):
        assert Database(path).get(_key(2)) == Measured(2.0)


def test_times_of_unchecked_results_are_not_stored(tmp_path: Path) -> None:
    with pytest.raises(
        ValueError, match=r"^Measure: checked=False with database='.*' would .*: omit one"
    ):
        Measure(tmp_path / "times.jsonl", checked=False)
    assert not Measure(checked=False).checked


def test_without_a_comparison_what_is_wrong_has_a_time(tmp_path: Path) -> None:
    mod = nets.net(lambda e, r, x: e(relax.op.tanh(x)), SHAPE)
    lowered, how = read(mod, "test"), Measure(servers=1, repeat=1, checked=False)
    (op,) = lowered.ops
    candidate = by_backend(ODD, (op,), lowered.infos, subject((op,), {}), how.machine)
    found, _ = running.results([candidate], how)
    assert isinstance(found[candidate.key], Measured)
