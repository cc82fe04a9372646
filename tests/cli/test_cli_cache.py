"""`opinfo cache`: what is listed, what is removed, what is refused."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from opinfo.cli import app
from opinfo.cli.commands.cache import age, parse_age
from opinfo.cli.run.exit_status import UserError
from opinfo.jit.store.store import KernelStore

from ..jit.kernels import KEYS, stored


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> KernelStore:
    monkeypatch.setenv("OPINFO_CACHE", str(tmp_path / "kernels"))
    return KernelStore()


def run_cli(*words: str) -> Result:
    return CliRunner().invoke(app, ["cache", *words])


def test_path_is_where_kernels_are(store: KernelStore) -> None:
    assert run_cli("path").stdout == f"{store.folder}\n"
    assert run_cli("path", "--folder", "/elsewhere").stdout == "/elsewhere\n"


def test_ls_of_nothing(store: KernelStore) -> None:
    assert run_cli("ls").stdout == f"0 kernels, 0 bytes in {store.folder}\n"


def test_ls_is_a_row_for_each_kernel_the_last_used_first(
    store: KernelStore, tmp_path: Path
) -> None:
    old = stored(store, KEYS[0])
    os.utime(old, (time.time() - 3 * 86400,) * 2)
    (tmp_path / "k.so").write_bytes(bytes(1000))
    about = {"function": "matmul[x]", "shape": "n=5", "target": "llvm", "schedule": "tiled"}
    new = store.put(KEYS[1], tmp_path / "k.so", about)
    assert new is not None
    os.utime(new, (time.time() + 3600,) * 2)  # just now, however slow the machine is
    size = [p.stat().st_size for p in (new, old)]
    head, first, second, _, last = run_cli("ls").stdout.splitlines()
    assert head.split() == ["key", "function", "shape", "schedule", "target", "bytes", "last",
                            "used"]  # fmt: skip
    assert first.split() == [KEYS[1][:12], "matmul[x]", "n=5", "tiled", "llvm", f"{size[0]:,}",
                             "just", "now"]  # fmt: skip
    assert second.split() == [KEYS[0][:12], f"{size[1]:,}", "3", "d", "ago"]
    assert last == f"2 kernels, {sum(size):,} bytes in {store.folder}"


def test_ls_tells_what_is_damaged(store: KernelStore) -> None:
    stored(store, KEYS[0]).write_bytes(b"")
    assert "damaged: it has only 0 bytes" in run_cli("ls").stdout


def test_clear_removes_old_kernels_only(store: KernelStore) -> None:
    old = stored(store, KEYS[0])
    os.utime(old, (time.time() - 3 * 86400,) * 2)
    stored(store, KEYS[1])
    assert (
        run_cli("clear", "--older-than", "1d").stdout == f"1 kernel removed from {store.folder}\n"
    )
    assert [r.key for r in store.ls()] == [KEYS[1]]
    assert run_cli("clear").stdout == f"1 kernel removed from {store.folder}\n"
    assert store.ls() == []


@pytest.mark.parametrize("words", [["ls"], ["clear"]])
def test_a_folder_that_others_can_write_is_one_line(
    store: KernelStore, words: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    stored(store, KEYS[0])
    store.folder.chmod(0o777)
    got = run_cli(*words)
    err = capfd.readouterr().err
    assert (got.exit_code, got.stdout) == (2, "")
    assert err.startswith("opinfo: other users can write") and err.count("\n") == 1
    assert len(list(store.folder.iterdir())) == 1


def test_ages_have_a_number_and_a_unit() -> None:
    assert [parse_age(t) for t in ("90s", "30m", "1.5h", "7d", "2w")] == [
        90, 1800, 5400, 604800, 1209600]  # fmt: skip
    for text in ("", "7", "d", "7 d", "-1d", "1y"):
        with pytest.raises(UserError, match="expected a number and s, m, h, d or w"):
            parse_age(text)
    assert [age(s) for s in (0.5, 59, 60, 7300, 2 * 86400, 15 * 86400)] == [
        "just now", "59 s ago", "1 m ago", "2 h ago", "2 d ago", "2 w ago"]  # fmt: skip
