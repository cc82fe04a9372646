"""The fastest equivalent form of a region on this machine: measured apart once, then kept.

A convolution with height and width exchanged, a product with rows of weights apart, another
implementation of the same primitive: which is faster depends on shape and CPU. All candidates run
in the program of `implementation_probe`, in turn, and must give the same numbers.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ....analysis.support.files.atomic_replace import replacing
from ....analysis.support.files.user_cache import user_cache
from ...codegen.host_target import INFO, VARIABLE
from ...process import trust
from .implementation_probe import ask, program_key
from .locate import available

#: Seconds of calls to measure for each region, after at least two of each candidate that may win.
SECONDS = 0.02
#: A form is worth choosing if it takes at most this part of the time by default.
WORTH = 0.95
#: What follows an operator changes little: of its forms, those that take more than this much longer
#: than the fastest are not raced again in a region that begins with it.
NEAR = 1.25
#: The largest difference of results, as a part of the largest element; rounding stays far below.
CLOSE = 2e-5
#: Variables that limit the instruction sets of oneDNN.
LIMITS = ("ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA")
#: The forms of `probe_race.hpp`.
FORMS = ("straight", "swapped", "rows", "layer", "unpacked", "turned", "padded", "packed", "moved",
         "winograd2", "winograd4", "separate", "streamed", "tiled")  # fmt: skip
#: A word of an implementation's name. What is read from a file becomes part of C++ code.
WORD = re.compile(r"[\w:+.-]{1,40}", re.ASCII)
#: Limit on the words of an implementation's name.
WORDS = 8
#: Limit on the bytes of a file of forms.
MOST = 16 << 20
FORMAT = 1


class RefusedForms(ValueError):
    """oneDNN has no primitive for a region; the message has its reason."""


@dataclass(frozen=True)
class FormTime:
    """What a candidate took.

    Attributes:
        form: The form, empty for what is chosen without measuring.
        implementation: The implementation of its main primitive, as oneDNN names it.
        steps: The implementations of all its primitives.
        microseconds: The CPU time of its shortest call in one thread.
        difference: Its largest difference from the first candidate's result, as a part of the
            largest element.
    """

    form: str
    implementation: str
    steps: tuple[str, ...]
    microseconds: float
    difference: float

    @property
    def words(self) -> str:
        """What a recipe says to get this form."""
        if not self.form:
            return ""
        count = len(self.implementation.split())
        words = f"form {self.form} implementation {count} {self.implementation}"
        return words if is_form(words) else ""


def is_form(words: str) -> bool:
    """Whether words of a recipe say no more than a known form and an implementation's name.

    A recipe has no end: a further word would be a further operation of the region.
    """
    if not words:
        return True
    match words.split(" "):
        case ["form", form, "implementation", count, *names]:
            counted = 0 < len(names) <= WORDS and count == str(len(names))
            return form in FORMS and counted and all(map(WORD.fullmatch, names))
    return False


def form_times(
    job: str, seconds: float = SECONDS, named: Sequence[str] | None = None
) -> tuple[FormTime, ...]:
    """The candidates of a region, that by default first; empty if they cannot be measured.

    Args:
        job: The region, see `implementation_probe.job_of`.
        seconds: The CPU time to spend on calls of the likely candidates.
        named: The candidates besides that by default, in words; by default all.

    Raises:
        RefusedForms: oneDNN has no primitive for the region, so its code would not load.
    """
    mode = f"race {seconds:g}"
    if named is not None:
        pairs = [words.replace("form ", "").replace(" implementation ", " ") for words in named]
        mode = " ".join([f"compare {seconds:g} {len(pairs)}", *pairs])
    answer = ask(f"{mode} {job}") or {}
    if "error" in answer:
        raise RefusedForms(f"oneDNN refuses the region: {answer['error']}")
    return tuple(FormTime(**{**f, "steps": tuple(f["steps"])}) for f in answer.get("forms", ()))


def fastest(times: Iterable[FormTime]) -> str:
    """The words of the fastest candidate; empty if the first one is as good."""
    first, *others = times
    same = [t for t in others if t.form in ("straight", "packed") and t.steps == first.steps]
    equal = [t for t in others if t.difference <= CLOSE and t not in same]
    best = min([first, *equal], key=lambda t: t.microseconds)
    return best.words if best.microseconds <= WORTH * first.microseconds else ""


def near(times: Sequence[FormTime]) -> tuple[str, ...]:
    """The words of the candidates that may be the fastest with other operators behind them."""
    right = [t for t in times if t.difference <= CLOSE]
    limit = NEAR * min((t.microseconds for t in right), default=0.0)
    return tuple(t.words for t in right if t.words and t.microseconds <= limit)


def chosen_forms(
    jobs: Iterable[str | None], anchors: Iterable[str | None] | None = None
) -> list[str]:
    """The words of each region's form, from the cache or measured now.

    They are empty for regions that cannot be measured, and on machines that code is not built for.

    Args:
        jobs: The regions.
        anchors: For each the region of its first operator alone; by default the region itself.

    Raises:
        RefusedForms: oneDNN has no primitive for a region.
    """
    jobs = list(jobs)
    anchors = jobs if anchors is None else list(anchors)
    if available() or (os.environ.get(VARIABLE) and not any(map(os.environ.get, LIMITS))):
        return [""] * len(jobs)
    known, new, refused = dict(_load()), dict[str, str](), list[RefusedForms]()
    pairs = {(j, a or j) for j, a in zip(jobs, anchors, strict=True) if j is not None}
    for job, anchor in sorted(p for p in pairs if _digest(p[0]) not in known):
        try:
            times = form_times(job, named=_near.get(anchor))
        except RefusedForms as error:
            refused.append(error)
            continue
        if times:
            new[_digest(job)] = fastest(times)
            _near.setdefault(anchor, near(times))
    if new:
        known |= new
        _save(new)
    if refused:
        raise refused[0]
    return [known.get(_digest(j), "") if j is not None else "" for j in jobs]


#: The forms of operators that this process has raced, by the region of the operator alone.
_near: dict[str, tuple[str, ...]] = {}


def _digest(job: str) -> str:
    return hashlib.sha256(job.encode()).hexdigest()[:24]


def _file() -> Path:
    return user_cache("onednn") / f"forms-{_machine()}.json"


@functools.cache
def _machine() -> str:
    """A digest of the CPU, of what limits it, and of the program that measures."""
    try:
        lines = INFO.read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    named = sorted({n for n in lines if n.startswith(("model name", "flags"))})
    limits = [os.environ.get(name, "") for name in LIMITS]
    text = "\0".join([*named, *limits, program_key()])
    return hashlib.sha256(text.encode()).hexdigest()[:24]


def _load() -> Mapping[str, str]:
    """What is kept; nothing if other users could have written it, or it is malformed."""
    with contextlib.suppress(OSError, ValueError, RuntimeError):
        with trust.folder(_file().parent) as within:
            return _checked(json.loads(trust.read(_file().name, within, MOST)))
    return {}


def _checked(kept: Any) -> dict[str, str]:
    if not isinstance(kept, dict) or kept.get("format") != FORMAT:
        return {}
    forms = kept.get("forms")
    if not isinstance(forms, dict):
        return {}
    return {k: w for k, w in forms.items() if isinstance(w, str) and is_form(w)}


def _save(new: Mapping[str, str]) -> None:
    """Add to what is kept, if this user can."""
    # RuntimeError: the user has no home folder.
    with contextlib.suppress(OSError, RuntimeError), trust.folder(_file().parent, create=True):
        whole = {"format": FORMAT, "forms": {**_load(), **new}}
        with replacing(_file()) as part:
            part.write_text(json.dumps(whole, indent=1, sort_keys=True), encoding="utf-8")
