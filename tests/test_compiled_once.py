"""Libraries of tests are compiled again if what they are made of changes, and not otherwise."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

import pytest

from .common import compiled_once as place

TEXT = '#include <value.h>\nextern "C" int value();\nint twice() { return VALUE + value(); }\n'


@pytest.fixture(autouse=True)
def libraries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "libraries").mkdir()
    monkeypatch.setenv(place.VARIABLE, str(tmp_path / "libraries"))


def checkout(folder: Path, value: int) -> tuple[str, ...]:
    """Options that name a folder of headers and a source in it."""
    folder.mkdir(exist_ok=True)
    (folder / "value.h").write_text(f"#define VALUE {value}\n")
    (folder / "value.cc").write_text('#include "value.h"\nextern "C" int value() { return VALUE; }')
    return f"-I{folder}", str(folder / "value.cc")


def compiled(*words: str, text: str = TEXT) -> Path:
    place._digest.cache_clear()
    place._content.cache_clear()
    return place.compiled_once.__wrapped__(*words, text=text)  # as in another process


def test_a_library_of_a_library_stays_when_that_is_used_again(tmp_path: Path) -> None:
    def both(time: int) -> tuple[Path, Path]:
        _, source = checkout(tmp_path / "a", 1)
        inner = compiled(source, text="")
        os.utime(inner, (time, time))  # `compiled_once` changes the time at its use
        text = 'extern "C" int value();\nextern "C" int one() { return value(); }\n'
        return inner, compiled(str(inner), text=text)

    assert both(1) == both(2)
    assert ctypes.CDLL(str(both(3)[1])).one() == 1


def test_another_checkout_has_the_same_libraries(tmp_path: Path) -> None:
    first = compiled(*checkout(tmp_path / "b", 1))
    assert compiled(*checkout(tmp_path / "a", 1)) == first
    assert compiled(*checkout(tmp_path / "a", 2)) != first


def test_the_order_of_folders_of_headers_counts(tmp_path: Path) -> None:
    (one, source), (two, _) = (checkout(tmp_path / name, k) for k, name in enumerate("ab"))
    assert compiled(one, two, source) != compiled(two, one, source)
