"""Options about symbolic shapes: ``--shapes aot --dim n=1:512``."""

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
    """Values as on the command line; ``strategy`` is the value of ``--shapes``."""

    strategy: str | None
    op: Sequence[str] | None
    dim: Sequence[str] | None
    likely: Sequence[str] | None
    ranges: Sequence[str] | None
    largest: bool
    pad: bool
    tuned: Path | None

    def check(self) -> None:
        """Raise `UserError` for options without ``--shapes``, or a missing folder."""
        options = {"--op": self.op, "--dim": self.dim, "--likely": self.likely,
                 "--range": self.ranges, "--max": self.largest, "--pad": self.pad,
                 "--tuned": self.tuned}  # fmt: skip
        for option, value in options.items():
            if value and self.strategy is None:
                raise UserError(f"{option} requires --shapes, such as --shapes jit")
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
