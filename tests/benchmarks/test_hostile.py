"""The harness of hostile files detects side effects, and tells refusals from answers."""

from __future__ import annotations

import sys
from pathlib import Path

from benchmarks.attacks.hostile.__main__ import ANSWERED, REFUSED, Inspector, judged
from benchmarks.attacks.hostile.formats.case import Case, command
from benchmarks.attacks.hostile.formats.scripts import HEAD, PLACES, VALID


def test_each_attack_gets_its_verdict(tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    ran.mkdir()
    (tmp_path / "files").mkdir()
    payload = command(ran / "mark")
    attack = HEAD + PLACES["dimension of R.Tensor"].format(e=payload, s=repr(payload))
    machine = b'{"root_index":0,"nodes":[{"type":"ffi.Module","data":"f0VMRg=="}]}'
    cases = [
        (Case("valid", ".py", (HEAD + VALID[0]).encode()), ANSWERED),
        (Case("a dimension", ".py", attack.encode()), REFUSED),
        (Case("machine code", ".json", machine), REFUSED),
        (Case("no library", ".so", b"\x7fELF"), REFUSED),
    ]
    worker = (sys.executable, "-m", "benchmarks.hostile.worker", str(tmp_path))
    inspector = Inspector(command=worker)
    try:
        for place, (case, expected) in enumerate(cases):
            verdict, why = judged(inspector, case, place, tmp_path, ran)
            assert verdict == expected, (case.name, why)
    finally:
        inspector.close()


def test_the_canary_sees_what_the_limits_stop(tmp_path: Path) -> None:
    """With a guard that lets all through, only the limits keep the payload from writing."""
    (ran := tmp_path / "ran").mkdir()
    (tmp_path / "files").mkdir()
    payload = command(ran / "mark")
    attack = HEAD + PLACES["relax argument"].format(e=payload, s=repr(payload))
    worker = (sys.executable, "-m", "benchmarks.hostile.worker", str(tmp_path), "--unguarded")
    inspector = Inspector(command=worker)
    try:
        verdicts = [judged(inspector, Case("a", ".py", text.encode()), k, tmp_path, ran)[0]
                    for k, text in enumerate((HEAD + VALID[0], attack))]  # fmt: skip
    finally:
        inspector.close()
    assert verdicts == [ANSWERED, "executed"]
