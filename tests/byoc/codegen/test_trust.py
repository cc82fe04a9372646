"""Code is loaded only from what this user and root alone can change, by what was really opened."""

from __future__ import annotations

import errno
import grp
import os
import pwd
import stat
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from opinfo.byoc.backends.nvidia.products import cutlass
from opinfo.byoc.process import trust
from opinfo.byoc.process.temporary_folder import TemporaryFolder

OTHER, STICKY, ANY = 12345, stat.S_ISVTX, 99


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


@pytest.fixture
def without_lists(monkeypatch: pytest.MonkeyPatch) -> None:
    """No file has an access control list."""
    monkeypatch.setattr(trust, "_has_acl", lambda _: False, raising=False)


@pytest.mark.parametrize(
    ("user", "mode", "above", "last"),
    [(None, 0o700, None, None), (0, 0o755, None, None), (None, 0o750, None, None),
     (OTHER, 0o700, r"belongs to another user \(uid 12345\)", "belongs to another user"),
     (OTHER, 0o1777, "belongs to another user", "belongs to another user"),
     (None, 0o777, "other users can replace", "other users can write"),
     (None, 0o702, "other users can replace", "other users can write"),
     (0, 0o1777, None, "other users can write"), (0, 0o1775, None, "other users can write"),
     (None, 0o770, "other users can replace", "other users can write")],
)  # fmt: skip
def test_who_owns_and_who_writes_decide(
    user: int | None, mode: int, above: str | None, last: str | None,
    without_lists: None,
) -> None:  # fmt: skip
    status: Any = SimpleNamespace(st_uid=os.geteuid() if user is None else user, st_mode=mode,
                                st_gid=OTHER)  # fmt: skip
    for why, is_last in ((above, False), (last, True)):
        if why is None:
            trust._check(status, ANY, Path("/x"), Path("/x/y"), is_last)
            continue
        with pytest.raises(trust.Untrusted, match=why) as e:
            trust._check(status, ANY, Path("/x"), Path("/x/y"), is_last)
        assert "choose another folder" in str(e.value) and "\n" not in str(e.value)


def _accounts(
    monkeypatch: pytest.MonkeyPatch, name: str, members: Sequence[str] = (),
    others: Mapping[int, int] | None = None,
) -> None:  # fmt: skip
    """A group, its members, this user whose primary group is 1000, and those of other users."""
    users = {os.geteuid(): 1000, **(others or {})}
    entries = [SimpleNamespace(pw_uid=u, pw_gid=g) for u, g in users.items()]
    monkeypatch.setattr(pwd, "getpwuid", lambda _: SimpleNamespace(pw_name="me"))
    monkeypatch.setattr(pwd, "getpwall", lambda: entries)
    monkeypatch.setattr(grp, "getgrgid",
                        lambda _: SimpleNamespace(gr_name=name, gr_mem=list(members)))  # fmt: skip
    monkeypatch.setattr(trust, "_users", trust._users.__wrapped__)


@pytest.mark.parametrize(
    ("name", "number", "members", "others", "private"),
    [("me", 1000, [], {}, True), ("me", 1000, ["me"], {OTHER: 7}, True),
     ("me", 1000, ["me", "you"], {}, False), ("staff", 1000, [], {}, False),
     ("me", 1000, [], {OTHER: 1000}, False), ("root", 0, [], {}, False), ("me", 0, [], {}, False)],
)  # fmt: skip
def test_a_group_of_this_user_alone_may_write_above(
    name: str, number: int, members: list[str], others: dict[int, int], private: bool,
    monkeypatch: pytest.MonkeyPatch, without_lists: None,
) -> None:  # fmt: skip
    _accounts(monkeypatch, name, members, others)
    status: Any = SimpleNamespace(st_uid=os.geteuid(), st_mode=0o775, st_gid=number)
    for last in (False, True):
        if private:
            trust._check(status, ANY, Path("/x"), Path("/x/y"), last)
            continue
        with pytest.raises(trust.Untrusted, match="chmod go-w /x"):
            trust._check(status, ANY, Path("/x"), Path("/x/y"), last)


def _acl(user: int) -> bytes:
    """An access control list by which a user may write: tag, permissions and number of each."""
    entries = [(1, 7, -1), (2, 7, user), (4, 5, -1), (0x10, 7, -1), (0x20, 5, -1)]
    return struct.pack("<I", 2) + b"".join(struct.pack("<HHi", *e) for e in entries)


def test_a_user_of_an_access_control_list_is_not_excused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trust, "_is_private", lambda _: True)
    (tmp_path / "kernels").mkdir()
    file = tmp_path / "kernels" / "file"
    file.write_text("code")
    for path in (tmp_path / "kernels", file):
        path.chmod(0o775)
    with trust.folder(tmp_path / "kernels") as number:
        assert trust.read("file", number) == b"code"
    for path in (file, tmp_path / "kernels"):
        try:
            os.setxattr(path, "system.posix_acl_access", _acl(OTHER))
        except (AttributeError, OSError):
            pytest.skip("no access control lists here")
    with pytest.raises(trust.Untrusted, match="only this user can write"):
        trust.read(file)
    with pytest.raises(trust.Untrusted, match=r"other users can write .*chmod go-w"):
        with trust.folder(tmp_path / "kernels"):
            pass
    for path in (file, tmp_path / "kernels"):  # as the message says
        path.chmod(0o755)
    with trust.folder(tmp_path / "kernels") as number:
        assert trust.read("file", number) == b"code"


@pytest.mark.parametrize(("number", "acl"), [
    (errno.ENODATA, False), (errno.ENOTSUP, False), (errno.EACCES, True), (errno.ENOENT, True),
])  # fmt: skip
def test_a_list_that_cannot_be_had_is_taken_for_one(
    number: int, acl: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def getxattr(*_: Any) -> bytes:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "getxattr", getxattr, raising=False)
    assert trust._has_acl(ANY) is acl


def test_links_are_followed_and_every_folder_on_the_way_counts(tmp_path: Path) -> None:
    for name in ("open/kernels", "closed/kernels", "links"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "links" / "absolute").symlink_to(tmp_path / "closed" / "kernels")
    (tmp_path / "links" / "relative").symlink_to("../closed/kernels")
    (tmp_path / "links" / "out").symlink_to("../open/kernels")
    (tmp_path / "links" / "round").symlink_to("round")
    (tmp_path / "closed" / "kernels" / "here").write_text("")
    (tmp_path / "closed" / "kernels").chmod(0o755)
    before = open_files()
    for name in ("absolute", "relative", "../links/./relative"):
        with trust.folder(tmp_path / "links" / name) as number:
            assert os.listdir(number) == ["here"]
    (tmp_path / "open").chmod(0o777)
    for name, why in (("out", "open has mode 0777"), ("round", "more than 40 links")):
        with pytest.raises(trust.Untrusted, match=why), trust.folder(tmp_path / "links" / name):
            pass
    # On the way there and back is on the way, too.
    with pytest.raises(trust.Untrusted, match="open has mode 0777"):
        with trust.folder(tmp_path / "open" / ".." / "closed" / "kernels"):
            pass
    assert open_files() == before


def test_a_link_of_another_user_leads_nowhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "link").symlink_to("/usr")
    if os.geteuid() == 0:
        os.chown(tmp_path / "link", OTHER, -1, follow_symlinks=False)
        with pytest.raises(trust.Untrusted, match=r"is a link of another user \(uid 12345\)"):
            with trust.folder(tmp_path / "link"):
                pass
    else:
        found = os.open(tmp_path, os.O_RDONLY)
        monkeypatch.setattr(os, "geteuid", lambda: OTHER)
        with pytest.raises(trust.Untrusted, match="link is a link of another user"):
            trust._link("link", found, tmp_path)
        os.close(found)


def test_folders_are_made_for_this_user_alone(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError), trust.folder(tmp_path / "a" / "b"):
        pass
    before = os.umask(0)
    try:
        with trust.folder(tmp_path / "a" / "b", create=True):
            pass
    finally:
        os.umask(before)
    assert {stat.S_IMODE((tmp_path / p).stat().st_mode) for p in ("a", "a/b")} == {0o700}
    (tmp_path / "public").mkdir(mode=0o700)
    (tmp_path / "public").chmod(0o777)
    with pytest.raises(trust.Untrusted), trust.folder(tmp_path / "public" / "new", create=True):
        pass
    assert not (tmp_path / "public" / "new").exists()


def test_files_that_others_may_write_are_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trust, "_is_private", lambda _: False)
    file = tmp_path / "file"
    file.write_bytes(b"code")
    file.chmod(0o644)
    assert trust.read(file) == b"code"
    with trust.folder(tmp_path) as number:
        assert trust.read("file", number, most=4) == b"code"
        with pytest.raises(trust.Untrusted, match="it has 4 bytes"):
            trust.read("file", number, most=3)
    (tmp_path / "link").symlink_to(file)
    with pytest.raises(OSError):
        trust.read(tmp_path / "link")
    for mode in (0o622, 0o660, 0o666):
        file.chmod(mode)
        with pytest.raises(trust.Untrusted, match=f"only this user can write.*mode 0{mode:o}"):
            trust.read(file)
    os.mkfifo(tmp_path / "pipe", 0o600)
    with pytest.raises(trust.Untrusted, match="not a regular file"):
        trust.read(tmp_path / "pipe")


def test_a_temporary_folder_that_others_can_replace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    folder = TemporaryFolder("opinfo-")
    assert folder.path.parent == tmp_path
    folder.remove()
    tmp_path.chmod(0o777)
    with pytest.raises(trust.Untrusted, match=r"temporary files: other users .*TMPDIR") as e:
        TemporaryFolder("opinfo-")
    assert "\n" not in str(e.value)
    assert list(tmp_path.iterdir()) == []
    tmp_path.chmod(0o1777)
    TemporaryFolder("opinfo-").remove()


def test_objects_that_nvcc_made_are_linked_from_a_private_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a compiler that writes what it was given."""
    nvcc = tmp_path / "nvcc"
    nvcc.write_text('#!/bin/sh\nfor last; do :; done\necho object >> "$last"\n')
    nvcc.chmod(0o755)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(cutlass, "_nvcc", lambda: str(nvcc))
    made = cutlass.compiled("source")
    assert made.read_text() == "object\n" and cutlass.compiled("source") == made
    made.chmod(0o666)
    with pytest.raises(trust.Untrusted, match="only this user can write"):
        cutlass.compiled("source")
    made.chmod(0o644)
    made.parent.parent.chmod(0o777)
    with pytest.raises(trust.Untrusted, match="opinfo has mode 0777; chmod go-w"):
        cutlass.compiled("source")
