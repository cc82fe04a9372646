"""Measure a calibration of this machine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ....analysis.results.op_info import OpInfo
from ....layout.graph.relax_graph import Op
from ...backend.backend import Backend
from ...backend.catalog import find
from ...backend.guarded_calls import guarded
from ...backend.region import region
from ...matching.lowered import Lowered, chains, read
from ...measure.candidate import Candidate, ConverterFailed, by_backend, by_tvm
from ...measure.measure import Measure
from ...measure.measured import Measured
from ...measure.run_candidates import results
from ...measure.subject import subject
from ...prepare.prepare import prepare
from ..calibration import Calibration, Sample
from ..calibrations import CALIBRATED, GPU_BACKENDS, this_gpu, this_machine
from ..cost_model import TVM
from ..device_rates import LARGE
from ..workload import Workload, implemented, workload
from .gpu_grid import gpu_points
from .workload_grid import TVM_WORK, Point, module, points

#: Seconds that measuring a GPU may take.
SECONDS = 120.0


@dataclass(frozen=True)
class Timed:
    """A candidate that computes ``count`` operators like ``load``."""

    backend: str
    load: Workload
    count: int
    candidate: Candidate


def calibrate(how: Measure, grid: Sequence[Point] | None = None) -> Calibration:
    """Measure the grid with all installed backends and with TVM.

    Args:
        how: Where and how to measure; its target is TVM's. For a GPU's, the GPU is calibrated.
        grid: The workloads; by default all.

    Returns:
        The calibration. What a backend does not take, what fails, and what was not measured in
        time has no sample.

    Raises:
        MeasureError: Nothing can be measured.
        NoGpu: A GPU is to be calibrated, and none is visible.
    """
    how.check()
    names = GPU_BACKENDS if how.on_gpu else CALIBRATED
    machine = this_gpu() if how.on_gpu else this_machine(how.threads)
    backends = [guarded(find(n), []) for n in names if n in machine.versions]
    if grid is None:
        grid = gpu_points() if how.on_gpu else points()
    listed = list(grid)
    lowered = read(prepare(module(listed), backends), "calibrate")
    timed = list(_timed(lowered, listed, backends, how))
    timings, _ = results([t.candidate for t in timed], how)
    times = {t: r.microseconds for t in timed
             if isinstance(r := timings.get(t.candidate.key), Measured)}  # fmt: skip
    return Calibration(machine, _samples(times))


def _samples(times: Mapping[Timed, float]) -> tuple[Sample, ...]:
    """The samples; an operator of a stack takes its part of the stack, and the call."""
    calls: dict[str, float] = {}
    for timed, time in times.items():
        calls[timed.backend] = min(time, calls.get(timed.backend, time))
    stacked = {(t.backend, t.load) for t in times if t.count > 1}
    out: dict[tuple[str, Workload], float] = {}
    for timed, time in times.items():
        place, call = (timed.backend, timed.load), calls[timed.backend]
        if timed.count > 1 or place not in stacked:
            each = call + (time - call) / timed.count
            out[place] = min(each, out.get(place, each))
    return tuple(Sample(name, load, round(t, 3)) for (name, load), t in sorted(
        out.items(), key=lambda item: (item[0][0], item[0][1].kind, item[0][1].sizes)))  # fmt: skip


def _timed(
    lowered: Lowered, grid: Sequence[Point], backends: Sequence[Backend], how: Measure
) -> Iterator[Timed]:
    graphs = {str(g.name_hint): x for g, x in lowered.functions.items()}
    for k, point in enumerate(grid):
        ops = tuple(graphs[f"point_{k}"].ops)
        recovered = all(isinstance(lowered.infos[op].info, OpInfo) for op in ops)
        if len(ops) != point.count or not recovered:
            continue  # the operator was lowered to several, or is not recovered
        placed = region("", ops, lowered.infos, elements=False).region
        load = workload(placed.calls[0])
        most = LARGE if how.on_gpu and not load.family.startswith(("conv", "matmul")) else TVM_WORK
        if point.count == 1 and load.work <= most:
            yield Timed(TVM, load, 1, by_tvm(subject(ops, {}), how.machine))
        for backend in backends:
            if _takes(backend, ops, lowered):
                try:
                    candidate = by_backend(backend, ops, lowered.infos, subject(ops, {}),
                                           how.machine)  # fmt: skip
                except ConverterFailed:
                    continue
                kernel = _kernel(backend, placed)
                yield Timed(backend.name, implemented(load, kernel), point.count, candidate)


def _kernel(backend: Backend, placed: Any) -> str | None:
    return None if backend.implementation is None else backend.implementation(placed)


def _takes(backend: Backend, ops: tuple[Op, ...], lowered: Lowered) -> bool:
    """Whether a backend takes all ops as one region."""
    if any(m.ops == ops for m in chains(ops, lowered.infos, [backend])):
        return True
    return any(all(c.why_not(op, lowered.infos) is None for op in ops) for c in backend.coarse)


def measuring(threads: int, target: str, progress: Any = None) -> Measure:
    """How a calibration is measured: one candidate at a time, the least of many short timings.

    Whatever else runs on the machine only adds time, so the least says most. On a GPU it ends after
    `SECONDS`, and results are not compared: TVM's products of halves add halves, so they are
    less exact than a library's.
    """
    how = Measure(servers=1, threads=threads, timeout=60.0, repeat=15, target=target)
    how = replace(how, least=True, milliseconds=2, progress=progress)
    return replace(how, seconds=SECONDS, checked=False) if how.on_gpu else how
