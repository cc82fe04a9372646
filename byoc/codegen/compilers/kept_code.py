"""Objects of generated C++ that were compiled before, in the user's cache.

An object is taken again for the same text, compiler and options, if no file that the text included
has changed since: neither its size nor its time of change, as Python knows which bytecode is of an
older source. A file with another time is compared by its content, as a package that is installed
again writes the same headers. An entry is a line of JSON, the digest of the object and the included
files, and the object.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
import re
import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ....analysis.support.files.atomic_replace import replacing
from ....analysis.support.files.bounded_folder import forget_oldest
from ....analysis.support.files.checked_json import parse
from ....analysis.support.files.user_cache import user_cache
from ...process import trust

#: The folder in the user's cache, the version of its files, and bytes of all of them.
FOLDER, FORMAT, MOST = "code", "2", 256 << 20
#: Variables of the environment that compilers look for headers by.
VARIABLES = ("CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH", "GCC_EXEC_PREFIX", "COMPILER_PATH")
#: What an object depends on besides: data that the assembler includes, and the time.
ELSEWHERE = (b".incbin", b"__DATE__", b"__TIME__", b"__TIMESTAMP__")
#: The names in the rule that a compiler writes; a space in a name has a backslash in front.
_NAMES = re.compile(r"(?:\\.|[^\s\\])+")

State = tuple[str, int, int]


@dataclass(frozen=True)
class KeptCode:
    """The object of a source, which may not exist.

    Attributes:
        source: The file.
        entry: The file in the cache.
        begun: When the compiler was about to start, in nanoseconds.
    """

    source: Path
    entry: Path
    begun: int

    def find(self, output: str) -> bool:
        """Write the object to a file and return True, if it is kept and still holds."""
        with contextlib.suppress(OSError, ValueError):
            with trust.folder(self.entry.parent) as within:
                line, _, code = trust.read(self.entry.name, within, MOST).partition(b"\n")
            digest, included = parse(line).items()
            if digest.value != hashlib.sha256(code).hexdigest():
                return False
            for path, size, changed, content in (file.items() for file in included.items()):
                state = _state(path.text())
                same = state == (path.value, size.value, changed.value)
                if not same and (state[1] != size.value or _content(state) != content.value):
                    return False
            Path(output).write_bytes(code)
            with contextlib.suppress(OSError):
                os.utime(self.entry)  # it was used last
            return True
        return False

    def keep(self, output: str, rule: str) -> None:
        """Keep the object that the compiler wrote, with its rule of included files."""
        with contextlib.suppress(OSError, ValueError):
            states = [_state(path) for path in _included(rule, self.source)]
            if any(changed >= self.begun for _, _, changed in states):
                return  # it may have been read before it changed
            included = [(*state, _content(state)) for state in states]
            if states != [_state(path) for path, *_ in states]:
                return  # it changed before its content was read
            code = Path(output).read_bytes()
            line = json.dumps([hashlib.sha256(code).hexdigest(), included]).encode()
            with trust.folder(self.entry.parent, create=True):
                with replacing(self.entry) as part:
                    part.write_bytes(b"\n".join((line, code)))
                forget_oldest(self.entry.parent, MOST)


def kept_code(command: Sequence[str]) -> KeptCode | None:
    """Return the object of a command that compiles its last word; None if such are not kept.

    Options that name the CPU of this machine give another object on others with the same cache.
    """
    *words, source = command
    if any("native" in word for word in words):
        return None
    with contextlib.suppress(OSError, RuntimeError):
        text = Path(source).read_bytes()
        if any(part in text for part in ELSEWHERE):
            return None
        compiler = _state(os.path.realpath(shutil.which(words[0]) or words[0]))
        around = [os.environ.get(name, "") for name in VARIABLES]
        suffix = Path(source).suffix
        parts = [FORMAT, compiler, words, around, suffix, hashlib.sha256(text).hexdigest()]
        name = hashlib.sha256(json.dumps(parts).encode()).hexdigest()
        return KeptCode(Path(source), user_cache(FOLDER) / name, time.time_ns())
    return None


def _included(rule: str, source: Path) -> list[str]:
    """Return the files after the colon, without the source.

    Raises:
        ValueError: One is beside the source, which is temporary.
    """
    _, _, after = rule.replace("\\\n", " ").partition(": ")
    names = [re.sub(r"\\(.)", r"\1", n).replace("$$", "$") for n in _NAMES.findall(after)]
    paths = [os.path.abspath(n) for n in names if n != str(source)]
    if not after or any(Path(p).is_relative_to(source.parent) for p in paths):
        raise ValueError("expected a rule with files that stay")
    return paths


def _state(path: str) -> State:
    status = os.stat(path)
    return path, status.st_size, status.st_mtime_ns


@functools.lru_cache(maxsize=4096)
def _content(state: State) -> str:
    """Return the digest of a file; models include the same headers."""
    return hashlib.sha256(Path(state[0]).read_bytes()).hexdigest()
