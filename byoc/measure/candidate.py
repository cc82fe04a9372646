"""Code for some ops, by a backend or by TVM, as a small program that can be built and timed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import tvm
from tvm import relax

from ...layout.graph.relax_graph import Op
from ..backend.backend import Backend, Code
from ..backend.region import Region, region
from ..codegen.call_converters import code
from ..patterns.elementwise_groups import Infos
from ..patterns.failure import ForeignError
from .compare import Array, drawn
from .subject import Subject, joined
from .timing_key import Key, hash_of_code

#: The ``backend`` of a candidate that TVM generates itself.
TVM = "tvm"


@dataclass(frozen=True)
class TimingMachine:
    """The machine that candidates run on; times are stored for it."""

    target: str
    device: str
    threads: int


@dataclass(frozen=True, eq=False)
class ByBackend:
    """A region of a backend."""

    backend: Backend
    region: Region


@dataclass(frozen=True, eq=False)
class Candidate:
    """Code that computes the subject's results from some of its values, ``inputs``.

    ``by`` is None for TVM's own code.
    """

    key: Key
    subject: Subject
    by: ByBackend | None
    inputs: tuple[int, ...]

    @property
    def name(self) -> str:
        """The name for messages: ``onednn: conv2d, add, relu``."""
        return f"{self.key.backend}: {', '.join(op.name for op in self.subject.ops)}"


class ConverterFailed(Exception):
    """A backend's converter raised; the message says why."""


def by_tvm(subject: Subject, machine: TimingMachine) -> Candidate:
    """TVM's own code, with TVM's fusion."""
    key = _key(subject, machine, TVM, str(tvm.__version__), "")
    return Candidate(key, subject, None, tuple(range(len(subject.values))))


def by_backend(
    backend: Backend, ops: Sequence[Op], infos: Infos, subject: Subject, machine: TimingMachine
) -> Candidate:
    """The backend's code for a region of these ops. Raises `ConverterFailed`."""
    placed = region("", ops, infos, backend.merges)
    by = ByBackend(backend, placed.region)
    key = _key(subject, machine, backend.name, backend.version(), hash_of_code(_code([by])))
    return Candidate(key, subject, by, tuple(subject.values.index(v) for v in placed.inputs))


def program(candidates: Sequence[Candidate]) -> tuple[str, Code | None]:
    """A module as JSON, and the code that it calls: ``main_0`` is the first candidate, ….

    All candidates are of one backend. Raises `ConverterFailed`.
    """
    regions = [c.by for c in candidates if c.by is not None]
    if not regions:
        return tvm.ir.save_json(joined([c.subject for c in candidates])), None
    bb = relax.BlockBuilder()
    for n, candidate in enumerate(candidates):
        params = [relax.Var(f"p{k}", candidate.subject.buffers[k].type) for k in candidate.inputs]
        with bb.function(f"main_{n}", params):
            types = [r.type for r in candidate.subject.results]
            out = types if len(types) > 1 else types[0]
            call = relax.call_dps_packed(_symbol(n), relax.Tuple(params), out_ty=out)
            bb.emit_func_output(bb.emit(call))
    return tvm.ir.save_json(bb.get()), _code(regions)


def arrays(subject: Subject, distinct: int | None = None) -> tuple[Array, ...]:
    """Values for a subject: its constants, and seeded values for its inputs, as `drawn` says."""
    pairs = zip(subject.values, drawn(subject.buffers, distinct=distinct), strict=True)
    return tuple(v.expr.value.numpy() if v.constant else a for v, a in pairs)


def _symbol(number: int) -> str:
    """A name without backend and ops, so that equal sources have equal hashes."""
    return f"candidate_{number}"


def _code(regions: Sequence[ByBackend]) -> Code:
    named = [replace(r.region, symbol=_symbol(k)) for k, r in enumerate(regions)]
    try:
        return code(regions[0].backend, named)
    except ForeignError as error:
        raise ConverterFailed(f"its converter failed: {error}") from error


def _key(subject: Subject, machine: TimingMachine, backend: str, version: str, code: str) -> Key:
    shapes = tuple(map(str, (*subject.buffers, *subject.results)))
    return Key(subject.hash, shapes, machine.target, backend, version, code, machine.device,
               machine.threads)  # fmt: skip
