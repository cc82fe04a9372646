"""A backend of plain C that is right, crashes, hangs, is wrong or does not build, by operator."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import tvm_ffi

from opinfo.byoc.backend.backend import Backend, Code
from opinfo.byoc.backend.region import Region
from opinfo.byoc.patterns.pattern import Pattern, one

HEAD = """#include <math.h>
#include <stdlib.h>
#include <tvm/ffi/c_api.h>
#include <unistd.h>
static const DLTensor* view(const TVMFFIAny& a) {
  return a.type_index == kTVMFFIDLTensorPtr ? static_cast<const DLTensor*>(a.v_ptr)
                                            : TVMFFITensorGetDLTensorPtr(a.v_obj);
}
"""
BODY = """
extern "C" __attribute__((visibility("default"))) int __tvm_ffi_%(symbol)s(
    void*, const TVMFFIAny* args, int32_t count, TVMFFIAny*) {
  const DLTensor *x = view(args[0]), *y = view(args[count - 1]);
  const float* px = static_cast<const float*>(x->data);
  float* py = static_cast<float*>(y->data);
  int64_t size = 1;
  for (int k = 0; k < y->ndim; ++k) size *= y->shape[k];
  for (int64_t i = 0; i < size; ++i) {
    %(body)s
  }
  return 0;
}
"""
BODIES = {
    "relax.negative": "py[i] = -px[i];",
    "relax.nn.relu": "abort();",
    "relax.exp": "for (;;) pause();",
    "relax.tanh": "py[i] = tanhf(px[i]) + 1;",
    "relax.sqrt": "this is not C++;",
    "relax.abs": "py[i] = fabsf(px[i]);",
}
PATTERNS = tuple(Pattern(name.rpartition(".")[2], one(name)) for name in BODIES)


def convert(regions: Sequence[Region]) -> Code:
    made = ({"symbol": r.symbol, "body": BODIES[r.calls[0].op]} for r in regions)
    return Code(HEAD + "".join(BODY % m for m in made), tuple(r.symbol for r in regions))


@dataclass(frozen=True)
class Threads:
    """A job: how many threads OpenMP is to have."""

    def run(self) -> str | None:
        return os.environ.get("OMP_NUM_THREADS")


@dataclass(frozen=True)
class Registered:
    """A job: whether a module has registered a function."""

    name: str

    def run(self) -> bool:
        return tvm_ffi.get_global_func(self.name, allow_missing=True) is not None


@dataclass(frozen=True)
class Stubborn:
    """A job that starts another process, tells its number, and may wait for it."""

    path: str
    waits: bool

    def run(self) -> None:
        child = subprocess.Popen(["sleep", "600"])
        Path(self.path).write_text(str(child.pid))
        if self.waits:
            child.wait()


@dataclass(frozen=True)
class Killed:
    """A job that crashes."""

    def run(self) -> None:
        os.abort()


ODD = Backend("odd", PATTERNS, convert)
