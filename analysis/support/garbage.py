"""Fewer runs of Python's garbage collector while many objects are created that live on.

Terms, layouts and IR objects are freed by reference counts. The collector visits them for nothing:
it starts after every 700 new objects, which took a quarter of the CPU time of planning a Swin.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

#: Of `gc.set_threshold`. Cycles still end: all objects are visited after 2.5 million new ones.
RARE = (50_000, 5, 10)

_lock = threading.Lock()
_active = 0
_former = (0, 0, 0)


@contextmanager
def rare_collections() -> Iterator[None]:
    """Run the collector less often, in all threads, until the last of these contexts ends.

    A collector that is off or runs even less often is left alone, and so are thresholds that
    someone else sets meanwhile. The context is also a decorator.
    """
    global _active, _former
    with _lock:
        if _active == 0:
            _former = gc.get_threshold()
            if 0 < _former[0] < RARE[0]:
                gc.set_threshold(*RARE)
        _active += 1
    try:
        yield
    finally:
        with _lock:
            _active -= 1
            if _active == 0 and gc.get_threshold() == RARE:
                gc.set_threshold(*_former)
