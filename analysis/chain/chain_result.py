"""The result for a fused function: its operators in order, with the dataflow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..proposal.proposal import Constant
from ..results.op_info import LayoutNormalised, OpInfo, PatternKind, Refusal
from ..results.plain_values import to_plain
from ..terms.term import TensorVar, Var


@dataclass(frozen=True)
class StepResult:
    """A value that a step of a chain computes.

    Attributes:
        step: The position of the step in the chain, or among the parts of a `PartlyRead`.
        output: The position among the results of the step.
    """

    step: int
    output: int = 0

    def __repr__(self) -> str:
        return f"${self.step}" + (f".{self.output}" if self.output else "")


#: A parameter of the PrimFunc, by position, or the result of an earlier step.
Value = int | StepResult


@dataclass(frozen=True)
class Step:
    """One operator of a chain.

    Attributes:
        info: The operator; its parameter k is ``buffers[k]``. It is a `LayoutNormalised`, named
            ``layout_normalised(relax.tan)``, if no operator has these buffers.
        buffers: Parameters of the fused PrimFunc by position, results of earlier steps, then the
            results of this step; last the scalar parameters that are integers, if one is an
            operand.
        shapes: The buffers' dtypes and shapes as text, ``float32[1, 8]``.
    """

    info: OpInfo | LayoutNormalised
    buffers: tuple[Value, ...]
    shapes: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return self.info.name if isinstance(self.info, OpInfo) else self.info.label

    @property
    def operator(self) -> OpInfo:
        """The operator, over the PrimFunc's own or logical buffers."""
        return self.info if isinstance(self.info, OpInfo) else self.info.logical

    @property
    def attrs(self) -> Any:
        return self.operator.attrs

    @property
    def operands(self) -> tuple[Value | Constant, ...]:
        operands = self.operator.operands
        return tuple(o if isinstance(o, Constant) else self.buffers[o] for o in operands)

    def __repr__(self) -> str:
        inside = [_value(o) for o in self.operands]
        inside += [f"{k}={to_plain(v)!r}" for k, v in self.attrs.items()]
        return f"{self.name}({', '.join(inside)}) : {self.info.kind}, {self.info.certificate.kind}"

    def to_json(self) -> dict[str, Any]:
        """Return the step as JSON values."""
        info = self.info.to_json()
        op = info if isinstance(self.info, OpInfo) else info["layout_normalised"]
        op["operands"] = [
            _value(operand) if not isinstance(operand, Constant) else to_plain(operand.value)
            for operand in self.operands
        ]
        return info


@dataclass(frozen=True)
class Chain:
    """The operators of a fused PrimFunc in topological order.

    Attributes:
        steps: The operators, in order.
        outputs: The results in the PrimFunc's output buffers, in the order of its parameters.
        kind: The pattern kind of the whole function.
        params: The PrimFunc's parameters as tensors and scalars of the analysis.
        inplace_indices: For each output, the position of the parameter that the PrimFunc updates,
            or -1; empty if nothing is updated. An operand ``%k`` is its content before.
    """

    steps: tuple[Step, ...]
    outputs: tuple[StepResult, ...]
    kind: PatternKind
    params: tuple[TensorVar | Var, ...] = ()
    inplace_indices: tuple[int, ...] = ()

    def __bool__(self) -> bool:
        return True

    def __len__(self) -> int:
        return len(self.steps)

    @property
    def names(self) -> tuple[str, ...]:
        """The operators' names, in order."""
        return tuple(s.name for s in self.steps)

    def __repr__(self) -> str:
        lines = [f"${k} = {s!r}" for k, s in enumerate(self.steps)]
        return "\n".join([*lines, f"return {_results(self.outputs, self.inplace_indices)}"])

    def to_json(self) -> dict[str, Any]:
        """Return the chain as JSON values."""
        return {
            "kind": self.kind,
            "steps": [s.to_json() for s in self.steps],
            "outputs": [repr(o) for o in self.outputs],
            "inplace_indices": list(self.inplace_indices),
        }


@dataclass(frozen=True)
class OpaqueStep:
    """A part of a fused function that no known operator computes.

    Attributes:
        reason: Why opinfo does not know it.
        where: The place in the PrimFunc.
        reads: What it reads: parameters of the PrimFunc by position, results of earlier steps.
        shapes: The dtypes and shapes of its results as text, ``float32[1, 8]``.
    """

    reason: str
    where: str
    reads: tuple[Value, ...]
    shapes: tuple[str, ...]

    def __repr__(self) -> str:
        inside = ", ".join(map(_value, self.reads))
        return f"opaque({inside}) -> {', '.join(self.shapes)} : {self.reason}"

    def to_json(self) -> dict[str, Any]:
        """Return the step as JSON values."""
        return {
            "opaque": self.reason,
            "where": self.where,
            "reads": [_value(v) for v in self.reads],
            "results": list(self.shapes),
        }


@dataclass(frozen=True, repr=False)
class PartlyRead(Refusal):
    """A fused function with parts that opinfo cannot read.

    Attributes:
        reason: What opinfo cannot read first.
        where: The place in the PrimFunc.
        parts: All steps in order, known and opaque; ``StepResult.step`` is a position among them.
        params: The PrimFunc's parameters as tensors and scalars of the analysis.
        outputs: The results in the PrimFunc's output buffers, in the order of its parameters.
        inplace_indices: As for a `Chain`.
    """

    parts: tuple[Step | OpaqueStep, ...] = ()
    params: tuple[TensorVar | Var, ...] = ()
    outputs: tuple[StepResult, ...] = ()
    inplace_indices: tuple[int, ...] = ()

    @property
    def steps(self) -> tuple[Step, ...]:
        """The steps that are known."""
        return tuple(s for s in self.parts if isinstance(s, Step))

    def __repr__(self) -> str:
        lines = [f"${k} = {s!r}" for k, s in enumerate(self.parts)]
        results = _results(self.outputs, self.inplace_indices)
        return "\n".join([super().__repr__(), *lines, f"return {results}"])

    def to_json(self) -> dict[str, Any]:
        """Return the refusal and the steps as JSON values."""
        return {
            **super().to_json(),
            "steps": [s.to_json() for s in self.parts],
            "outputs": [repr(o) for o in self.outputs],
            "inplace_indices": list(self.inplace_indices),
        }


def _results(outputs: Sequence[StepResult], indices: Sequence[int]) -> str:
    """The results, each with the parameter that it updates."""
    places = indices or (-1,) * len(outputs)
    return ", ".join(
        repr(value) if k < 0 else f"%{k} := {value!r}"
        for k, value in zip(places, outputs, strict=True)
    )


def _value(operand: Value | Constant) -> str:
    if isinstance(operand, Constant):
        return str(to_plain(operand.value))
    return f"%{operand}" if isinstance(operand, int) else repr(operand)
