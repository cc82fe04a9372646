"""What a call does on the GPU: its kernels, how long they are busy, what the host launches."""

from __future__ import annotations

import re
import statistics
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

#: A kernel of TVM is called as its PrimFunc; those of libraries have other characters, or these.
OWN = re.compile(r"(?!cudnn|cutlass|nvjet|sm\d|triton)[a-zA-Z]\w*_kernel(_\d+)?")
#: PrimFuncs that only move elements are called by these operators.
MOVES = re.compile(r"(fused_|(cast|reshape|transpose|pad|concatenate|strided_slice|squeeze|take|"
                   r"expand_dims|layout_transform|layout_copy)\d*_)+kernel(_\d+)?")  # fmt: skip
#: Copies of CUDA, and conversions between layouts inside cuDNN.
COPIES = re.compile(r"Memcpy|nhwcToNchw|nchwToNhwc")
#: Calls of CUDA with which the host launches something.
LAUNCHES = re.compile(r"(cuda|cu)(GraphLaunch|LaunchKernel)")
#: Seconds of calls before those that are looked at.
WARM = 0.5

Interval = tuple[float, float]


@dataclass(frozen=True)
class Event:
    """A kernel or a copy on the GPU: name, and when, in microseconds."""

    name: str
    begin: float
    end: float


@dataclass(frozen=True)
class Profile:
    """A call, by medians of several.

    Attributes:
        kernels: The kernels, the longest first: name, number, microseconds altogether.
        busy: Milliseconds in which at least one kernel runs.
        span: Milliseconds from the first kernel of a call to the end of the last one.
        launches: What the host launches: graphs, and kernels one by one.
    """

    kernels: list[tuple[str, float, float]]
    busy: float
    span: float
    launches: dict[str, float]

    def row(self) -> dict[str, Any]:
        """The profile as JSON, with shares that need the whole names."""
        total = sum(t for *_, t in self.kernels) or 1.0
        own = sum(t for name, _, t in self.kernels if OWN.fullmatch(name))
        moves = sum(n for name, n, _ in self.kernels if is_move(name))
        short = [(name[:90], number, spent) for name, number, spent in self.kernels]
        times = {"busy": self.busy, "span": self.span}
        return {"kernels": short, **times, "launches": self.launches,
                "libraries": 1 - own / total, "moves": moves}  # fmt: skip


def is_move(name: str) -> bool:
    """Whether a kernel only copies, casts or rearranges elements, by its name."""
    return bool(MOVES.fullmatch(name) or COPIES.search(name))


def profile(run: Callable[[], Any], calls: int = 15) -> Profile:
    """Return the kernels of a call.

    Medians of several calls: the device may give a slice of time to another process in the midst of
    a kernel, which then seems to take milliseconds. They follow each other, and others of half a
    second, as where they are timed: a device that rested has higher clocks.
    """
    import torch
    from torch.profiler import ProfilerActivity, schedule
    from torch.profiler import profile as traced

    steps = schedule(wait=0, warmup=1, active=1)
    with traced(activities=[ProfilerActivity.CUDA], schedule=steps) as profiler:
        begun = time.perf_counter()
        while time.perf_counter() - begun < WARM:
            run()
            torch.cuda.synchronize()
        profiler.step()
        for _ in range(calls):
            run()
        torch.cuda.synchronize()
    events, launches = [], Counter[str]()
    for event in profiler.events():
        if str(event.device_type).endswith("CUDA"):
            if not getattr(event, "is_user_annotation", False):
                span = event.time_range
                events.append(Event(event.name, float(span.start), float(span.end)))
        elif match := LAUNCHES.match(event.name):
            launches[match.group(2)] += 1
    return summary(events, calls, {name: n / calls for name, n in launches.items()})


def summary(events: Sequence[Event], calls: int, launches: dict[str, float]) -> Profile:
    """Return the profile of events of several calls, one after the other."""
    groups, each = _by_call(events, calls)
    times: dict[str, list[float]] = defaultdict(list)
    for group in groups:
        spent: Counter[str] = Counter()
        for event in group:
            spent[event.name] += event.end - event.begin  # type: ignore[assignment]
        for name, total in spent.items():
            times[name].append(total / each)
    number = Counter(e.name for e in events)
    kernels = [(n, number[n] / calls, round(statistics.median(t), 2)) for n, t in times.items()]
    busy = statistics.median(_union((e.begin, e.end) for e in g) for g in groups) if groups else 0
    span = statistics.median(map(_span, groups)) if groups and each == 1 else 0.0
    longest = sorted(kernels, key=lambda kernel: -kernel[2])
    return Profile(longest, round(busy / each / 1e3, 5), round(span / 1e3, 5), launches)


def _by_call(events: Sequence[Event], calls: int) -> tuple[list[list[Event]], int]:
    """The events of each call, or all together and their number of calls if they differ."""
    ordered = sorted(events, key=lambda e: e.begin)
    size, rest = divmod(len(ordered), calls)
    groups = [ordered[k : k + size] for k in range(0, len(ordered), size or 1)]
    if rest or len({frozenset(Counter(e.name for e in g).items()) for g in groups}) > 1:
        return [ordered], calls
    return groups, 1


def _span(events: Sequence[Event]) -> float:
    return max(e.end for e in events) - min(e.begin for e in events)


def _union(intervals: Iterable[Interval]) -> float:
    """The length of a union of intervals."""
    total, last = 0.0, float("-inf")
    for begin, end in sorted(intervals):
        total += max(0.0, end - max(begin, last))
        last = max(last, end)
    return total
