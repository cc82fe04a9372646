"""Named checks."""

from __future__ import annotations

import unittest
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from ..frontend.checks.error import one_line


@dataclass(frozen=True)
class Case:
    """One check of a backend or a recogniser, for ``pytest.mark.parametrize(..., ids=str)``.

    Attributes:
        name: What is checked, such as ``takes layer [float32]``.
        run: The check.
    """

    name: str
    run: Callable[[], None] = field(repr=False)

    def check(self) -> None:
        """Run the check.

        Raises:
            AssertionError: The check fails; the message says what was expected.
            unittest.SkipTest: The check cannot run on this machine.
        """
        __tracebackhide__ = True  # pytest shows the message, and not the code of this kit
        self.run()

    def __str__(self) -> str:
        return self.name


def check_all(subject: str, cases: Iterable[Case]) -> None:
    """Run all checks.

    Raises:
        AssertionError: Checks fail; the message has a line for each.
        unittest.SkipTest: No check fails, but one cannot run.
    """
    failed: list[str] = []
    skipped: unittest.SkipTest | None = None
    for case in cases:
        try:
            case.check()
        except AssertionError as error:
            failed.append(f"{case}: {error}")
        except unittest.SkipTest as error:
            skipped = error
        except Exception as error:  # a mistake in an example, which TVM or Python finds
            failed.append(f"{case}: {one_line(error)}")
    if failed:
        checks = "1 check" if len(failed) == 1 else f"{len(failed)} checks"
        raise AssertionError("\n".join([f"{subject}: {checks} failed", *failed]))
    if skipped is not None:
        raise skipped
