"""Run meta_schedule's search for one PrimFunc with opinfo's measurements."""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import tvm
from tvm import tirx

from ...byoc.measure import Excluded, Measured
from ...byoc.measure.subject import Buffer
from .intrinsics import only_for

Measuring = Callable[[Sequence[Any]], list[Measured | Excluded]]
#: Candidates in one batch.
BATCH = 16


def search(
    func: Any, target: Any, database: Any, measure: Measuring, trials: int, end: float
) -> Iterator[list[Measured | Excluded]]:
    """Search batch by batch; commit the measurements to the database and yield them.

    No batch begins after ``end`` on the monotonic clock.
    """
    from tvm.s_tir import meta_schedule as ms

    mod = tvm.IRModule({"main": func})
    workload = database.commit_workload(mod)
    model = _cost_model(ms)
    context = _context(ms, mod, target, trials)
    batch = min(BATCH, trials)
    context.pre_tuning(trials, batch, context.generate_design_space(), database, model)
    while time.monotonic() < end:
        candidates = context.generate_measure_candidates()
        if not candidates:
            break
        measurements = measure([c.sch.mod for c in candidates])
        results = [_result(ms, r) for r in measurements]
        for candidate, result in zip(candidates, results, strict=True):
            if result.run_secs is not None:
                record = ms.database.TuningRecord(
                    candidate.sch.trace, workload, result.run_secs, target, candidate.args_info
                )
                database.commit_tuning_record(record)
        context.notify_runner_results(candidates, results)
        if model is not None:
            model.update(context, candidates, results)
        yield measurements
    context.post_tuning()


def buffers(func: Any) -> tuple[Buffer, ...]:
    """Return the buffers of a static PrimFunc; raises ``ValueError`` for another one."""
    out = []
    for param in func.params:
        shape = getattr(param.ty, "shape", None)
        if shape is None or not all(isinstance(e, int | tirx.IntImm) for e in shape):
            raise ValueError(f"parameter {param.name} has no static shape")
        out.append(Buffer(tuple(map(int, shape)), str(param.ty.dtype)))
    return tuple(out)


def _context(ms: Any, mod: Any, target: Any, trials: int) -> Any:
    # For few trials, a large population costs more than measuring.
    strategy = ms.search_strategy.EvolutionarySearch(
        population_size=min(512, 8 * trials), init_min_unmeasured=min(50, 2 * trials)
    )
    with only_for(target):
        return ms.TuneContext(mod, target=target, space_generator="post-order-apply",
                              search_strategy=strategy, task_name="main", num_threads=1,
                              rand_state=1)  # fmt: skip


def _cost_model(ms: Any) -> Any:
    """Return a learned cost model if XGBoost is installed, else a random one."""
    kind = "xgb" if importlib.util.find_spec("xgboost") else "random"
    return ms.cost_model.CostModel.create(kind, num_tuning_cores=1)


def _result(ms: Any, measurement: Measured | Excluded) -> Any:
    if isinstance(measurement, Excluded):
        return ms.runner.RunnerResult(None, measurement.reason)
    return ms.runner.RunnerResult([measurement.microseconds * 1e-6], None)
