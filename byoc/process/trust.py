"""Folders and files to load code from: only this user, or root, can change them.

A path is opened from the root of the file system, one folder at a time, and the open descriptors
are checked; links are followed explicitly. So nothing can change between check and use.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import os
import stat
from collections import deque
from collections.abc import Iterator
from pathlib import Path

#: Folders on the way need not be readable.
_WAY = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
#: The extended attribute that holds an access control list.
_ACL = "system.posix_acl_access"
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
#: Links on one path, as many as Linux follows.
_LINKS = 40


class Untrusted(PermissionError):
    """Other users could have put code there; the message says what, where, and what to do."""

    def __str__(self) -> str:
        return str(self.args[0])


@contextlib.contextmanager
def folder(path: str | Path, create: bool = False) -> Iterator[int]:
    """Open a folder that no other user can write, or replace through a parent folder.

    Args:
        path: The folder; it may be relative, and may contain links.
        create: Create missing folders, with mode 0700.

    Raises:
        Untrusted: Another user can write it or a folder above, or owns one of them.
        OSError: It does not exist, or cannot be opened.
    """
    path = Path(path)  # an absolute one works where the current folder was deleted
    number = _opened(path if path.is_absolute() else Path(os.getcwd(), path), create)
    try:
        yield number
    finally:
        os.close(number)


def check_temporary(path: str | Path) -> None:
    """Raises `Untrusted` if other users could replace a temporary folder."""
    try:
        with folder(path):
            pass
    except Untrusted as error:
        raise Untrusted(f"temporary files: {error} ($TMPDIR)") from None


def refusal(path: str | Path) -> str | None:
    """Why code in a folder must not be loaded; None if it may. Raises ``OSError``."""
    try:
        with folder(path):
            return None
    except Untrusted as error:
        return str(error)


def read(name: str | Path, within: int | None = None, most: int | None = None) -> bytes:
    """The bytes of a regular file that no other user can write.

    Args:
        name: A path, or a name in ``within``; not a link.
        within: A descriptor of its folder.
        most: The largest size in bytes.

    Raises:
        Untrusted: It is not a regular file, it is too large, or another user can write or owns it.
        OSError: It does not exist, is a link, or cannot be read.
    """
    with os.fdopen(os.open(name, _FILE, dir_fd=within), "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise Untrusted("it is not a regular file")
        if not _is_ours(status.st_uid) or _others_write(status, file.fileno()):
            raise Untrusted(
                f"expected a file that only this user can write, got one of uid "
                f"{status.st_uid}, mode {stat.S_IMODE(status.st_mode):04o}"
            )
        if most is not None and status.st_size > most:
            raise Untrusted(f"it has {status.st_size} bytes, expected at most {most}")
        return file.read(status.st_size)


def _opened(path: Path, create: bool) -> int:
    todo, at, links = deque(path.parts[1:]), Path("/"), 0
    number = os.open("/", _WAY)
    try:
        _check(os.fstat(number), number, at, path, last=not todo)
        while todo:
            name = todo.popleft()
            if (target := _link(name, number, at)) is not None:
                links += 1
                if links > _LINKS:
                    raise Untrusted(f"{path}: more than {_LINKS} links; choose another folder")
                if target.is_absolute():
                    number, at = _replaced(number, os.open("/", _WAY)), Path("/")
                    target = target.relative_to("/")
                todo.extendleft(reversed(target.parts))
                continue
            number = _replaced(number, _entered(name, number, create))
            at = at.parent if name == ".." else at / name
            _check(os.fstat(number), number, at, path, last=not todo)
        # O_PATH neither lists nor syncs.
        return _replaced(number, os.open(".", os.O_RDONLY | os.O_CLOEXEC, dir_fd=number))
    except BaseException:
        with contextlib.suppress(OSError):
            os.close(number)
        raise


def _replaced(old: int, new: int) -> int:
    os.close(old)
    return new


def _link(name: str, within: int, at: Path) -> Path | None:
    """The target of a link; None if it does not exist or is not a link."""
    try:
        status = os.stat(name, dir_fd=within, follow_symlinks=False)
    except FileNotFoundError:
        return None
    if not stat.S_ISLNK(status.st_mode):
        return None
    if not _is_ours(status.st_uid):
        raise Untrusted(f"{at / name} is a link of another user (uid {status.st_uid}); "
                        "choose another folder")  # fmt: skip
    return Path(os.readlink(name, dir_fd=within))


def _entered(name: str, within: int, create: bool) -> int:
    if create:
        with contextlib.suppress(FileExistsError):
            os.mkdir(name, 0o700, dir_fd=within)
    return os.open(name, _WAY, dir_fd=within)


def _check(status: os.stat_result, number: int, at: Path, path: Path, last: bool) -> None:
    mode = stat.S_IMODE(status.st_mode)
    if not _is_ours(status.st_uid):
        raise Untrusted(f"{at} belongs to another user (uid {status.st_uid}); choose another "
                        f"folder than {path}")  # fmt: skip
    if last and _others_write(status, number):
        raise Untrusted(f"other users can write {at}: its mode is {mode:04o}; "
                        f"chmod go-w {at}, or choose another folder")  # fmt: skip
    if last or mode & stat.S_ISVTX:  # as for /tmp: only owners can rename
        return
    if _others_write(status, number):
        raise Untrusted(f"other users can replace {path}: {at} has mode {mode:04o}; "
                        f"chmod go-w {at}, or choose another folder")  # fmt: skip


def _is_ours(user: int) -> bool:
    """Whether a user is this one, or root, who could do anything anyway."""
    return user in (0, os.geteuid())


def _others_write(status: os.stat_result, number: int) -> bool:
    """Whether another user can write the file of a descriptor."""
    group = status.st_mode & stat.S_IWGRP and (_has_acl(number) or not _is_private(status.st_gid))
    return bool(status.st_mode & stat.S_IWOTH or group)


def _has_acl(number: int) -> bool:
    """Whether an access control list names more users than the mode; True if that is unknown.

    With a list, the group bits of the mode are the most that any user in it may do.
    """
    try:
        os.getxattr(f"/proc/self/fd/{number}", _ACL)  # a descriptor of O_PATH has no attributes
    except AttributeError:  # not on Linux
        return True
    except OSError as error:
        return error.errno not in (errno.ENODATA, errno.ENOTSUP)
    return True


def _is_private(number: int) -> bool:
    """Whether a group has no members but this user and root: the group with the user's name.

    Not group 0: container runtimes run users without an account in it.
    """
    import grp
    import pwd

    try:
        group, user = grp.getgrgid(number), pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return False
    personal = number != 0 and group.gr_name == user
    return personal and set(group.gr_mem) <= {user, "root"} and _users(number) <= {0, os.geteuid()}


@functools.lru_cache(maxsize=8)
def _users(group: int) -> frozenset[int]:
    """The users with this primary group, who may not be listed as members."""
    import pwd

    return frozenset(p.pw_uid for p in pwd.getpwall() if p.pw_gid == group)
