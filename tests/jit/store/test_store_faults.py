"""A store under attack: damaged entries, killed writers, full disks, many processes at once."""

from __future__ import annotations

import errno
import os
import warnings
from pathlib import Path
from typing import Any

import pytest

from opinfo.jit.store.kernel_file import packed
from opinfo.jit.store.store import KernelStore

from ..damages import Damage, flip_bit, replace_by_link, replace_by_pipe, truncate
from ..kernels import KEYS, library, stored

KEY = KEYS[0]
DAMAGES: dict[str, tuple[Damage, str]] = {
    "empty": (lambda p: p.write_bytes(b""), "it has only 0 bytes"),
    "truncated": (truncate, "its footer is missing"),
    "a flipped bit": (flip_bit, "its digest does not match"),
    "a bare library": (lambda p: p.write_bytes(library(KEY)), "its footer is missing"),
    "another key's": (
        lambda p: p.write_bytes(packed(KEYS[1], {}, library(KEY))),
        "it has another key",
    ),
    "another value": (
        lambda p: p.write_bytes(packed(KEY, {"op": 3}, library(KEY))),  # type: ignore[dict-item]
        "its description is malformed: about.op: expected a string",
    ),
    "a link": (replace_by_link, "symbolic"),
    "a pipe": (replace_by_pipe, "not a regular file"),
    "that others can write": (lambda p: p.chmod(0o666), "only this user can write"),
    "too large": (lambda p: os.truncate(p, 1 << 30), "it has 1073741824 bytes"),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_damaged_entries_are_ignored_with_a_warning_and_removed(tmp_path: Path, name: str) -> None:
    damage, why = DAMAGES[name]
    store = KernelStore(tmp_path)
    damage(stored(store, KEY))
    with pytest.warns(UserWarning) as caught:
        assert store.get(KEY) is None and store.get(KEY) is None
    (warning,) = caught
    assert why in str(warning.message) and "ignored and removed" in str(warning.message)
    assert KEY not in {r.key for r in store.ls()}
    stored(store, KEY)
    assert store.get(KEY) is not None


def test_a_format_of_another_version_is_built_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = KernelStore(tmp_path)
    with monkeypatch.context() as m:
        m.setattr("opinfo.jit.store.kernel_file.FORMAT", 2)
        stored(store, KEY)
    with pytest.warns(UserWarning, match="has format 2, expected 1"):
        assert store.get(KEY) is None


def test_what_is_discarded_goes_with_a_warning(tmp_path: Path) -> None:
    store = KernelStore(tmp_path)
    stored(store, KEY)
    stored(store, KEYS[1])
    with pytest.warns(UserWarning, match="it does not load"):
        store.discard(KEY, "it does not load")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        store.discard(KEY, "it is not there")
    assert [r.key for r in store.ls()] == [KEYS[1]]
    tmp_path.chmod(0o777)
    refusing = KernelStore(tmp_path)
    with pytest.warns(UserWarning, match="other users can write"):
        refusing.discard(KEYS[1], "it is another user's")
    assert (tmp_path / f"{KEYS[1]}.so").exists() and refusing.ls() == []


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EDQUOT, errno.EIO])
@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_where_nothing_can_be_written_it_goes_on_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, number: int
) -> None:
    store = KernelStore(tmp_path)
    stored(store, KEYS[1])

    def fail(*_: Any, **__: Any) -> None:
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as m:
        m.setattr(os, call, fail)
        with pytest.warns(UserWarning, match="not stored") as caught:
            assert store.put(KEY, __file__) is None and store.put(KEYS[2], __file__) is None
    assert len(caught) == 1 and os.strerror(number) in str(caught[0].message)
    assert [p.stem for p in tmp_path.iterdir()] == [KEYS[1]]
    assert store.get(KEYS[1]) is not None
    stored(store, KEY)


def test_a_read_only_folder_serves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store, open_ = KernelStore(tmp_path), os.open
    stored(store, KEY)

    def refusing(name: Any, flags: int, *rest: Any, **how: Any) -> int:
        if flags & os.O_CREAT:  # root could write it all the same
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        return open_(name, flags, *rest, **how)

    monkeypatch.setattr(os, "open", refusing)
    tmp_path.chmod(0o500)
    try:
        assert store.get(KEY) is not None
        with pytest.warns(UserWarning, match="Permission denied"):
            assert store.put(KEYS[1], __file__) is None
    finally:
        tmp_path.chmod(0o700)


def test_a_read_only_file_system_serves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = KernelStore(tmp_path)
    stored(store, KEY)

    def fail(*_: Any, **__: Any) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    for name in ("utime", "unlink", "replace"):
        monkeypatch.setattr(os, name, fail)
    assert store.get(KEY) is not None


def test_what_vanishes_between_its_name_and_its_bytes_is_missed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process evicts, at the worst moment of each operation."""
    store = KernelStore(tmp_path, max_count=1)
    scandir = os.scandir

    class Vanishing:
        def __init__(self, entry: Any) -> None:
            self.name = entry.name

        def stat(self, **how: Any) -> os.stat_result:
            os.remove(tmp_path / self.name)
            return os.stat(tmp_path / self.name)

    class Scan:
        def __init__(self, path: Any) -> None:
            self.found = [Vanishing(e) for e in scandir(path)]

        def __enter__(self) -> list[Vanishing]:
            return self.found

        def __exit__(self, *_: Any) -> None:
            pass

    stored(store, KEY)
    monkeypatch.setattr(os, "scandir", Scan)
    assert store.ls() == [] and store.clear() == []
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        stored(store, KEYS[1])
