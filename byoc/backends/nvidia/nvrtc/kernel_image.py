"""Compile kernels of our own, which CUDA's driver loads, by the compiler of TVM's kernels."""

from __future__ import annotations

import os

from ....codegen.loading.cuda_device import cuda_device
from .exact_math import exact_math
from .kernel_headers import kernel_headers

#: The architecture whose code later devices take, too.
OLDEST = 80


def compiled(source: str) -> bytes:
    """CUDA C++ as code of this machine's GPU; without one, as PTX for all later ones.

    Raises:
        RuntimeError: It does not compile.
    """
    from tvm.support import nvcc

    device = cuda_device()
    kind, arch = "ptx", f"compute_{OLDEST}"
    if device.exist:
        kind, arch = "cubin", f"sm_{device.compute_version.replace('.', '')}"
    compiler = os.environ.get("TVM_CUDA_COMPILE_MODE", "nvrtc").lower()  # as for TVM's kernels
    with exact_math(), kernel_headers():
        return bytes(nvcc.compile_cuda(source, kind, arch, compiler=compiler))
