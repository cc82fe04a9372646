"""What `benchmarks.faults` injects: where, how, and what a message must name."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

from opinfo.analysis.proposal.proposal import Proposal
from opinfo.analysis.recognise import recogniser
from opinfo.analysis.support import plugins
from opinfo.byoc import Backend, Coarse, Code, Node, Pattern, Region, one
from opinfo.byoc.backend.catalog import find
from tests.common.packages import install

from .code_injections import code_cases, compiler_cases
from .injected_case import ALL, MARK, RAISES, Arrange, Case, arranged
from .victim import PLAIN, VICTIM, convert, is_victim, patterns

#: For hooks whose calls are guarded in the same way.
FEW = ("ValueError", "KeyError", "MemoryError", "RecursionError", "AttributeError", "OSError")
HOOKS = (*FEW, "SystemExit", "CancelledError")


def cases() -> list[Case]:
    """Return all cases; their names are distinct."""
    parts = (
        _converters,
        _hooks,
        _returned,
        _written,
        code_cases,
        compiler_cases,
        _recognisers,
        _runtime,
    )
    return [c for part in parts for c in part()]


def _converters() -> Iterator[Case]:
    for name, fail in RAISES.items():

        def one_region(regions: Sequence[Region], fail: Any = fail) -> Code:
            if any(map(is_victim, regions)):
                fail()
            return convert(regions)

        yield Case("convert a region", f"raises {name}", arranged(convert=one_region))
    for name in HOOKS:

        def each(regions: Sequence[Region], fail: Any = RAISES[name]) -> Code:
            fail()
            return convert(regions)

        yield Case("convert all regions", f"raises {name}", arranged(convert=each), ALL)

        def together(regions: Sequence[Region], fail: Any = RAISES[name]) -> Code:
            if len(regions) > 1:
                fail()
            return convert(regions)

        yield Case("convert several regions at once", f"raises {name}", arranged(convert=together),
                   frozenset())  # fmt: skip

        def coarse(regions: Sequence[Region], fail: Any = RAISES[name]) -> Code:
            if any(map(is_victim, regions)):
                fail()
            return convert(regions)

        network = Coarse("whole", one(("relax.add", VICTIM, "relax.exp", "relax.nn.relu")))
        yield Case("convert a coarse region", f"raises {name}",
                   arranged(convert=coarse, patterns=(), coarse=(network,)))  # fmt: skip


def _hooks() -> Iterator[Case]:
    for name, fail in RAISES.items():

        def condition(node: Node, fail: Any = fail) -> None:
            fail()

        def cost(region: Region, fail: Any = fail) -> float:
            if is_victim(region):
                fail()
            return 1.0

        def available(fail: Any = fail) -> None:
            fail()

        def version(fail: Any = fail) -> str:
            fail()
            return ""

        yield Case("condition", f"raises {name}", arranged(patterns=patterns(condition)))
        yield Case("cost", f"raises {name}", arranged(cost=cost), frozenset())
        yield Case("available", f"raises {name}", arranged(available=available), ALL)
        if name not in HOOKS:
            continue
        yield Case("version", f"raises {name}", arranged(version=version), frozenset())

        def takes(node: Node, fail: Any = fail) -> Sequence[Any]:
            fail()
            return ()

        step = one(VICTIM, takes=takes)
        taking = (*patterns()[::2], Pattern("product", step))
        yield Case("takes", f"raises {name}", arranged(patterns=taking), frozenset())

        def laid(node: Node, fail: Any = fail) -> None:
            fail()

        step = one(VICTIM, laid=(laid,))
        yield Case("condition on layouts", f"raises {name}",
                   arranged(patterns=(*patterns()[::2], Pattern("product", step))))  # fmt: skip

        def module(folder: Path, name: str = name) -> Sequence[Backend]:
            source = f"from asyncio import CancelledError\nraise {name}('{MARK}')\n"
            install(folder, "broken-package", plugins.BACKENDS, {"broken": "broken_plain:BROKEN"},
                    {"broken_plain.py": source})  # fmt: skip
            sys.path.insert(0, str(folder))
            plugins._installed.cache_clear()
            return [find("broken")]

        yield Case("module of a backend", f"raises {name}", module, ALL, ("broken", MARK))


def _returned() -> Iterator[Case]:
    wrong = {"None": None, "a number": 3, "a list": ["injected"], "a float": float("nan")}
    for text, value in wrong.items():

        def converted(regions: Sequence[Region], value: Any = value) -> Any:
            return value if any(map(is_victim, regions)) else convert(regions)

        yield Case("convert a region", f"returns {text}", arranged(convert=converted),
                   names=("plain", f"returned {value!r}"))  # fmt: skip
        if value is not None:
            yield Case("condition", f"returns {text}",
                       arranged(patterns=patterns(lambda node, v=value: v)),
                       names=("plain", f"returned {value!r}"))  # fmt: skip
            yield Case("available", f"returns {text}", arranged(available=lambda v=value: v), ALL,
                       ("plain", f"returned {value!r}"))  # fmt: skip
        yield Case("version", f"returns {text}", arranged(version=lambda v=value: v), frozenset(),
                   ("plain", f"returned {value!r}"))  # fmt: skip
    for cost in (None, float("nan"), float("inf"), -1.0, "cheap", True, [1.0]):
        text = repr(cost)
        yield Case("cost", f"returns {text}", arranged(cost=lambda r, v=cost: v), frozenset(),
                   ("plain", "cost"))  # fmt: skip
    for wants in ({"relax.nn.conv2d": ("NHXX2",)}, {"relax.nn.con2d": ("NHWC",)}, {"add": 3}):
        yield Case(
            "wants", f"are {wants}", arranged(wants=wants), frozenset(), ("plain", "layouts")
        )


def _written() -> Iterator[Case]:
    for name in ("relax.multipy", "multiply", "relax.nn.multiply", "relax.mul"):

        def misspelt(folder: Path, name: str = name) -> Sequence[Backend]:
            return [replace(PLAIN, patterns=(Pattern("product", one(name)),))]

        yield Case("pattern", f"names {name}", misspelt, ALL, (name, "relax.multiply"), True)
    for field, value in (("convert", None), ("patterns", ("sum",)), ("cost", 3), ("available", "")):
        yield Case("backend", f"{field} is {value!r}", arranged(**{field: value}), ALL,
                   ("plain", field), True)  # fmt: skip


_NUMBER = count(1)


def _recogniser(answer: Callable[[Any], Any], op: str = VICTIM) -> Arrange:
    def arrange(folder: Path) -> Sequence[Backend]:
        recogniser(MARK, precedence=-next(_NUMBER), ops=[op])(answer)
        return [PLAIN]

    return arrange


#: Wrong proposals that the certificate refuses without a message, since recognisers may guess.
GUESSES = ("no operands", "attributes that are unknown")


def _recognisers() -> Iterator[Case]:
    for name, fail in RAISES.items():
        if name in (*FEW, "TypeError", "AssertionError", "IndexError", "InternalError"):

            def answer(lifted: Any, fail: Any = fail) -> None:
                fail()

            yield Case("recogniser", f"raises {name}", _recogniser(answer), frozenset(), (MARK,))
    good = Proposal(VICTIM, (0, 1))
    text: Any = MARK
    wrong: dict[str, Any] = {
        "None": None, "a number": 3, "a list of texts": [MARK], "an operand out of range":
        [replace(good, operands=(0, 9))], "a negative operand": [replace(good, operands=(0, -7))],
        "no operands": [replace(good, operands=())], "a text for an operand":
        [replace(good, operands=(0, text))],
        "attributes that are unknown": [replace(good, attrs={MARK: 3})],
    }  # fmt: skip
    for name, value in wrong.items():
        names = () if name in GUESSES else (MARK,)
        yield Case("recogniser", f"proposes {name}", _recogniser(lambda lifted, v=value: v),
                   frozenset(), names)  # fmt: skip
    for op in ("relax.add", "relax.subtract", "relax.exp", "relax.nn.conv2d"):
        both = [Proposal(op, (0, 1)), Proposal(op, (0,))]
        yield Case("recogniser", f"proposes {op} for everything",
                   _recogniser(lambda lifted, both=both: both, op), frozenset(), ())  # fmt: skip


def _runtime() -> Iterator[Case]:
    """Yield the cases of a session's kernel store and compiler."""
    from .kernel_store import COMPILERS, STORES

    for name, said in STORES.items():
        yield Case("store", name, lambda folder: [], frozenset(), (said,), runs=f"store:{name}")
    for name, (_, said) in COMPILERS.items():
        yield Case("compiling process", name, lambda folder: [], frozenset(), (said,),
                   runs=f"compiler:{name}")  # fmt: skip
