"""The options of `opinfo compile`."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..run.exit_status import UserError
from .completion import backends, targets
from .measure_options import MeasureOptions
from .shape_options import ShapeOptions
from .shared_options import (
    BACKENDS,
    Calibrated,
    Force,
    Model,
    Shapes,
    Wants,
    backend_names,
    calibrated,
    forced,
)

if TYPE_CHECKING:
    from ...byoc.measure import Measure
    from ...front.compiled_model import Compiled

_backends = partial(typer.Option, rich_help_panel=BACKENDS)


@dataclass(frozen=True, kw_only=True)
class CompileOptions:
    """Values as on the command line, in the order of the help."""

    model: Model
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="FILE", help="The library to write.")
    ]
    target: Annotated[
        str | None,
        typer.Option(
            metavar="TARGET", help="TVM's target; default: this CPU.", autocompletion=targets
        ),
    ] = None
    verify: Annotated[
        bool, typer.Option("--verify", help="Compare with the unmodified model, and time both.")
    ] = False
    explain: Annotated[
        bool, typer.Option("--explain", help="Say why each operator stays with TVM.")
    ] = False
    report: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write an HTML page with regions and reasons."),
    ] = None
    shape: Shapes = None
    backend: Annotated[
        str | None,
        _backends(
            metavar="NAMES",
            help="Comma-separated backends, which take what they can; default: all installed ones "
            "where they are expected to be faster, and with --shapes none, unless functions store "
            "rows in caches.",
            autocompletion=backends,
        ),
    ] = None
    want: Wants = None
    force: Force = None
    strict: Annotated[bool, _backends("--strict", help="Fail if a region of a backend fails.")] = (
        False
    )
    save_plan: Annotated[
        Path | None, _backends(metavar="FILE", help="Write the dispatch plan as JSON.")
    ] = None
    plan: Annotated[
        Path | None, _backends(metavar="FILE", help="Replay the plan of --save-plan.")
    ] = None
    shapes: ShapeOptions
    calibration: Calibrated = None
    race: Annotated[
        bool,
        _backends(
            help="Without --backend, also build for ONNX Runtime and OpenVINO alone, and keep "
            "what is fastest here.",
        ),
    ] = True
    measuring: MeasureOptions

    def check(self) -> None:
        """Raise `UserError` for options that contradict or need others."""
        self.shapes.check()
        self.measuring.check()
        for option, value in {"--tune": self.measuring.tune, "--force": self.force}.items():
            if value and self.plan is not None:
                raise UserError(f"{option} cannot be combined with --plan, which fixes the "
                                "backends")  # fmt: skip
        for option, is_given in self._about_backends().items():
            if is_given:
                raise UserError(f"{option}: with --shapes, this requires --backend")
        forced(self.force)  # before a model is loaded

    def _about_backends(self) -> dict[str, object]:
        """The options that have no effect without backends, if there are none."""
        shapes = self.shapes
        uses_backends = shapes.strategy in (None, "library") or shapes.op
        if uses_backends or self.backend is not None:
            return {}
        return {"--want": self.want, "--force": self.force, "--strict": self.strict,
                "--plan": self.plan, "--save-plan": self.save_plan,
                "--tune": self.measuring.tune, "--report": self.report}  # fmt: skip

    def compiled(self, mod: Any) -> Compiled:
        """Compile a module."""
        from ...byoc import DispatchPlan
        from ...front.compiling import compile
        from .want_options import parse_wants

        return compile(
            mod,
            None if self.backend is None else backend_names(self.backend),
            target=self.target,
            shapes=self.shapes.config(),
            wants=parse_wants(self.want) if self.want else None,
            force=forced(self.force) or None,
            measure=self._measure() if self.measuring.tune else None,
            plan=None if self.plan is None else DispatchPlan.load(self.plan),
            calibration=calibrated(self.calibration),
            race=self.race,
        )

    def _measure(self) -> Measure:
        from ...byoc.building.read_target import read_target
        from ...byoc.codegen.host_target import native_target
        from ..run.progress_bar import counting

        target = read_target(self.target) if self.target else native_target()
        return self.measuring.measure(str(target), counting("measuring"))
