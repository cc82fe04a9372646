"""Execute kernels thread by thread, independent of the library: see `thread_machine`."""

from .thread_machine import execute

__all__ = ["execute"]
