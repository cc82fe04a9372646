"""The process that inspects: `python -m benchmarks.hostile.worker FOLDER [--unguarded]`.

Each input line is JSON, ``{"command": [...]}``; the answer is the exit status and the output.
Attempts to act are recorded: events of `sys.audit` here, and what the reader's limits refuse.
"""

from __future__ import annotations

import inspect
import json
import os
import sys
import tempfile
import traceback
from pathlib import Path
from types import CodeType
from typing import Any

from .formats.case import SIZE

EVENTS = ("os.system", "os.exec", "os.posix_spawn", "os.fork", "subprocess.Popen",
          "socket.connect", "ctypes.dlopen", "os.remove", "os.rename", "os.mkdir", "os.symlink",
          "os.chmod")  # fmt: skip
#: Modules that act on behalf of their caller.
FILES = ("tempfile", "os", "shutil", "contextlib", "pathlib", "subprocess")
#: CPU seconds and bytes allowed for a file, small so that bombs cost little.
SECONDS, BYTES = 10, 1 << 30


def main() -> int:
    answers = os.fdopen(os.dup(1), "w")
    folder = Path(sys.argv[1])
    out, err = folder / "out", folder / "err"
    tempfile.gettempdir()  # Python writes a test file to find the folder
    sys.dont_write_bytecode = True  # a module that is imported later would be written and renamed
    os.environ["HOME"] = str(folder)
    from opinfo.cli import app
    from opinfo.frontend.process import reader_client

    page = folder / "refused"
    page.write_bytes(bytes(SIZE))
    reader_client.SECONDS, reader_client.BASE = SECONDS, BYTES
    reading = (sys.executable, "-m", "benchmarks.hostile.reader", str(page), *sys.argv[2:])
    reader_client.shared_reader().command = reading
    reader_client.shared_reader().start()  # outside the folder that a command removes
    seen: list[str] = []
    ours = _ours()
    sys.addaudithook(lambda event, args: _note(seen, event, args, ours, reading))
    print(json.dumps({"ready": os.getpid()}), file=answers, flush=True)
    os.chdir(folder)
    for line in sys.stdin:
        job = json.loads(line)
        seen.clear()
        page.write_bytes(bytes(SIZE))
        code = _run(app, job["command"], out, err)
        answer = {"code": code, "out": out.read_text(errors="replace")[-4000:],
                "err": err.read_text(errors="replace")[-4000:], "events": seen[:5],
                "refused": page.read_bytes().partition(b"\0")[0].decode()}  # fmt: skip
        print(json.dumps(answer), file=answers, flush=True)
    return 0


def _ours() -> frozenset[CodeType]:
    """Return the code that creates and removes the folders of a command and of the reader."""
    from opinfo.byoc.process import temporary_folder as temporary
    from opinfo.cli.run import signals

    functions = (inspect.unwrap(signals.scratch), temporary.TemporaryFolder.__init__,
                 temporary._remove, temporary._locked, temporary._abandoned)  # fmt: skip
    return frozenset(f.__code__ for f in functions)


def _note(
    seen: list[str], event: str, args: tuple[Any, ...], ours: frozenset[CodeType],
    reading: tuple[str, ...],
) -> None:  # fmt: skip
    if event not in EVENTS:
        return
    if event == "subprocess.Popen" and tuple(args[1]) == reading:
        return
    if event != "subprocess.Popen" and _caller() in ours:
        return
    seen.append(f"{event}{repr(args)[:200]}")


def _caller() -> CodeType | None:
    """Return the code of the innermost frame outside `FILES`."""
    frame = sys._getframe(2).f_back  # beyond _note and the hook
    while frame is not None:
        if frame.f_globals.get("__name__") not in FILES:
            return frame.f_code
        frame = frame.f_back
    return None


def _run(app: Any, command: list[str], out: Path, err: Path) -> int:
    kept = os.dup(1), os.dup(2)
    try:
        for file, to in ((out, 1), (err, 2)):
            new = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(new, to)
            os.close(new)
        try:
            app(command)
        except SystemExit as error:
            return error.code if isinstance(error.code, int) else int(bool(error.code))
        except BaseException:
            traceback.print_exc()
            return 1
        return 0
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        for old, to in zip(kept, (1, 2), strict=True):
            os.dup2(old, to)
            os.close(old)


if __name__ == "__main__":
    sys.exit(main())
