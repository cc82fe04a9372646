"""What a shell completes in the values of options: names, without importing TVM.

`opinfo --install-completion` installs it. Files are completed by the shell.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import entry_points

#: The entry points of backends of other packages.
GROUP = "opinfo.backends"
BACKENDS = ("onednn", "blas", "onnxruntime", "tvm", "example_npu", "cublaslt", "cudnn", "cutlass",
            "tensorrt")  # fmt: skip
STRATEGIES = ("jit", "aot", "generic", "library", "record")
#: Operators and layouts that they are often wanted in.
LAYOUTS = {
    "conv1d": ("NWC", "NCW", "NCW8c"),
    "conv2d": ("NHWC", "NCHW", "NCHW8c", "NHWC,OHWI", "tvm-nhwc"),
    "conv3d": ("NDHWC", "NCDHW"),
    "conv1d_transpose": ("NWC", "NCW"),
    "conv2d_transpose": ("NHWC", "NCHW"),
    "conv3d_transpose": ("NDHWC", "NCDHW"),
    "max_pool2d": ("NHWC", "NCHW"),
    "avg_pool2d": ("NHWC", "NCHW"),
    "adaptive_avg_pool2d": ("NHWC", "NCHW"),
    "matmul": ("tvm-nhwc",),
}
#: Targets that are often named.
TARGETS = ("llvm", "cuda")


def backends(incomplete: str) -> list[str]:
    """Names by comma: what stands before the last comma stays.

    >>> backends("onednn,tv")
    ['onednn,tvm']
    """
    before, comma, last = incomplete.rpartition(",")
    taken = before.split(",")
    names = [n for n in _backends() if n not in taken]
    return [f"{before}{comma}{n}" for n in _starting(names, last)]


def strategies(incomplete: str) -> list[str]:
    """How functions with symbolic shapes are compiled."""
    return _starting(STRATEGIES, incomplete)


def wants(incomplete: str) -> list[str]:
    """``conv2d=NHWC``.

    >>> wants("conv2d=NH")
    ['conv2d=NHWC', 'conv2d=NHWC,OHWI']
    """
    return _named(incomplete, LAYOUTS)


def forces(incomplete: str) -> list[str]:
    """``conv2d=onednn``."""
    return _named(incomplete, dict.fromkeys((*LAYOUTS, "softmax"), _backends()))


def operators(incomplete: str) -> list[str]:
    """``relax.matmul=aot``."""
    names = ("relax.matmul", "relax.nn.conv2d", "relax.nn.softmax", "relax.nn.layer_norm")
    return _named(incomplete, dict.fromkeys(names, STRATEGIES))


def targets(incomplete: str) -> list[str]:
    """TVM's targets."""
    return _starting(TARGETS, incomplete)


def _named(incomplete: str, values: Mapping[str, Sequence[str]]) -> list[str]:
    name, equals, value = incomplete.partition("=")
    if not equals:
        return [f"{n}=" for n in _starting(values, name)]
    return [f"{name}={v}" for v in _starting(values.get(name, ()), value)]


def _starting(names: Iterable[str], text: str) -> list[str]:
    return [n for n in names if n.startswith(text)]


def _backends() -> tuple[str, ...]:
    """Those of opinfo and of other packages that are installed."""
    return (*BACKENDS, *sorted(p.name for p in entry_points(group=GROUP)))
