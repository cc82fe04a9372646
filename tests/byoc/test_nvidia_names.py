"""Headers of NVIDIA's backends that share one file: no name hides another.

What kernels of our own are given is declared outside of the namespace of the headers. A name that
is declared in both would be found in the namespace, without a word of the compiler.
"""

from __future__ import annotations

import re
import subprocess
from importlib.resources import files
from pathlib import Path

import pytest
import tvm_ffi

from opinfo.byoc.backends.nvidia.attention.attention_object import OWN, PLANS, REGION
from opinfo.byoc.backends.nvidia.cudnn.cudnn import HEADERS as CUDNN
from opinfo.byoc.backends.nvidia.libraries.source import library_headers
from opinfo.byoc.backends.nvidia.products.cublaslt import HEADERS as CUBLASLT

from .nvidia.nvidia_library import STUB

HOME = "opinfo.byoc.backends.nvidia"
#: In the order in which a file of cuDNN's regions has them.
ATTENTION = (*PLANS, "halves/attention16.h", "halves/attention16.hpp", *REGION,
             "floats/attention32.h", "floats/attention32.hpp")  # fmt: skip
#: Headers without a namespace.
PLAIN = ("cudnn/kernels/epilogue.h", "cudnn/kernels/grouped.h", "attention/attention_plans.h",
         "attention/halves/attention16.h", "attention/floats/attention32.h")  # fmt: skip


def read(name: str) -> str:
    return (files(HOME) / name).read_text("utf-8")


def kinds() -> dict[str, str]:
    """All headers of each kind of regions."""
    attention = "".join(read(f"attention/{name}") for name in ATTENTION)
    return {"cudnn": library_headers(f"{HOME}.cudnn", *CUDNN) + OWN + attention,
            "cublaslt": library_headers(f"{HOME}.products", *CUBLASLT)}  # fmt: skip


def plain_names() -> list[str]:
    """What is declared outside of the namespace: types, and the names of enumerations."""
    text = re.sub(r"//.*", "", "".join(map(read, PLAIN)))
    values = [name for body in re.findall(r"enum\s*\w*\s*\{([^}]*)\}", text)
              for name in re.findall(r"(\w+)\s*(?:=[^,]*)?(?:,|$)", body.strip())]  # fmt: skip
    return [*re.findall(r"(?:struct|enum) (\w+) \{", text), *values]


def wrong(text: str, folder: Path, names: list[str]) -> str:
    """What the compiler says of headers, and of these names after them; empty if they are right."""
    probe = "".join(f"static_assert(sizeof({name}) > 0);\n" for name in names)
    source = folder / "names.cc"
    source.write_text(text + "\nusing namespace opinfo_nvidia;\n" + probe)
    paths = [f"-I{p}" for p in (STUB, *tvm_ffi.libinfo.include_paths())]
    command = ["g++", "-std=c++17", "-fsyntax-only", "-DOPINFO_DEVICE=kDLCPU", *paths, str(source)]
    return subprocess.run(command, capture_output=True, text=True).stderr


def test_names_outside_of_the_namespace_are_read() -> None:
    names = plain_names()
    assert {"kResult", "kMask", "kRelu", "kFromBottomRight", "kCalled", "Epilogue", "Attention16",
            "Attention32", "OpinfoHeads", "Divisor"} <= set(names)  # fmt: skip
    assert len(names) == len(set(names))


@pytest.mark.parametrize("kind", kinds())
def test_headers_of_a_kind_share_one_file(kind: str, tmp_path: Path) -> None:
    assert wrong(kinds()[kind], tmp_path, plain_names() if kind == "cudnn" else []) == ""


def test_a_name_that_hides_another_is_an_error(tmp_path: Path) -> None:
    text = kinds()["cudnn"] + "namespace opinfo_nvidia { namespace { enum { kResult = 2 }; } }\n"
    assert re.search(r"reference to .kResult. is ambiguous", wrong(text, tmp_path, plain_names()))
