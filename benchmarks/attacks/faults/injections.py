"""What `benchmarks.faults` injects: where, how, and what a message must name."""

from __future__ import annotations

import os
import sys
from asyncio import CancelledError
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import Any

import tvm
from tvm.support import cc

from opinfo.analysis.proposal.proposal import Proposal
from opinfo.analysis.recognise import recogniser
from opinfo.analysis.support import plugins
from opinfo.byoc import Backend, Coarse, Code, Node, Pattern, Region, one
from opinfo.byoc.backend.catalog import find
from opinfo.byoc.codegen.compilers import toolchain
from opinfo.byoc.codegen.loading import load_checked
from tests.common.packages import install

from .victim import OTHERS, PLAIN, VICTIM, changed, convert, is_victim, patterns

MARK = "injected"
#: Prepares a case and returns the backends; ``folder`` is empty.
Arrange = Callable[[Path], Sequence[Backend]]
ALL = frozenset((VICTIM, *OTHERS))


@dataclass(frozen=True)
class Case:
    """``loses``: operators that the backend may lose. ``names``: what a message must say.

    ``refused``: nothing can be built, and the raised error must say so. ``runs``: what to run
    instead of compiling with the backends.
    """

    point: str
    failure: str
    arrange: Arrange
    loses: frozenset[str] = frozenset([VICTIM])
    names: tuple[str, ...] = ("plain", MARK)
    refused: bool = False
    runs: str = "compile"

    @property
    def name(self) -> str:
        return f"{self.point}: {self.failure}"


def _recursion() -> None:
    def recurse(text: str) -> None:
        recurse(text)

    try:
        recurse(MARK)
    except RecursionError as error:
        raise RecursionError(f"{MARK}: {error}") from error


def _raise(error: BaseException) -> Callable[[], None]:
    def raising() -> None:
        raise error

    return raising


def _no_text(error: BaseException) -> str:
    raise ValueError("no text")


#: An error of which only the type can be shown.
SPEECHLESS = type(f"Speechless_{MARK}", (Exception,), {"__str__": _no_text})
RAISES: dict[str, Callable[[], None]] = {
    "RecursionError": _recursion,
    "SystemExit": _raise(SystemExit(MARK)),
    "CancelledError": _raise(CancelledError(MARK)),
    "an error without text": _raise(SPEECHLESS()),
    **{kind.__name__: _raise(kind(MARK)) for kind in (
        ValueError, KeyError, MemoryError, TypeError, AssertionError, OSError, ImportError,
        NotImplementedError, ZeroDivisionError, AttributeError, IndexError, StopIteration,
        UnicodeError, tvm.error.InternalError,
    )},
}  # fmt: skip
#: For hooks whose calls are guarded in the same way.
FEW = ("ValueError", "KeyError", "MemoryError", "RecursionError", "AttributeError", "OSError")
HOOKS = (*FEW, "SystemExit", "CancelledError")


def cases() -> list[Case]:
    """Return all cases; their names are distinct."""
    parts = (_converters, _hooks, _returned, _written, _cxx, _compilers, _recognisers, _runtime)
    return [c for part in parts for c in part()]


#: Seconds that a library may take to load here.
load_checked.SECONDS = 10.0


def _with(**changes: Any) -> Arrange:
    return lambda folder: [replace(PLAIN, **changes)]


def _converters() -> Iterator[Case]:
    for name, fail in RAISES.items():

        def one_region(regions: Sequence[Region], fail: Any = fail) -> Code:
            if any(map(is_victim, regions)):
                fail()
            return convert(regions)

        yield Case("convert a region", f"raises {name}", _with(convert=one_region))
    for name in HOOKS:

        def each(regions: Sequence[Region], fail: Any = RAISES[name]) -> Code:
            fail()
            return convert(regions)

        yield Case("convert all regions", f"raises {name}", _with(convert=each), ALL)

        def together(regions: Sequence[Region], fail: Any = RAISES[name]) -> Code:
            if len(regions) > 1:
                fail()
            return convert(regions)

        yield Case("convert several regions at once", f"raises {name}", _with(convert=together),
                   frozenset())  # fmt: skip

        def coarse(regions: Sequence[Region], fail: Any = RAISES[name]) -> Code:
            if any(map(is_victim, regions)):
                fail()
            return convert(regions)

        network = Coarse("whole", one(("relax.add", VICTIM, "relax.exp", "relax.nn.relu")))
        yield Case("convert a coarse region", f"raises {name}",
                   _with(convert=coarse, patterns=(), coarse=(network,)))  # fmt: skip


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

        yield Case("condition", f"raises {name}", _with(patterns=patterns(condition)))
        yield Case("cost", f"raises {name}", _with(cost=cost), frozenset())
        yield Case("available", f"raises {name}", _with(available=available), ALL)
        if name not in HOOKS:
            continue
        yield Case("version", f"raises {name}", _with(version=version), frozenset())

        def takes(node: Node, fail: Any = fail) -> Sequence[Any]:
            fail()
            return ()

        step = one(VICTIM, takes=takes)
        taking = (*patterns()[::2], Pattern("product", step))
        yield Case("takes", f"raises {name}", _with(patterns=taking), frozenset())

        def laid(node: Node, fail: Any = fail) -> None:
            fail()

        step = one(VICTIM, laid=(laid,))
        yield Case("condition on layouts", f"raises {name}",
                   _with(patterns=(*patterns()[::2], Pattern("product", step))))  # fmt: skip

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

        yield Case("convert a region", f"returns {text}", _with(convert=converted),
                   names=("plain", f"returned {value!r}"))  # fmt: skip
        if value is not None:
            yield Case("condition", f"returns {text}",
                       _with(patterns=patterns(lambda node, v=value: v)),
                       names=("plain", f"returned {value!r}"))  # fmt: skip
            yield Case("available", f"returns {text}", _with(available=lambda v=value: v), ALL,
                       ("plain", f"returned {value!r}"))  # fmt: skip
        yield Case("version", f"returns {text}", _with(version=lambda v=value: v), frozenset(),
                   ("plain", f"returned {value!r}"))  # fmt: skip
    for cost in (None, float("nan"), float("inf"), -1.0, "cheap", True, [1.0]):
        text = repr(cost)
        yield Case("cost", f"returns {text}", _with(cost=lambda r, v=cost: v), frozenset(),
                   ("plain", "cost"))  # fmt: skip
    for wants in ({"relax.nn.conv2d": ("NHXX2",)}, {"relax.nn.con2d": ("NHWC",)}, {"add": 3}):
        yield Case("wants", f"are {wants}", _with(wants=wants), frozenset(), ("plain", "layouts"))


def _written() -> Iterator[Case]:
    for name in ("relax.multipy", "multiply", "relax.nn.multiply", "relax.mul"):

        def misspelt(folder: Path, name: str = name) -> Sequence[Backend]:
            return [replace(PLAIN, patterns=(Pattern("product", one(name)),))]

        yield Case("pattern", f"names {name}", misspelt, ALL, (name, "relax.multiply"), True)
    for field, value in (("convert", None), ("patterns", ("sum",)), ("cost", 3), ("available", "")):
        yield Case("backend", f"{field} is {value!r}", _with(**{field: value}), ALL,
                   ("plain", field), True)  # fmt: skip


def _code(failure: str, *names: str, loses: frozenset[str] = frozenset([VICTIM]),
          **changes: Any) -> Case:  # fmt: skip
    def change(code: Code, region: Region) -> Code:
        fields = {k: v(code, region) if callable(v) else v for k, v in changes.items()}
        return replace(code, **fields)

    return Case("code", failure, lambda folder: [changed(change)], loses, ("plain", *names))


def _adds(text: str) -> Callable[[Code, Region], str]:
    return lambda code, r: code.source + text.replace("SYMBOL", r.symbol)


def _replaces(old: str, new: str) -> Callable[[Code, Region], str]:
    def change(code: Code, region: Region) -> str:
        head, tail = code.source.split(f"static void {region.symbol}_(", 1)
        body, after = tail.split(f"OPINFO_TYPED({region.symbol}", 1)
        body = body.replace(old, new)
        return f"{head}static void {region.symbol}_({body}OPINFO_TYPED({region.symbol}{after}"

    return change


def _begins(code: Code, region: Region) -> str:
    """Add an initialiser, named after the first region, that fails at load time."""
    fails = f'return opinfo::fail("ValueError", "{MARK}");'
    return f"{code.source}\nOPINFO_FUNCTION(__init_{code.symbols[0]}) {{ {fails} }}\n"


#: What a library does when it is loaded.
LOADING = {
    "aborts": "abort()",
    "crashes": "*(volatile int*)8 = 1",
    "exits": "_exit(3)",
    "exits with 0": "exit(0)",
    "exits at once with 0": "_exit(0)",
    "rounds upwards": "fesetround(FE_UPWARD)",
    "hangs": "for (;;) usleep(1000)",
}


def _cxx() -> Iterator[Case]:
    yield _code("has no symbols", "symbols", symbols=())
    yield _code("has symbols that are a string", "symbols", symbols="plain")
    yield _code("has no source", "source", source=None)
    yield _code("has bytes for source", "source", source=b"int x;")
    yield _code("has an option that is a number", "options", options=(3,))
    yield _code("has a constant that is None", "constants", constants=(("w", None),))
    yield _code("has a constant without a name", "constants", constants=("w",))
    yield _code("has an option that is unknown", MARK, options=(f"-f{MARK}",))
    yield _code("needs a library that is not there", MARK, options=(f"-l{MARK}",))
    yield _code("includes a file that is not there", MARK,
                source=_adds(f'\n#include "{MARK}.h"\n'))  # fmt: skip
    yield _code("is not C++", MARK, source=_adds(f"\n{MARK} SYMBOL in Fortran;\n"))
    yield _code(
        "is cut",
        "error",
        source=lambda code, region: code.source[: code.source.rindex(region.symbol)],
    )
    yield _code("has a static assertion that fails", MARK,
                source=_adds(f'\nstatic_assert(sizeof(int) == 0, "{MARK}");\n'))  # fmt: skip
    yield _code("has an #error", MARK, source=_adds(f"\n#error {MARK}\n"))
    yield _code("calls what no library has", MARK, source=_adds(
        f'\nextern "C" int {MARK}(); int SYMBOL_more() {{ return {MARK}(); }}\n'))  # fmt: skip
    yield _code(
        "exports another name",
        "Cannot find",
        source=lambda code, region: code.source.replace(
            f"OPINFO_TYPED({region.symbol},", f"OPINFO_TYPED({MARK},"
        ),
    )
    yield _code("exports a name twice", "redefinition", source=_adds(
        "\nOPINFO_FUNCTION(SYMBOL) { return 0; }\n"))  # fmt: skip
    yield _code("takes one tensor too few", "takes 2 tensors but is called with 3",
                source=_replaces("const DLTensor* x1, const DLTensor* out) {",
                                 "const DLTensor* out) { const DLTensor* x1 = out;"))  # fmt: skip
    for how, ends in LOADING.items():
        begins = f"__attribute__((constructor)) static void SYMBOL_begin() {{ {ends}; }}\n"
        text = f"\n#include <cfenv>\n#include <cstdlib>\n#include <unistd.h>\n{begins}"
        yield _code(f"{how} when it is loaded", "library", source=_adds(text))
    more = _replaces("const DLTensor* out", "const DLTensor* y, const DLTensor* out")
    yield _code("takes one tensor too many", "takes 4 tensors but is called with 3", source=more)
    yield _code(
        "refuses its constants",
        MARK,
        constants=(("w", __import__("numpy").ones(3)),),
        source=_begins,
    )


def _compiler(script: str) -> Callable[[Path], Sequence[Backend]]:
    def arrange(folder: Path) -> Sequence[Backend]:
        tool = folder / "g++"
        real = cc.get_cc()
        tool.write_text(f'#!/bin/sh\n{script}\nexec {real} "$@"\n')
        tool.chmod(0o755)
        os.environ["CXX"] = str(tool)
        toolchain.SECONDS = 8.0
        return [changed(lambda code, r: replace(code, source=f"{code.source}\n// {MARK}\n"))]

    return arrange


#: For the victim's source only.
ONLY = 'if grep -qs "// injected" $(printf "%s\\n" "$@" | grep "\\.cc$"); then {}; fi'
#: What the compiler does, and the expected message for one region and for all.
TOOLS: dict[str, tuple[str, ...]] = {
    "exits with 1": ("exit 1", "status 1"),
    "says an error": ("echo 'lib0.cc:7:3: error: injected' >&2; exit 1", "error: injected"),
    "says it in bytes": ("printf '\\377\\376 error: injected\\n' >&2; exit 1", "error: injected"),
    "is killed": ("kill -9 $$", "SIGKILL"),
    "crashes": ("kill -SEGV $$", "SIGSEGV"),
    "hangs": ("sleep 100", "exceeded"),
    "writes nothing": ("exit 0", "wrote no file"),
    "writes no library": (
        'while [ "$1" != "-o" ]; do shift; done; echo injected > "$2"; exit 0',
        "does not link", "load"),
}  # fmt: skip


def _compilers() -> Iterator[Case]:
    for name, (script, *said) in TOOLS.items():
        yield Case("compiler of one region", name, _compiler(ONLY.format(script)),
                   names=("plain", said[0]))  # fmt: skip
        yield Case("compiler", name, _compiler(script), ALL, (said[-1],), True)
    yield Case("compiler", "is not there", _missing, ALL, ("compiler",), True)


def _missing(folder: Path) -> Sequence[Backend]:
    os.environ.pop("CXX", None)
    os.environ["PATH"] = str(folder)
    return [PLAIN]


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
