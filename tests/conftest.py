"""What tests run on: ``OPINFO_MCPU=haswell make test`` is a machine with AVX2 only; which TVM.

After each test, the backends that it registered are forgotten.

TVM's decorators call `inspect.stack`, which looks for the module of each frame that has no file
in all loaded modules, several thousand. That there is none is said here once.

TVM's parser of scripts does less work for the same result, as `fast_scripts.py` says.

Libraries of C++ that tests need are compiled once, and kept in the user's cache.

The process that reads model files is started before a command makes its folder of temporary files.
Inside, it would end with the command, and a new one takes two seconds.

Each program of torch that is loaded lists all operators of torch several times, 60 ms in all. They
are listed once. For each of 700 operators, 21 kernels are replaced while the program is decomposed.
Those of devices that no test has stay, and a type that Python writes anew for each is kept.

Processes that tests start import TVM without torch, as `child_processes/sitecustomize.py` says.

Hypothesis parses the source of every module to find constants that it tries as inputs. It parses
those of the packages that its tests are about.

Doctests are in the sources. Files of tests are not searched for them, which took a second parse.

Of cases that go the same way a part is taken, as `part.py` says.

Garbage is collected once all tests are known: modules are not garbage, and were a quarter of the
time of collecting tests. From then on they are not looked at again.
"""

from __future__ import annotations

import functools
import gc
import inspect
import os
import sys
import typing
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
from _pytest.doctest import DoctestModule

from opinfo.analysis.support.tvm_compat import COMPLETE, VERSION
from opinfo.byoc.codegen.host_target import VARIABLE, flags

from . import fast_scripts, part
from .common.compiled_once import begin_run
from .oldest import expect_failures, leave_out

#: oneDNN's own names of what it may use, the first that the CPU has.
ISA = {"avx512bw": "AVX512_CORE", "avx2": "AVX2", "sse2": "SSE41"}

#: Names of code without a file: xdist's workers, imports, what TVM's parser and `exec` evaluate.
NO_FILES = ("<string>", "<ast>", "<str>", "<stdin>", "<frozen runpy>",
            "<frozen importlib._bootstrap>", "<frozen importlib._bootstrap_external>")  # fmt: skip
inspect.modulesbyfile.update(dict.fromkeys(NO_FILES, ""))  # no module has an empty name


if VERSION >= COMPLETE:  # on 0.26, processes that used it ended in tests of plans
    fast_scripts.install()

if os.environ.get(VARIABLE):
    found = next(isa for feature, isa in ISA.items() if feature in flags())
    os.environ.setdefault("ONEDNN_MAX_CPU_ISA", found)


#: Packages whose tests draw inputs with Hypothesis, and where its constants are.
DRAWN = tuple(f"{Path(__file__).parents[1] / name}/" for name in ("analysis", "layout"))
#: Devices of tensors in programs of torch, as torch's keys for kernels name them.
DEVICES = ("CPU", "CUDA", "Meta")
#: A folder for the path of modules of processes that tests start.
CHILDREN = Path(__file__).with_name("child_processes")

gc.disable()


def pytest_configure() -> None:
    """Processes of a run share a folder of libraries."""
    begin_run()


@pytest.hookimpl(wrapper=True)
def pytest_collect_file() -> Generator[None, list[Any], list[Any]]:
    """Search no file of tests for doctests."""
    found = yield
    return [c for c in found if not isinstance(c, DoctestModule)]


def pytest_collection_finish() -> None:
    """Let commands share a reader, and torch its operators. From now on, collect garbage.

    The processes that run pytest itself have been started, so those to come are of tests.
    """
    given = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(CHILDREN), given]))
    sys.path.insert(0, str(CHILDREN))  # some pass this process's path on
    command = sys.modules.get("opinfo.cli.run.exit_status")
    if command is not None:
        command.scratch = _after_reader(command.scratch)  # type: ignore[attr-defined]
    if "torch" in sys.modules:
        _decompose_quickly()
    gc.collect()
    gc.freeze()
    gc.enable()


def _is_drawn(path: str) -> bool:
    return os.path.realpath(path).startswith(DRAWN)


def _after_reader(scratch: Callable[[], Any]) -> Callable[[], Any]:
    def started() -> Any:
        from opinfo.frontend.process.reader_client import shared_reader

        shared_reader().start()
        return scratch()

    return started


def _decompose_quickly() -> None:
    """Let torch make the objects of its operators once; those registered later make their own.

    Replace kernels of devices that tests have; `typing` keeps the types that annotations name.
    """
    from torch import _ops
    from torch._export import utils
    from torch.export import exported_program

    utils._materialize_cpp_cia_ops = functools.cache(utils._materialize_cpp_cia_ops)
    _ops.Callable = typing.Callable
    for keys in (exported_program._BACKEND_KEYS_TO_OVERRIDE,
                 exported_program._AUTOGRAD_ALIAS_BACKEND_KEYS_TO_OVERRIDE):  # fmt: skip
        keys[:] = [key for key in keys if key.name.removeprefix("Autograd") in DEVICES]


@pytest.hookimpl(tryfirst=True)  # before that of Hypothesis, which looks for constants
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark cases outside the part. On an older TVM, what differs there is expected to fail."""
    part.mark_rest(items, config.args)
    constants = sys.modules.get("hypothesis.internal.conjecture.providers")
    if constants is not None:
        constants.is_local_module_file = _is_drawn  # type: ignore[attr-defined]
    if VERSION < COMPLETE:
        leave_out(items)
        expect_failures(items)


@pytest.fixture(params=["part", pytest.param("all", marks=pytest.mark.sweep)])
def one_in(request: pytest.FixtureRequest) -> part.OneIn:
    """Takes one of so many of a test's cases; in `make sweep`, all."""
    return part.OneIn(request.node.nodeid, request.param == "all")


@pytest.fixture(autouse=True)
def same_backends() -> Iterator[None]:
    """Forget the backends that a test registers, and what it put in place of others."""
    if VERSION < COMPLETE:  # it has none
        yield
        return
    from opinfo.byoc.backend import catalog

    before = dict(catalog._REGISTRY)
    yield
    catalog._REGISTRY.clear()
    catalog._REGISTRY.update(before)
    _forget_failures()


def _forget_failures() -> None:
    """Let later tests ask oneDNN again, after one in which its program died or was not built."""
    probe = sys.modules.get("opinfo.byoc.backends.onednn.implementation_probe")
    if probe is None:
        return
    probe._deaths[0] = 0
    if probe._probe.cache_info().currsize and probe._probe(os.getpid()) is None:
        probe._probe.cache_clear()
