"""What a command shows while it works: on a terminal, on standard error, and nowhere else."""

from __future__ import annotations

import io
import re
import threading
from typing import Any

import pytest
from rich.console import Console
from tvm import relax

from opinfo.analysis.support.progress import listening, stage
from opinfo.byoc import dispatch
from opinfo.byoc.prepare.prepare import prepare
from opinfo.cli.run.command_group import Commands, everywhere, silent
from opinfo.cli.run.progress_bar import counting, showing

from ..byoc.backends.toy import TOY
from ..layout import nets


def _shown(terminal: bool) -> str:
    file = io.StringIO()
    console = Console(file=file, force_terminal=terminal, width=80)
    with showing(console):
        stage("reading [model].py")
        console.print("a message")
        counting("analysing")(2, 5, "conv2d")
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", file.getvalue())


def test_stages_are_shown_on_a_terminal() -> None:
    text = _shown(terminal=True)
    assert "analysing conv2d 3 of 5" in text and "a message" in text


def test_nothing_is_shown_elsewhere_or_where_that_is_asked() -> None:
    assert _shown(terminal=False) == "a message\n"
    token = silent.set(True)
    try:
        assert _shown(terminal=True) == "a message\n"
    finally:
        silent.reset(token)


def test_one_quiet_command_does_not_silence_the_next() -> None:
    with pytest.raises(SystemExit):
        Commands(name="opinfo").main(["--quiet", "--help"])
    assert silent.get() is False


def test_options_of_all_commands_may_stand_anywhere() -> None:
    assert everywhere(["a", "--quiet", "b", "--", "--quiet"]) == (["a", "b", "--", "--quiet"],
                                                                 ["--quiet"])  # fmt: skip


def _net(emit: Any, rng: Any, x: Any) -> Any:
    return emit(relax.op.nn.relu(emit(relax.op.add(x, x))))


def test_the_library_says_its_stages_in_order_and_needs_no_listener() -> None:
    mod = nets.net(_net, (4, 8), legal=False)
    heard: list[tuple[str, int, int]] = []
    with listening(lambda *stage: heard.append(stage)):
        dispatch(prepare(mod, [TOY]), [TOY], layouts="best")
    names = list(dict.fromkeys(name for name, _, _ in heard))
    wanted = ["legalising", "recognising operators", "planning layouts", "choosing backends",
              "generating code of backend"]  # fmt: skip
    assert [n for n in names if n in wanted] == wanted
    assert all(0 <= done < total or done == total == 0 for _, done, total in heard)
    before = len(heard)
    dispatch(prepare(mod, [TOY]), [TOY])
    assert len(heard) == before


def test_another_thread_is_not_listened_to() -> None:
    heard: list[str] = []
    with listening(lambda name, *_: heard.append(name)):
        thread = threading.Thread(target=stage, args=("elsewhere",))
        thread.start()
        thread.join()
        stage("here")
    assert heard == ["here"]


def test_a_listener_that_fails_is_seen() -> None:
    def failing(*_: object) -> None:
        raise ValueError("of the listener")

    with pytest.raises(ValueError, match="of the listener"), listening(failing):
        stage("x")
