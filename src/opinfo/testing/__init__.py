"""Test kit for backends and recognisers in other packages.

    CASES = backend_cases(THEIR_NPU, EXAMPLES)

    @pytest.mark.parametrize("case", CASES, ids=str)
    def test_their_npu(case):
        case.check()

opinfo tests its own backends and recognisers with it.
"""

from typing import TYPE_CHECKING

from ..analysis.support.exports import exports

if TYPE_CHECKING:
    from .backend_checks import backend_cases, check_backend
    from .case import Case
    from .example import Example
    from .recogniser_checks import check_recogniser, recogniser_cases

#: Lazy imports: tests of recognisers must not import what backends need, such as a newer TVM.
_HOMES = {
    "backend_checks": ("backend_cases", "check_backend"),
    "case": ("Case",),
    "example": ("Example",),
    "recogniser_checks": ("check_recogniser", "recogniser_cases"),
}
__all__ = ["Case", "Example", "backend_cases", "check_backend",
           "check_recogniser", "recogniser_cases"]  # fmt: skip
__getattr__ = exports(__name__, _HOMES)


def __dir__() -> list[str]:
    return sorted(__all__)
