"""``--shapes aot --dim n=1:512``: how functions with symbolic shapes are compiled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ..run.exit_status import UserError
from .dim_options import declared, named, settings, with_settings

if TYPE_CHECKING:
    from ...jit import Config


@dataclass(frozen=True)
class ShapeOptions:
    """Options as they are on the command line; ``strategy`` is the value of ``--shapes``."""

    strategy: str | None
    op: Sequence[str] | None
    dim: Sequence[str] | None
    likely: Sequence[str] | None
    ranges: Sequence[str] | None
    largest: bool
    pad: bool
    tuned: Path | None

    def check(self) -> None:
        """Raises `UserError` for options that need ``--shapes``, or a folder that is not."""
        alone = {"--op": self.op, "--dim": self.dim, "--likely": self.likely,
                 "--range": self.ranges, "--max": self.largest, "--pad": self.pad,
                 "--tuned": self.tuned}  # fmt: skip
        for option, value in alone.items():
            if value and self.strategy is None:
                raise UserError(f"{option}: expected with --shapes only, like --shapes jit")
        if self.tuned is not None and not self.tuned.is_dir():
            raise UserError(f"--tuned {self.tuned}: expected a database of `opinfo tune`, there is "
                            "no such folder")  # fmt: skip

    def config(self) -> Config | None:
        """The configuration; None without ``--shapes``. Raises `UserError`."""
        from ...jit import Config

        if self.strategy is None:
            return None
        dims = declared(named("--dim", self.dim), named("--likely", self.likely))
        ahead = settings(named("--range", self.ranges), self.largest, self.pad)
        wanted = {"": self.strategy, **named("--op", self.op)}
        if ahead and "aot" not in wanted.values():
            raise UserError(f"--range, --max and --pad: expected --shapes aot or --op ...=aot, got "
                            f"{', '.join(dict.fromkeys(wanted.values()))}")  # fmt: skip
        taken = {name: with_settings(s, ahead) for name, s in wanted.items()}
        return Config(taken.pop(""), by_op=taken, dims=dims, tuned=self.tuned)
