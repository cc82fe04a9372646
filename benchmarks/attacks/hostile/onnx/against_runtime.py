"""Change one thing in each of ONNX's operator tests; compare with ONNX Runtime.

`python -m benchmarks.hostile --against-runtime 10 [--seed 0] [--only Conv]` prints models that ONNX
Runtime refuses, or cannot run, and that opinfo imports; and errors that have more than a line, or
that name neither a node nor a tensor. ONNX Runtime refuses some legal models too, so each line is
for a person to judge. A crash of either one ends the command: the last line on standard error is
the model.
"""

from __future__ import annotations

import contextlib
import io
import random
import re
import sys
from collections import Counter
from collections.abc import Iterator
from typing import Any

from opinfo.frontend.checks.error import FrontendError
from opinfo.frontend.formats.from_onnx import from_model

from .one_change import Feeds, changes, with_weights

#: Variants of an operator, which differ by their attributes.
VARIANTS = 2
#: Operators whose tests need strings, random numbers, files, or minutes.
LEFT_OUT = {"Constant", "ImageDecoder", "StringSplit", "StringNormalizer", "StringConcat", "Loop",
            "RegexFullMatch", "TfIdfVectorizer", "LabelEncoder", "FlexAttention", "SequenceMap",
            "Optional", "OptionalHasElement", "OptionalGetElement", "Bernoulli", "Scan",
            "RandomUniformLike", "BitCast"}  # fmt: skip
PLACES = re.compile(r"node '|the node of '|the tensor '|the weight '|input '|output '|operator set")


def compare(each: int, seed: int, only: str = "") -> None:
    """Compare `each` changes of each operator test, and print; `only` is an operator."""
    counts: Counter[str] = Counter()
    for model, inputs in tests(only):
        base, feeds = with_weights(model, inputs)
        if _runtime(base, feeds) or _import(base):
            continue
        op, changed = base.graph.node[0].op_type, list(changes(base, feeds))
        rng = random.Random(f"{seed} {op}")
        for what, other, own in rng.sample(changed, min(each, len(changed))):
            print(f"{op}: {what}", file=sys.stderr, flush=True)
            verdict, text = judged(other, own)
            counts[verdict] += 1
            if text:
                print(f"{verdict:14} {op:20} {what[:50]:50} {text[:300]}", flush=True)
    print(", ".join(f"{count} {verdict}" for verdict, count in sorted(counts.items())))


def tests(only: str) -> Iterator[tuple[Any, Any]]:
    """Yield the models of one node of ONNX's tests, and their inputs."""
    from onnx.backend.test.case.node import collect_testcases

    with contextlib.redirect_stdout(io.StringIO()):
        cases = collect_testcases(only or None)
    seen: Counter[Any] = Counter()
    for case in cases:
        if case.model is None or len(case.model.graph.node) != 1:
            continue
        node = case.model.graph.node[0]
        key = node.op_type, tuple(sorted(a.name for a in node.attribute))
        domains = node.domain in ("", "ai.onnx.ml")
        if not domains or node.op_type in LEFT_OUT or seen[key] or seen[node.op_type] >= VARIANTS:
            continue
        seen[key] += 1
        seen[node.op_type] += 1
        yield case.model, case.data_sets[0][0]


def judged(model: Any, feeds: Feeds) -> tuple[str, str]:
    """Return the verdict on a model, and a text if a person should look at it."""
    ours = _import(model)
    if ours:  # ONNX Runtime may crash
        has_place = "\n" not in ours and PLACES.search(ours)
        return ("refused", "") if has_place else ("without place", repr(ours))
    theirs = _runtime(model, feeds)
    return ("imported", " ".join(theirs.split())) if theirs else ("both take", "")


def _runtime(model: Any, feeds: Feeds) -> str:
    """Return why ONNX Runtime cannot run a model; empty if it can."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 4
    try:
        session = onnxruntime.InferenceSession(model.SerializeToString(), options,
                                               providers=["CPUExecutionProvider"])  # fmt: skip
        session.run(None, {entry.name: feeds[entry.name] for entry in session.get_inputs()})
    except Exception as error:  # it raises various types
        return str(error) or type(error).__name__
    return ""


def _import(model: Any) -> str:
    """Return why opinfo does not import a model; empty if it does."""
    try:
        from_model(model, {})
    except FrontendError as error:
        return str(error)
    return ""
