"""The command line with hostile input: exit status 2 (or 0), one line, never a traceback."""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from opinfo import frontend

from .test_cli import MODEL, NET

NUMBERS = ("0", "-1", "1e400", "nan", "9" * 30, "9" * 5000, "x", "", "٣")
NAMES = ("\n", "a\nb.onnx", "\x1b[31m.py", "ü-模型.json", "a b.pt2", "-", "..", "", "\udcff.py")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with files of all kinds; nothing in it may change."""
    path = tmp_path_factory.mktemp("files")
    (path / "model.py").write_text(MODEL)
    (path / "net.py").write_text(NET)
    (path / "folder.py").mkdir()
    for suffix in ("onnx", "pt2", "json", "py", "so"):
        (path / f"empty.{suffix}").touch()
        (path / f"noise.{suffix}").write_bytes(bytes(range(256)) * 4)
    (path / "list.json").write_text("[]")
    (path / "object.json").write_text('{"nope": 1}')
    (path / "model.txt").write_text(MODEL)
    return path


def _words(text: str, folder: Path) -> list[str]:
    return [w.replace("@", f"{folder}/") for w in text.split(" ")]


#: Of files that no reader takes there are more in the harness of hostile files: each one costs a
#: process.
INPUTS = ("@absent.onnx", "@folder.py", "@model.txt", "@absent/model.py", "/dev/null", "@list.json",
          "@noise.py", "@empty.onnx")  # fmt: skip
#: The same way leads to all readers of models: for other commands than the first, these.
FEW = ("@absent.onnx", "@folder.py", "@model.txt")
#: What goes after the input, for each command that has one.
COMMANDS = {
    "inspect": "inspect {}",
    "plan": "plan {}",
    "dispatch": "dispatch {}",
    "compile": "compile {} -o @out.so",
    "specialize": "specialize {} -o @out.so",
    "tune": "tune {} --database @out",
}
#: Options with values that are wrong, of a command and a model.
OPTIONS = {
    "inspect @model.py": (
        "--nope", "--func", "--func nope", "--shape", "--shape x", "--shape x:0", "--shape :1",
        "--shape x:-1", "--shape x:9999999999999999999999", "--shape nope:1", "--fused --func nope",
        "extra", "--json=1", "--traceback=1",
    ),
    "plan @net.py": (
        "--want", "--want x", "--want conv2d=", "--want =NHWC", "--want conv2d=QQQQ",
        "--want conv2d=NHWC --want conv2d=NCHW", "--want nope=NHWC", "--mode", "--mode nope",
        "--html @absent/page.html", "--html @folder.py", "--html @net.py", "--html /dev/full",
        "--html /proc/nope.html", "--html @" + "n" * 300,
    ),
    "dispatch @net.py": (
        "--backend nope", "--backend ,", "--backend tvm,tvm,nope", "--force x", "--force relu=nope",
        "--force nope=tvm", "--force =", "--want x", "--nope",
    ),
    "compile @net.py": (
        "", "-o", "-o @absent/x.so", "-o @folder.py", "-o @net.py", "-o /proc/x.so",
        "-o @x.so --report @absent/r.html", "-o @x.so --report @folder.py",
        "-o @x.so --report @x.so", "-o @x.so --save-plan @x.so", "-o @x.so --save-plan @absent/p",
        "-o @x.so --plan @absent.json", "-o @x.so --plan @folder.py", "-o @x.so --plan @list.json",
        "-o @x.so --plan @object.json", "-o @x.so --plan @noise.json",
        "-o @object.json --plan @object.json",
        "-o @x.so --tune --plan @object.json", "-o @x.so --force relu=tvm --plan @object.json",
        "-o @x.so --database @d", "-o @x.so --tracker h:1/k", "-o @x.so --servers 1",
        "-o @x.so --extent n=1", "-o @x.so --tune --database @folder.py",
        "-o @x.so --tune --database /proc/x/y", "-o @x.so --tune --tracker nope",
        "-o @x.so --tune --tracker a:b/c", "-o @x.so --tune --extent n",
        "-o @x.so --tune --database @net.py",
        "-o @x.so --target nope", "-o @x.so --target=", "-o @x.so --backend nope",
        *(f"-o @x.so --tune --{option} {n}" for option in ("servers", "threads", "timeout")
          for n in NUMBERS if n),
    ),
    "specialize @net.py": (
        "", "-o @absent/x.so", "-o @folder.py", "-o @net.py", "-o @x.so --strategy nope",
        "-o @x.so --op x", "-o @x.so --op relax.matmul=nope", "-o @x.so --dim n=1",
        "-o @x.so --dim n=5:1", "-o @x.so --dim n=1:x", "-o @x.so --likely n=x", "-o @x.so --max",
        "-o @x.so --range n=1:4", "-o @x.so --strategy aot --range n=x", "-o @x.so --target nope",
        "-o @x.so --strategy aot --dim nope=1:4", "-o @x.so --tuned @absent", "-o @x.so --shape x",
        "-o @x.so --dim n=1:" + "9" * 5000, "-o @x.so --dim n=1:" + "9" * 30,
    ),
    "tune @object.json": (
        "", "--database @model.py", "--database /proc/x", "--database @d --tracker nope",
        *(f"--database @d --{option} {n}" for option in ("trials", "top", "seconds", "threads",
          "timeout") for n in NUMBERS if n),
    ),
    "cache": (
        "", "nope", "ls --folder @model.py", "clear --older-than x", "clear --older-than 5",
        "path nope", "ls --nope",
    ),
}  # fmt: skip


def _cases() -> Iterator[Any]:
    for command, form in COMMANDS.items():
        given_here = (*FEW, "@empty.json", "@noise.py") if command == "tune" else FEW
        for given in INPUTS if command == "inspect" else given_here:
            yield form.format(given)
    for command, options in OPTIONS.items():
        for option in options:
            yield f"{command} {option}".rstrip()
    yield from ("nope", "--nope", "--quiet --nope", "compile --version", "--version extra")


@pytest.fixture(scope="module")
def modules() -> dict[Any, Any]:
    """What was read before."""
    return {}


@pytest.fixture(autouse=True)
def _read_once(monkeypatch: pytest.MonkeyPatch, modules: dict[Any, Any]) -> None:
    """A model that can be read is read once: each time costs a process."""
    load = frontend.load

    def cached(path: Path, shapes: Any) -> Any:
        key = str(path), repr(shapes)
        if key not in modules:
            modules[key] = load(path, shapes)
        return modules[key]

    monkeypatch.setattr(frontend, "load", cached)


def _is_one_error(status: int, out: str, err: str) -> bool:
    good = status == 2 and out == "" and err.startswith("opinfo: ") and err.endswith("\n")
    return good and err.count("\n") == 1 and "Traceback" not in err and len(err) < 2000


def _there(folder: Path) -> list[str]:
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*"))


@pytest.mark.parametrize("line", list(dict.fromkeys(_cases())), ids=lambda s: s[:60])
def test_what_is_wrong_is_one_line(
    line: str, folder: Path, opinfo: Callable[..., tuple[int, str, str]]
) -> None:
    before = _there(folder)
    result = opinfo(*_words(line, folder))
    assert _is_one_error(*result), result
    assert not any(text in result[2] for text in ("KeyError", "has no attribute", "internal error"))
    after = [n for n in _there(folder) if n not in ("d", "out")]  # a database's folder is made
    assert [n for n in before if n not in ("d", "out")] == after


@pytest.mark.parametrize("command", ["inspect", "compile", "tune"])
@pytest.mark.parametrize("name", NAMES, ids=ascii)
def test_any_name_gives_an_error_of_one_line(
    command: str, name: str, tmp_path: Path, opinfo: Callable[..., tuple[int, str, str]]
) -> None:
    words = [w.format(name).replace("@", f"{tmp_path}/") for w in COMMANDS[command].split(" ")]
    result = opinfo(*words)
    assert _is_one_error(*result), result
    assert "\x1b" not in result[2]


@pytest.mark.parametrize("name", ["a\nb.html", "ü 模型.html", "\udcff.html", "-x.html"], ids=ascii)
def test_any_name_can_be_written(
    name: str, folder: Path, tmp_path: Path, opinfo: Callable[..., tuple[int, str, str]]
) -> None:
    page = tmp_path / name
    status, _, err = opinfo("plan", str(folder / "net.py"), "--html", str(page))
    assert (status, err) == (0, "")
    assert [os.fsencode(p.name) for p in tmp_path.iterdir()] == [os.fsencode(name)]
    assert page.stat().st_mode & 0o600 == 0o600 and "<html" in page.read_text()


def test_a_file_that_is_there_is_replaced_at_once(
    folder: Path, tmp_path: Path, opinfo: Callable[..., tuple[int, str, str]]
) -> None:
    """Also through a link, which stays one."""
    page, link = tmp_path / "page.html", tmp_path / "link.html"
    page.write_text("old")
    link.symlink_to(page)
    with page.open() as old:
        assert opinfo("plan", str(folder / "net.py"), "--html", str(link))[0] == 0
        assert old.read() == "old"
    assert link.is_symlink() and "<html" in page.read_text()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["link.html", "page.html"]


def test_outputs_are_checked_before_any_work(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    opinfo: Callable[..., tuple[int, str, str]],
) -> None:  # fmt: skip
    def load(*_: object) -> None:
        raise AssertionError("work was started")

    monkeypatch.setattr(frontend, "load", load)
    model, absent = str(folder / "net.py"), str(tmp_path / "absent" / "file")
    for words in (
        ["plan", model, "--html", absent],
        ["compile", model, "-o", absent],
        ["compile", model, "-o", str(tmp_path / "x.so"), "--report", absent],
        ["compile", model, "-o", str(tmp_path / "x.so"), "--save-plan", absent],
        ["specialize", model, "-o", absent],
    ):
        status, _, err = opinfo(*words)
        assert status == 2 and absent in err and "does not exist" in err, err
    assert opinfo("plan", model)[0] == 1  # the trap works


def test_an_unreadable_file_is_one_line(
    tmp_path: Path, opinfo: Callable[..., tuple[int, str, str]]
) -> None:
    if os.geteuid() == 0:
        pytest.skip("root reads everything")
    (tmp_path / "m.py").touch(0o000)
    result = opinfo("inspect", str(tmp_path / "m.py"))
    assert _is_one_error(*result) and "Permission denied" in result[2], result


def _fail(func: object) -> None:
    none: dict[str, None] = {}
    return none["nope\nnope"]


def test_a_fault_of_ours_is_one_line_with_its_place(
    folder: Path, monkeypatch: pytest.MonkeyPatch, opinfo: Callable[..., tuple[int, str, str]]
) -> None:
    from opinfo.front import inspection

    monkeypatch.setattr(inspection, "buffers", _fail)
    words = ["inspect", str(folder / "model.py")]
    status, out, err = opinfo(*words)
    assert (status, out, err.count("\n")) == (1, "", 1)
    where = "opinfo/front/inspection.py:"
    assert err.startswith(f"opinfo: internal error: KeyError: 'nope\\nnope' ({where}")
    assert "--traceback" in err
    for more in (["--traceback"], []):
        if not more:
            monkeypatch.setenv("OPINFO_TRACEBACK", "1")
        status, out, err = opinfo(*words, *more)
        assert status == 1 and "Traceback (most recent call last)" in err


def test_json_goes_to_standard_output_alone(
    folder: Path, opinfo: Callable[..., tuple[int, str, str]]
) -> None:
    for command, quiet in itertools.product(("inspect", "plan", "dispatch"), ([], ["--quiet"])):
        status, out, err = opinfo(command, str(folder / "net.py"), "--json", *quiet)
        assert (status, err) == (0, "") and json.loads(out)
