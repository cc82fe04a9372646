"""Benchmarks, in folders by what they measure; `python -m benchmarks` lists the commands."""

from __future__ import annotations

from pathlib import Path

ROOMS = ("analysis", "layout", "backends", "shapes", "attacks", "zoo", "gpu", "overall")
# `python -m benchmarks.op_info` finds a command in any folder; imports name the folder.
__path__ += [str(Path(__file__).parent / room) for room in ROOMS]
