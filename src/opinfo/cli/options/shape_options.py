"""Options about symbolic shapes: ``--shapes aot --dim n=1:512``."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ...analysis.support.wording import did_you_mean
from ..run.exit_status import UserError
from .completion import STRATEGIES, operators, strategies
from .dim_options import declared, named, settings, with_settings

if TYPE_CHECKING:
    from ...jit import Config

_option = partial(typer.Option, rich_help_panel="Symbolic shapes")
Texts = list[str] | None


@dataclass(frozen=True, kw_only=True)
class ShapeOptions:
    """Values as on the command line; ``strategy`` is the value of ``--shapes``."""

    strategy: Annotated[
        str | None,
        _option(
            "--shapes",
            metavar="STRATEGY",
            help="Strategy for symbolic shapes: generic, aot, jit, library or record.",
            autocompletion=strategies,
        ),
    ] = None
    op: Annotated[
        Texts,
        _option(
            metavar="OPERATOR=STRATEGY",
            help="Strategy for functions that contain an operator: relax.matmul=aot.",
            autocompletion=operators,
        ),
    ] = None
    dim: Annotated[
        Texts,
        _option(
            metavar="DIM=RANGE",
            help="Range of a dimension: n=1:128, n=8:512:8 (multiples of 8), n=17: (unbounded).",
        ),
    ] = None
    likely: Annotated[
        Texts,
        _option(metavar="DIM=VALUES", help="Most frequent values of a dimension: n=1,16."),
    ] = None
    ranges: Annotated[
        Texts,
        _option(
            "--range",
            metavar="DIM=RANGES",
            help="With aot: one kernel for each of these ranges: n=1:4,17:128,8:512:8.",
        ),
    ] = None
    largest: Annotated[
        bool,
        _option(
            "--max",
            help="With aot: one kernel for the upper end of each range; pad smaller values.",
        ),
    ] = False
    pad: Annotated[
        bool,
        _option(
            "--pad",
            help="With aot: pad smaller values so that kernels of likely values serve them too.",
        ),
    ] = False
    tuned: Annotated[
        Path | None,
        _option(metavar="FOLDER", help="With aot: a tuning database of `opinfo tune`."),
    ] = None

    def check(self) -> None:
        """Raise `UserError` for unknown strategies, no ``--shapes``, or a missing folder."""
        options = {"--op": self.op, "--dim": self.dim, "--likely": self.likely,
                   "--range": self.ranges, "--max": self.largest, "--pad": self.pad,
                   "--tuned": self.tuned}  # fmt: skip
        for option, value in options.items():
            if value and self.strategy is None:
                raise UserError(f"{option} requires --shapes, such as --shapes jit")
        if self.strategy is not None:
            _check_strategy("--shapes", self.strategy)
        for name, strategy in named("--op", self.op).items():
            _check_strategy(f"--op {name}", strategy)
        if self.tuned is not None and not self.tuned.is_dir():
            raise UserError(f"--tuned {self.tuned}: folder not found; expected a database of "
                            "`opinfo tune`")  # fmt: skip

    def config(self) -> Config | None:
        """Return the configuration, or None without ``--shapes``; raises `UserError`."""
        from ...jit import Config

        if self.strategy is None:
            return None
        dims = declared(named("--dim", self.dim), named("--likely", self.likely))
        ahead = settings(named("--range", self.ranges), self.largest, self.pad)
        strategies = {"": self.strategy, **named("--op", self.op)}
        if ahead and "aot" not in strategies.values():
            raise UserError(f"--range, --max and --pad require --shapes aot or --op ...=aot, got "
                            f"{', '.join(dict.fromkeys(strategies.values()))}")  # fmt: skip
        configured = {name: with_settings(s, ahead) for name, s in strategies.items()}
        return Config(configured.pop(""), by_op=configured, dims=dims, tuned=self.tuned)


def _check_strategy(option: str, strategy: str) -> None:
    if strategy not in STRATEGIES:
        raise UserError(f"{option}: expected one of {', '.join(STRATEGIES)}, got {strategy!r}"
                        f"{did_you_mean(strategy, STRATEGIES)}")  # fmt: skip
