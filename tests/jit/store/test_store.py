"""Compiled kernels on disk: what is kept, what is evicted, which folders are refused."""

from __future__ import annotations

import os
import stat
import time
import warnings
from pathlib import Path
from typing import Any

import pytest

from opinfo.jit.store.default_folder import default_folder
from opinfo.jit.store.kernel_file import FOOTER, Damaged, opened, packed
from opinfo.jit.store.store import KernelStore
from opinfo.jit.store.store_files import PART

from ..kernels import KEYS, library, stored

ABOUT = {"function": "matmul", "shape": "n=5", "target": "llvm", "schedule": "tiled"}


@pytest.fixture
def store(tmp_path: Path) -> KernelStore:
    return KernelStore(tmp_path / "a" / "kernels")


def put(store: KernelStore, key: str, used: float | None = None) -> Path:
    path = stored(store, key)
    if used is not None:
        os.utime(path, (used, used))
    return path


def test_what_is_put_is_got_and_another_key_is_not(store: KernelStore) -> None:
    assert store.get(KEYS[0]) is None and not store.folder.exists()
    path = put(store, KEYS[0])
    assert store.get(KEYS[0]) == path and store.get(KEYS[1]) is None
    assert path.read_bytes().startswith(library(KEYS[0]))


def test_it_is_private_whatever_the_umask_is(store: KernelStore) -> None:
    store.folder.parent.mkdir()
    before = os.umask(0)
    try:
        path = put(store, KEYS[0])
    finally:
        os.umask(before)
    modes = [stat.S_IMODE(p.stat().st_mode) for p in (store.folder, path)]
    assert modes == [0o700, 0o600]


def test_a_later_put_replaces_and_leaves_a_mapped_file_alone(store: KernelStore) -> None:
    first = put(store, KEYS[0])
    inode = first.stat().st_ino
    with first.open("rb") as mapped:
        put(store, KEYS[0])
        assert first.stat().st_ino != inode and os.fstat(mapped.fileno()).st_ino == inode
        assert mapped.read().startswith(library(KEYS[0]))


def test_the_longest_unused_goes_first_and_getting_is_using(store: KernelStore) -> None:
    now = time.time()
    small = KernelStore(store.folder, max_count=3)
    for age, key in zip((300, 200, 100), KEYS, strict=False):
        put(small, key, now - age)
    assert small.get(KEYS[0]) is not None
    put(small, KEYS[3])
    assert [k in {r.key for r in small.ls()} for k in KEYS[:4]] == [True, False, True, True]


def test_what_was_just_put_stays_whatever_the_clocks_say(store: KernelStore) -> None:
    small = KernelStore(store.folder, max_count=1)
    put(small, KEYS[0], time.time() + 3600)
    put(small, KEYS[1])
    assert [r.key for r in small.ls()] == [KEYS[1]]


def test_bytes_are_bounded(store: KernelStore) -> None:
    size = put(store, KEYS[0], time.time() - 9).stat().st_size
    small = KernelStore(store.folder, max_bytes=2 * size)
    put(small, KEYS[1], time.time() - 8)
    put(small, KEYS[2])
    assert {r.key for r in small.ls()} == {KEYS[1], KEYS[2]}


def test_a_kernel_larger_than_all_may_be_is_not_kept(store: KernelStore, tmp_path: Path) -> None:
    small = KernelStore(store.folder, max_bytes=100)
    (tmp_path / "k.so").write_bytes(bytes(101))
    with pytest.warns(UserWarning, match="exceeds the limit of the store"):
        assert small.put(KEYS[0], tmp_path / "k.so") is None
    assert small.ls() == []


def test_rows_tell_what_was_put_the_last_used_first(store: KernelStore, tmp_path: Path) -> None:
    put(store, KEYS[0], 1000.0)
    (tmp_path / "k.so").write_bytes(b"library")
    path = store.put(KEYS[1], tmp_path / "k.so", ABOUT)
    assert path is not None
    first, second = store.ls()
    assert (first.key, first.about, first.size) == (KEYS[1], ABOUT, path.stat().st_size)
    assert (second.key, second.used) == (KEYS[0], 1000.0)


def test_clear_takes_what_is_old_or_everything_that_is_ours(store: KernelStore) -> None:
    put(store, KEYS[0], time.time() - 100)
    new = put(store, KEYS[1])
    other = store.folder / "notes.so"
    other.write_text("not ours")
    assert [p.stem for p in store.clear(50)] == [KEYS[0]]
    assert store.clear() == [new] and [p.name for p in store.folder.iterdir()] == [other.name]


def test_clear_takes_what_writers_that_were_killed_left(store: KernelStore) -> None:
    put(store, KEYS[0])
    left = {age: store.folder / f"{PART}{age}" for age in (-7200, 100, 7200)}
    for age, path in left.items():
        path.write_bytes(b"half")
        os.utime(path, (time.time() - age,) * 2)
    assert store.clear(86400) == [] and [a for a, p in left.items() if p.exists()] == [-7200, 100]
    assert len(store.clear()) == 1 and [a for a, p in left.items() if p.exists()] == [-7200]


@pytest.mark.parametrize("mode", [0o770, 0o707, 0o777])
def test_a_folder_that_others_can_write_is_refused(
    store: KernelStore, mode: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("opinfo.byoc.process.trust._is_private", lambda _: False)
    put(store, KEYS[0])
    store.folder.chmod(mode)
    again = KernelStore(store.folder)
    with pytest.warns(UserWarning, match=f"other users can write .*mode is {mode:04o}") as caught:
        assert again.get(KEYS[0]) is None and again.get(KEYS[0]) is None
        assert again.put(KEYS[1], __file__) is None
    assert len(caught) == 1
    store.folder.chmod(0o750)
    assert again.get(KEYS[0]) is not None and again.refusal() is None


def test_a_folder_that_others_can_replace_is_refused(store: KernelStore) -> None:
    put(store, KEYS[0])
    store.folder.parent.chmod(0o777)
    why = KernelStore(store.folder).refusal()
    above = store.folder.parent
    assert why == (f"other users can replace {store.folder}: {above} has mode 0777; "
                   f"chmod go-w {above}, or choose another folder")  # fmt: skip
    store.folder.parent.chmod(0o1777)
    assert KernelStore(store.folder).refusal() is None


def test_it_is_asked_at_each_use(store: KernelStore) -> None:
    put(store, KEYS[0])
    assert store.get(KEYS[0]) is not None and store.refusal() is None
    store.folder.parent.chmod(0o777)
    with pytest.warns(UserWarning, match="kernels are not stored: other users can replace"):
        assert store.get(KEYS[0]) is None and store.put(KEYS[1], __file__) is None
    assert store.refusal() is not None
    with pytest.MonkeyPatch.context() as m:
        m.setattr(store, "_warned", {f"kernels are not stored: {store.refusal()}"})
        assert store.ls() == [] and store.clear() == []
    store.folder.parent.chmod(0o700)
    assert store.get(KEYS[0]) is not None and len(store.ls()) == 1


def test_a_folder_that_is_swapped_under_the_reader_is_not_read(
    store: KernelStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was checked is what is read, though its path leads elsewhere by then."""
    put(store, KEYS[0])
    planted = KernelStore(tmp_path / "planted")
    (tmp_path / "k.so").write_bytes(b"\x7fELF planted")
    path = planted.put(KEYS[0], tmp_path / "k.so")
    assert path is not None
    open_ = os.open

    def swapping(name: Any, *rest: Any, **how: Any) -> int:
        if str(name).endswith(f"{KEYS[0]}.so") and store.folder.exists():
            store.folder.rename(tmp_path / "aside")
            (tmp_path / "a" / "kernels").symlink_to(planted.folder)
        return open_(name, *rest, **how)

    monkeypatch.setattr(os, "open", swapping)
    assert store.copy(KEYS[0], tmp_path / "copy.so")
    assert (tmp_path / "aside").exists()
    assert (tmp_path / "copy.so").read_bytes().startswith(library(KEYS[0]))


def test_a_copy_is_what_was_verified(store: KernelStore, tmp_path: Path) -> None:
    path, to = put(store, KEYS[0]), tmp_path / "copy.so"
    assert store.copy(KEYS[0], to) and to.read_bytes() == path.read_bytes()
    assert not store.copy(KEYS[1], tmp_path / "other.so") and not (tmp_path / "other.so").exists()
    path.write_bytes(b"")
    assert to.read_bytes().startswith(library(KEYS[0]))


def test_a_folder_of_another_user_is_refused(
    store: KernelStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(store, KEYS[0])
    if os.geteuid() == 0:
        os.chown(store.folder, 12345, -1)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    why = KernelStore(store.folder).refusal()
    assert why is not None and "belongs to another user" in why and "choose another folder" in why


def test_a_file_in_place_of_the_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "kernels").write_text("")
    why = KernelStore(tmp_path / "kernels").refusal()
    assert why == f"{tmp_path / 'kernels'}: Not a directory"


@pytest.mark.parametrize(
    "key", ["", "../../../etc/passwd", "A" * 40, "ab", "0" * 65, "0" * 40 + "\n"]
)
def test_keys_are_hexadecimal(store: KernelStore, key: str) -> None:
    with pytest.raises(ValueError, match="16 to 64 hexadecimal digits"):
        store.get(key)
    with pytest.raises(ValueError, match="16 to 64 hexadecimal digits"):
        store.put(key, __file__)


@pytest.mark.parametrize("bounds", [{"max_bytes": 0}, {"max_count": -1}])
def test_bounds_are_positive(bounds: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=f"{next(iter(bounds))} must be positive"):
        KernelStore("/nowhere", **bounds)


def test_the_platforms_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setenv("HOME", "/home/me")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.delenv("OPINFO_CACHE", raising=False)
    assert default_folder() == Path("/home/me/.cache/opinfo/kernels")
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert default_folder() == Path("/home/me/.cache/opinfo/kernels")
    monkeypatch.setenv("XDG_CACHE_HOME", "/var/cache/me")
    assert default_folder() == Path("/var/cache/me/opinfo/kernels")
    monkeypatch.setenv("OPINFO_CACHE", "/scratch/k")
    assert default_folder() == Path("/scratch/k") == KernelStore().folder


def test_an_entry_is_opened_as_it_was_packed() -> None:
    raw = packed(KEYS[0], ABOUT, library(KEYS[0]))
    assert opened(raw, KEYS[0]) == ABOUT and raw.startswith(library(KEYS[0]))


def test_no_bit_of_an_entry_can_change() -> None:
    raw = packed(KEYS[0], {}, b"l")
    for position in range(8 * len(raw)):
        changed = bytearray(raw)
        changed[position // 8] ^= 1 << position % 8
        assert isinstance(opened(bytes(changed), KEYS[0]), Damaged), position


def test_no_part_of_an_entry_is_one() -> None:
    raw = packed(KEYS[0], ABOUT, b"library")
    for length in range(len(raw)):
        assert isinstance(opened(raw[:length], KEYS[0]), Damaged), length
        assert isinstance(opened(raw[length + 1 :], KEYS[0]), Damaged), length
    assert isinstance(opened(raw + b"\0", KEYS[0]), Damaged)
    assert FOOTER < len(raw)


def test_no_warning_where_nothing_is_wrong(store: KernelStore, tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        put(store, KEYS[0])
        store.get(KEYS[0])
        store.get(KEYS[1])
        store.clear()


@pytest.mark.parametrize(
    ("folder", "error", "message"),
    [(3, TypeError, "folder: expected a path, got 3"),
     ("", ValueError, "folder: expected a path, got an empty one"),
     ("a\0b", ValueError, "folder: a path has no NUL character")],
)  # fmt: skip
def test_a_folder_that_is_not_a_path_is_refused(
    folder: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        KernelStore(folder)
