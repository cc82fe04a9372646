"""The process that inspects: `python -m benchmarks.hostile.worker FOLDER`.

A line of JSON for each file, ``{"command": [...]}``; the answer is the exit status and what was
printed. What acts is noted: files that appear, and events of `sys.audit` outside the reader.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import traceback
from pathlib import Path
from typing import Any

EVENTS = ("os.system", "os.exec", "os.posix_spawn", "os.fork", "subprocess.Popen",
          "socket.connect", "ctypes.dlopen", "os.remove", "os.rename", "os.mkdir", "os.symlink",
          "os.chmod")  # fmt: skip
#: Seconds of CPU and bytes for a file here, so that bombs cost little.
SECONDS, BYTES = 10, 1 << 30


def main() -> int:
    answers = os.fdopen(os.dup(1), "w")
    folder = Path(sys.argv[1])
    out, err = folder / "out", folder / "err"
    tempfile.gettempdir()  # to find it, Python writes a file there and removes it
    os.environ["HOME"] = str(folder)
    from opinfo.cli import app
    from opinfo.frontend import apart

    apart.SECONDS, apart.BASE = SECONDS, BYTES
    seen: list[str] = []
    sys.addaudithook(lambda event, args: _note(seen, event, args))
    print(json.dumps({"ready": os.getpid()}), file=answers, flush=True)
    os.chdir(folder)
    for line in sys.stdin:
        job = json.loads(line)
        seen.clear()
        code = _run(app, job["command"], out, err)
        told = {"code": code, "out": out.read_text(errors="replace")[-4000:],
                "err": err.read_text(errors="replace")[-4000:], "events": seen[:5]}  # fmt: skip
        print(json.dumps(told), file=answers, flush=True)
    return 0


def _note(seen: list[str], event: str, args: tuple[Any, ...]) -> None:
    if event in EVENTS:
        shown = repr(args)[:200]
        if "opinfo.frontend.reader" not in shown and "opinfo-reader-" not in shown:
            seen.append(f"{event}{shown}")


def _run(app: Any, command: list[str], out: Path, err: Path) -> int:
    kept = os.dup(1), os.dup(2)
    try:
        for file, to in ((out, 1), (err, 2)):
            new = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(new, to)
            os.close(new)
        try:
            app(command)
        except SystemExit as e:
            return e.code if isinstance(e.code, int) else int(bool(e.code))
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
