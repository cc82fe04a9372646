"""`opinfo compile MODEL -o model.so`: compile a model to a library."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from ..options.compile_options import CompileOptions
from ..options.option_fields import with_options
from ..options.output_files import Output, appended, distinct, optional, output
from ..options.shared_options import loaded
from ..run.console_messages import refusing, reporting_warnings, working
from ..run.exit_status import UserError, emit
from ..run.printed_tables import show

if TYPE_CHECKING:
    from ...front.compiled_model import Compiled
    from ...verify.verification import Verified

#: The suffixes of files that TVM loads as libraries.
LOADABLE = (".so", ".dylib", ".dll")


@with_options
def compile_model(options: CompileOptions) -> None:
    """Compile MODEL to a library that loads in any process with the TVM runtime.

    With --shapes, `opinfo.Session` serves the library, and a table shows how each function is
    compiled. The last line names failed regions and the backends that replace them.

    Exit status: 0; 1 if --verify finds a difference; 2 with a one-line error if MODEL cannot be
    read, an option is invalid, the library cannot be built, or, with --strict, a region failed or
    a backend is not available.
    """
    options.check()
    library, page, plan_file = _output_files(options)
    model = options.model
    with working() as console, reporting_warnings(console), refusing(model):
        mod = loaded(model, options.shape)
        compiled = options.compiled(mod)
        _write(compiled, library, plan_file, options.strict)
        verified = compiled.verify(mod) if options.verify else None
        if page is not None:
            _write_page(page, model.name, compiled, verified)
    _print(compiled, options.explain, verified, options.output)
    if verified is not None and not verified.same:
        raise typer.Exit(1)


def _output_files(options: CompileOptions) -> tuple[Output, Output | None, Output | None]:
    """The library, the page and the plan, once it is known that they can be written."""
    inputs = (options.model, options.plan)
    library = output("--output", options.output, *inputs)
    if library.is_file and library.path.suffix not in LOADABLE:
        raise UserError(f"{library}: expected the suffix .so, by which TVM loads libraries")
    page = optional("--report", options.report, *inputs)
    plan_file = optional("--save-plan", options.save_plan, *inputs)
    distinct(library, page, plan_file, appended("--database", options.measuring.database, *inputs))
    return library, page, plan_file


def _write(compiled: Compiled, library: Output, plan_file: Output | None, strict: bool) -> None:
    """Write the library and the plan."""
    dispatched = compiled.dispatched
    if strict and dispatched is not None and dispatched.failed:
        raise UserError(f"--strict: {dispatched.failures() or dispatched.failed[0]}")
    if plan_file is not None and dispatched is not None:
        plan_file.fill(dispatched.plan.save)
    library.fill(compiled.export)


def _write_page(page: Output, name: str, compiled: Compiled, verified: Verified | None) -> None:
    from ...analysis.support.progress import stage
    from ...picture.compiled import compiled_page

    if compiled.dispatched is None:
        raise UserError(f"{page}: the page shows backends, but none is used: add --backend")
    stage("writing the page")
    page.write(compiled_page(name, compiled.dispatched, verified))


def _print(compiled: Compiled, explain: bool, verified: Verified | None, library: Path) -> None:
    from ...analysis.support.wording import plural
    from ...front.compiled_model import describe
    from ...report.libraries import strategies as table
    from ...verify.verification import explained

    dispatched = compiled.dispatched
    emit(f"compiled for {describe(compiled.target)}")
    if dispatched is not None:
        emit(dispatched.summary())
        for line in filter(None, (str(compiled.costs or ""), compiled.kept)):
            emit(line)
        for line in explained(dispatched) if explain else ():
            emit(line)
    if compiled.functions:
        written = f"written: {library}, {plural(len(compiled.functions), 'function')}"
        show([table(f.row for f in compiled.functions)], written)
    else:
        emit(f"written: {library}")
    if verified is not None:
        emit(str(verified))
    if dispatched is not None and dispatched.failures():
        emit(dispatched.failures())
