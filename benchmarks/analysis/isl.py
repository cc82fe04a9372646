"""Compare inverses of index maps with isl, the integer set library.

    python -m benchmarks.isl [--maps 1000] [--operations 200000] [--page [FILE]]

The maps are the corpus of `tests/analysis/index_map` and random ones. Of each, both say whether it
is bijective, injective or neither, which is compared with what is true (by construction or by
enumeration); isl also judges the inverse that opinfo derived. Exits with 1 if either is wrong.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import files, metadata
from pathlib import Path
from typing import Any

import tvm
from rich.progress import track
from tvm.tirx import IndexMap

from benchmarks.common.pages import add_page_option, table
from opinfo.analysis import invert
from tests.analysis.index_map import corpus, fuzz, isl_oracle, symbolic_fuzz
from tests.analysis.index_map.oracle import as_map, truth

FORMS = ("affine", "div and mod", "xor", "products", "symbolic")
HEAD = """# Index maps: opinfo and isl

Written by `python -m benchmarks.isl --maps {maps} --operations {operations} --page`: the {corpus}
index maps of the corpus and {random} random ones (bijections, mutants of bijections, and bijections
over symbolic sizes), each inverted by `opinfo.analysis.invert` and decided by isl as a relation.

- **decided**: the verdict is bijective, injective or not injective, and true.
- **weaker**: injective is said of a map that is also onto its smallest box.
- **outside**: isl cannot represent the map: Presburger arithmetic has no products of variables, so
  neither strides nor divisors that are symbolic.
- **over budget**: isl takes more than {operations} of its own operations. Exclusive or is given to
  it bit by bit.
- **confirmed**: isl proves that the inverse that opinfo derived undoes the map everywhere. Inverses
  that are tables are left out.
- Times are wall milliseconds of the verdict; opinfo's include the inverse, its proofs, and the
  padding; isl's include building the relation. **Pieces** is how many cases isl's own inverse has,
  at worst.

"""


@dataclass(frozen=True)
class Row:
    """One map: its form, both verdicts, and milliseconds."""

    name: str
    form: str
    ours: str
    isl: str
    inverse: str
    our_ms: float
    isl_ms: float
    pieces: int


def form(index_map: Any, sizes: Sequence[str]) -> str:
    """The hardest arithmetic in a map."""
    if sizes:
        return "symbolic"
    kinds = {kind for e in index_map.final_indices for kind in _kinds(e)}
    if "product" in kinds:
        return "products"
    if "BitwiseXor" in kinds:
        return "xor"
    return "div and mod" if kinds & {"FloorDiv", "FloorMod", "Select"} else "affine"


def _kinds(expr: Any) -> Iterator[str]:
    """The operations of an expression; `product` is one of variables."""
    parts = [getattr(expr, name, None) for name in ("a", "b", "value", "true_value", "false_value")]
    operands = [x for x in parts if isinstance(x, tvm.ir.Expr)]
    literal = any(isinstance(x, tvm.tirx.IntImm) for x in operands)
    yield "product" if isinstance(expr, tvm.tirx.Mul) and not literal else type(expr).__name__
    for operand in operands:
        yield from _kinds(operand)


def maps(count: int) -> Iterator[tuple[str, Any, tuple[Any, ...], tuple[str, ...], str]]:
    """Yield the name, map, extents, symbolic sizes and true verdict of each map."""
    for case in corpus.corpus():
        fn, shape = case.build(*(tvm.tirx.Var(s, "int64") for s in case.sizes))
        yield case.name, as_map(fn, len(shape)), shape, case.sizes, case.truth
    for seed in range(count):
        draw = fuzz.mutant if seed % 4 == 1 else fuzz.bijective
        if seed % 4 == 2:
            symbolic = symbolic_fuzz.symbolic(seed)
            fn, shape = symbolic.build({s: tvm.tirx.Var(s, "int64") for s in "nm"})
            yield symbolic.name, as_map(fn, len(shape)), shape, ("n", "m"), "bijective"
            continue
        drawn = draw(seed)
        built = as_map(drawn.fn, len(drawn.shape))
        yield drawn.name, built, drawn.shape, (), truth(drawn.fn, drawn.shape)


def measure(name: str, index_map: Any, shape: tuple[Any, ...], sizes: Sequence[str], true: str,
            operations: int) -> Row:  # fmt: skip
    """Invert a map with opinfo and with isl."""
    start = time.perf_counter()
    certificate = invert(index_map, shape)
    our_ms = 1e3 * (time.perf_counter() - start)
    start = time.perf_counter()
    said, pieces = _isl(index_map, shape, sizes, operations)
    isl_ms = 1e3 * (time.perf_counter() - start)
    inverse = certificate.inverse
    confirmed = ""
    if isinstance(inverse, IndexMap):
        confirmed = _confirmed(index_map, inverse, shape, sizes, operations)
    ours = _grade(certificate.verdict, true)
    return Row(name, form(index_map, sizes), ours, _grade(said, true), confirmed, our_ms, isl_ms,
               pieces)  # fmt: skip


def _grade(said: str, true: str) -> str:
    if said in ("unknown", "outside", "over budget"):
        return said
    weaker = (said, true) == ("injective", "bijective")
    return "decided" if said == true else "weaker" if weaker else "wrong"


def _isl(index_map: Any, shape: Any, sizes: Sequence[str], operations: int) -> tuple[str, int]:
    """Return isl's verdict, and the number of pieces of its inverse, 0 without one."""
    try:
        with isl_oracle.budget(operations) as context:
            relation = isl_oracle.relation(context, index_map, shape, sizes)
            said = isl_oracle.verdict(relation)
    except isl_oracle.NotAffine:
        return "outside", 0
    except isl_oracle.OutOfBudget:
        return "over budget", 0
    if said == "not_injective":
        return said, 0
    try:
        with isl_oracle.budget(operations) as context:
            return said, isl_oracle.pieces(isl_oracle.relation(context, index_map, shape, sizes))
    except isl_oracle.OutOfBudget:
        return said, 0


def _confirmed(
    index_map: Any, inverse: Any, shape: Any, sizes: Sequence[str], operations: int
) -> str:
    try:
        with isl_oracle.budget(operations) as context:
            forward = isl_oracle.relation(context, index_map, shape, sizes)
            backward = isl_oracle.inverse_relation(context, inverse, forward, sizes)
            return "confirmed" if isl_oracle.inverse_is_right(forward, backward) else "refuted"
    except (isl_oracle.NotAffine, isl_oracle.OutOfBudget) as error:
        return "outside" if isinstance(error, isl_oracle.NotAffine) else "over budget"


def page(rows: Sequence[Row], head: str) -> str:
    """The text of docs/results/isl.md."""
    return f"{head}{_verdicts(rows)}\n\n## Inverses\n\n{_inverses(rows)}\n\n{_package()}\n"


def _verdicts(rows: Sequence[Row]) -> str:
    columns = ("maps", "number", "by", "decided", "weaker", "unknown or outside", "over budget",
               "wrong", "median ms", "99% ms", "longest ms")  # fmt: skip
    lines = []
    for name in (*FORMS, "all"):
        of_form = [r for r in rows if name in (r.form, "all")]
        for who, grades, times in (
            ("opinfo", [r.ours for r in of_form], [r.our_ms for r in of_form]),
            ("isl", [r.isl for r in of_form], [r.isl_ms for r in of_form if r.isl != "outside"]),
        ):
            count = Counter(grades)
            numbers = (count["decided"], count["weaker"], count["unknown"] + count["outside"],
                       count["over budget"], count["wrong"])  # fmt: skip
            lines.append((name, str(len(of_form)), who, *map(str, numbers), *_times(times)))
    return table(columns, lines)


def _times(values: Sequence[float]) -> tuple[str, ...]:
    if not values:
        return ("", "", "")
    ordered = sorted(values)
    near_last = ordered[int(0.99 * (len(ordered) - 1))]
    return tuple(f"{v:.2g}" for v in (statistics.median(ordered), near_last, ordered[-1]))


def _inverses(rows: Sequence[Row]) -> str:
    columns = ("maps", "derived as expressions", "confirmed", "refuted", "outside", "over budget",
               "pieces")  # fmt: skip
    lines = []
    for name in (*FORMS, "all"):
        of_form = [r for r in rows if name in (r.form, "all")]
        count = Counter(r.inverse for r in of_form if r.inverse)
        numbers = (count.total(), *(count[k] for k in columns[2:-1]))
        most = max((r.pieces for r in of_form), default=0)
        lines.append((name, *map(str, numbers), str(most or "")))
    return table(columns, lines)


def _package() -> str:
    """Describe the cost of the dependency: licence, types, size and import time."""
    about = metadata("islpy")
    sizes = [Path(str(f.locate())).stat().st_size for f in files("islpy") or () if _is_file(f)]
    typed = "typed" if any(f.name == "py.typed" for f in files("islpy") or ()) else "not typed"
    return (f"islpy {about['Version']}, {about['License-Expression']}, {typed}, "
            f"{sum(sizes) / 1e6:.1f} MB installed, imported in {_imported('islpy'):.0f} ms "
            f"(z3 {_imported('z3'):.0f} ms).")  # fmt: skip


def _is_file(path: Any) -> bool:
    return Path(str(path.locate())).is_file()


def _imported(module: str) -> float:
    """CPU milliseconds of an import in a fresh interpreter, the smallest of five."""
    code = f"import time; t = time.process_time(); import {module}; print(time.process_time() - t)"
    words = [sys.executable, "-c", code]
    return 1e3 * min(float(subprocess.check_output(words)) for _ in range(5))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--maps", type=int, default=1000, help="random maps beside the corpus")
    parser.add_argument("--operations", type=int, default=200_000, help="isl's budget for a map")
    add_page_option(parser, "isl.md")
    options = parser.parse_args()
    invert(lambda i: (i,), [4])
    total = len(corpus.corpus()) + options.maps
    rows = [measure(*m, options.operations) for m in track(maps(options.maps), "maps", total)]
    head = HEAD.format(maps=options.maps, operations=options.operations,
                       corpus=len(corpus.corpus()), random=options.maps)  # fmt: skip
    text = page(rows, head)
    print(text)
    bad = [r for r in rows if "wrong" in (r.ours, r.isl) or r.inverse == "refuted"]
    for row in bad:
        print(row)
    if options.page:
        options.page.write_text(text, encoding="utf-8")
    sys.exit(int(bool(bad)))


if __name__ == "__main__":
    main()
