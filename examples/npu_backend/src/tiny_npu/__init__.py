"""A made-up accelerator that has dense layers: ``relu(x @ weights + bias)`` in float32."""

from importlib.metadata import version

from opinfo.byoc import Backend

from .convert import convert
from .patterns import PATTERNS


def available() -> str | None:
    """None if the device can be used, else why not: a real one looks for its driver here."""
    return None


def own_version() -> str:
    """What was saved with another version is not used: that of the package and its driver."""
    return version("opinfo-tiny-npu")


TINY_NPU = Backend("tiny_npu", PATTERNS, convert, available=available, version=own_version)
