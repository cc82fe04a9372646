"""Shapes that came in: counted, merged, kept in a file, told."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest
from rich.console import Console

from opinfo.jit.tune.record import RecordError, Recording, Shape

from ..kernels import product


def some() -> Recording:
    out = Recording()
    out.add("matmul", "f1", {"n": 5}, 3)
    out.add("matmul", "f1", {"n": 7})
    out.add("add[0]", "f2", {"n": 5, "m": 2}, 4)
    out.add("matmul", "f1", {"n": 7}, 6)
    return out


def test_calls_are_counted_the_most_frequent_first() -> None:
    assert [(str(s), n) for s, n in some().top()] == [
        ("matmul: n=7", 7), ("add[0]: n=5, m=2", 4), ("matmul: n=5", 3)]  # fmt: skip
    assert some().top(1) == [(Shape("matmul", "f1", (("n", 7),)), 7)]
    assert repr(some()) == "Recording(3 shapes, 14 calls)" and len(some()) == 3
    with pytest.raises(ValueError, match="count must be positive, got 0"):
        some().add("matmul", "f1", {"n": 5}, 0)


def test_threads_lose_nothing() -> None:
    recording = Recording()
    start = threading.Barrier(8)

    def work(number: int) -> None:
        start.wait()
        for turn in range(500):
            recording.add("s", "f", {"n": turn % 5 + 1})
            if turn % 100 == number:
                recording.top(2)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert [n for _, n in recording.top()] == [800] * 5


def test_several_are_merged_and_stay_as_they_are() -> None:
    one, two = some(), some()
    two.add("other", "f3", {"k": 1})
    two.define("f3", "text")
    merged = Recording.merged([one, two])
    assert [n for _, n in merged.top()] == [14, 8, 6, 1] and len(one) == 3
    assert merged.functions == {"f3": "text"} and one.functions == {}


def test_it_comes_back_from_its_file(tmp_path: Path) -> None:
    path = tmp_path / "shapes.json"
    kept = some()
    kept.define("f1", "text of it")
    kept.save(path)
    found = Recording.load(path)
    assert found == kept and found.functions == {"f1": "text of it"}
    assert [p.name for p in tmp_path.iterdir()] == ["shapes.json"]
    found.save(path)
    assert Recording.load(path) == kept


def test_what_is_there_stays_where_it_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "shapes.json"
    some().save(path)
    before = path.read_bytes()

    def fail(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", fail)
    with pytest.raises(OSError, match="No space left"):
        Recording().save(path)
    assert path.read_bytes() == before and len(list(tmp_path.iterdir())) == 1


GOOD: dict[str, object] = {"site": "s", "function": "f", "values": {"n": 1}, "count": 1}


@pytest.mark.parametrize(
    "message",
    ["", "{", "[]", "3", "null", '{"format": 2}', '{"format": 1}', "[" * 100_000,
     *(json.dumps({"format": 1, "functions": {}, "shapes": [{**GOOD, k: wrong}]}) for k, wrong in
       [("count", 0), ("count", True), ("count", "1"), ("values", [1]), ("values", {"n": 1.5}),
        ("site", 3), ("function", None)]),
     json.dumps({"format": 1, "functions": [], "shapes": [GOOD]}),
     json.dumps({"format": 1, "functions": {"f": 3}, "shapes": [GOOD]})],
)  # fmt: skip
def test_an_invalid_record_is_a_record_error(tmp_path: Path, message: str) -> None:
    path = tmp_path / "shapes.json"
    path.write_text(message)
    with pytest.raises(RecordError, match=r"shapes\.json is not a recording of shapes: "):
        Recording.load(path)


def test_bytes_that_are_not_text_are_refused(tmp_path: Path) -> None:
    (tmp_path / "r").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(RecordError, match="not a record"):
        Recording.load(tmp_path / "r")
    with pytest.raises(FileNotFoundError):
        Recording.load(tmp_path / "absent")


def test_a_table_for_people() -> None:
    console = Console(width=100, record=True, file=open("/dev/null", "w"))
    console.print(some().table(2))
    head, first, second = console.export_text().splitlines()
    assert head.split() == ["site", "function", "shape", "calls", "share"]
    assert first.split() == ["matmul", "f1", "n=7", "7", "50.0%"]
    assert second.split() == ["add[0]", "f2", "n=5,", "m=2", "4", "28.6%"]


def test_functions_travel_with_their_shapes(tmp_path: Path) -> None:
    import tvm

    func = product()
    kept = Recording()
    kept.define("f", tvm.ir.save_json(func))
    kept.add("s", "f", {"n": 3})
    kept.save(tmp_path / "r.json")
    (found,) = Recording.load(tmp_path / "r.json").prim_funcs().values()
    tvm.ir.assert_structural_equal(found, func)
    kept.define("g", "no function")
    with pytest.raises(RecordError, match="function g"):
        kept.prim_funcs()
