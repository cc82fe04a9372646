"""Shell completion for the values of options, without importing TVM.

`opinfo --install-completion` installs it. The shell itself completes files.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import entry_points

#: Entry points of backends in other packages.
GROUP = "opinfo.backends"
BACKENDS = ("onednn", "blas", "onnxruntime", "openvino", "tvm", "example_npu", "cublaslt", "cudnn",
            "cutlass", "tensorrt")  # fmt: skip
STRATEGIES = ("jit", "aot", "generic", "library", "record")
#: Common layouts of operators.
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
#: Common targets.
TARGETS = ("llvm", "cuda")


def backends(incomplete: str) -> list[str]:
    """Complete the last of several comma-separated names.

    >>> backends("onednn,tv")
    ['onednn,tvm']
    """
    before, comma, last = incomplete.rpartition(",")
    chosen = before.split(",")
    names = [n for n in _backends() if n not in chosen]
    return [f"{before}{comma}{n}" for n in _starting(names, last)]


def strategies(incomplete: str) -> list[str]:
    """Complete a strategy."""
    return _starting(STRATEGIES, incomplete)


def wants(incomplete: str) -> list[str]:
    """Complete ``conv2d=NHWC``.

    >>> wants("conv2d=NH")
    ['conv2d=NHWC', 'conv2d=NHWC,OHWI']
    """
    return _named(incomplete, LAYOUTS)


def forces(incomplete: str) -> list[str]:
    """Complete ``conv2d=onednn``."""
    return _named(incomplete, dict.fromkeys((*LAYOUTS, "softmax"), _backends()))


def operators(incomplete: str) -> list[str]:
    """Complete ``relax.matmul=aot``."""
    names = ("relax.matmul", "relax.nn.conv2d", "relax.nn.softmax", "relax.nn.layer_norm")
    return _named(incomplete, dict.fromkeys(names, STRATEGIES))


def targets(incomplete: str) -> list[str]:
    """Complete a target of TVM."""
    return _starting(TARGETS, incomplete)


def _named(incomplete: str, values: Mapping[str, Sequence[str]]) -> list[str]:
    name, equals, value = incomplete.partition("=")
    if not equals:
        return [f"{n}=" for n in _starting(values, name)]
    return [f"{name}={v}" for v in _starting(values.get(name, ()), value)]


def _starting(names: Iterable[str], text: str) -> list[str]:
    return [n for n in names if n.startswith(text)]


def _backends() -> tuple[str, ...]:
    """Return the backends of opinfo and of installed packages."""
    return (*BACKENDS, *sorted(p.name for p in entry_points(group=GROUP)))
