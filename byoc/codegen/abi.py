"""The head of a backend's generated C++: TVM's calling convention in a few functions."""

from importlib.resources import files

#: `OPINFO_FUNCTION(symbol)` and what stands in the namespace ``opinfo``: see the file.
ABI = (files(__package__) / "abi.hpp").read_text(encoding="utf-8")
