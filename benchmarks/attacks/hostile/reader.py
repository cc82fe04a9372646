"""The process that reads, with a canary: `python -m benchmarks.hostile.reader PAGE [--unguarded]`.

What the limits refuse is written to the page, a file mapped as shared memory, because the reading
process cannot write in any other way. Where the error then leads does not matter.
"""

from __future__ import annotations

import builtins
import mmap
import os
import sys
from typing import Any

from opinfo.frontend.formats import from_script
from opinfo.frontend.process.reader import main as read_files
from opinfo.frontend.reading import limits

from .formats.case import SIZE


def main() -> int:
    number = os.open(sys.argv[1], os.O_RDWR)
    page = mmap.mmap(number, SIZE)
    os.close(number)
    refuse = limits._refuse

    def noted(event: str, args: tuple[Any, ...]) -> None:
        try:
            refuse(event, args)
        except PermissionError as error:
            text = str(error).encode(errors="replace")[: SIZE - 1]
            page[: len(text) + 1] = text + b"\0"
            raise

    limits._refuse = noted
    if "--unguarded" in sys.argv:  # for the test that the canary detects execution
        unguarded: dict[str, Any] = {"check": lambda tree, scope: None, "BUILTINS": vars(builtins)}
        vars(from_script).update(unguarded)
    return read_files()


if __name__ == "__main__":
    sys.exit(main())
