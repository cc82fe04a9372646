"""The before/after page: what is drawn, where, and that it needs nothing else."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from itertools import pairwise
from typing import Any

import pytest
import tvm
from hypothesis import given, settings
from hypothesis import strategies as st
from tvm import relax

from opinfo.layout.model.layout import Layout
from opinfo.layout.report.count import count, located
from opinfo.layout.report.plan_report import (
    Conversion,
    Conversions,
    OpChoice,
    PlanReport,
    ValueChoice,
)
from opinfo.picture import page
from opinfo.picture.dataflow import dataflow, main_of
from opinfo.picture.groups import blocks

NCHW, NHWC = Layout.identity(4), Layout.parse("NHWC")


def module() -> Any:
    """x → exp → transpose → (exp, split) → …, and something of constants beside it."""
    x = relax.Var("x", relax.TensorType((1, 4, 6, 8), "float32"))
    builder = relax.BlockBuilder()
    with builder.function("main", [x]):
        with builder.dataflow():
            a = builder.emit(relax.op.exp(x), "a")
            b = builder.emit(relax.op.permute_dims(a, [0, 2, 3, 1]), "b")
            c = builder.emit(relax.op.split(b, 2, 3), "c")
            weight = builder.emit(relax.op.exp(relax.const(1.0)), "w")
            d = builder.emit(relax.op.multiply(c[1], weight), "d")
            out = builder.emit_output(relax.op.add(d, c[0]), "e")
        builder.emit_func_output(out)
    return relax.transform.LegalizeOps()(builder.get())


REPORT = PlanReport(
    values=(
        ValueChoice("x", (1, 4, 6, 8), "float32", NCHW, "a parameter"),
        ValueChoice("a", (1, 4, 6, 8), "float32", NHWC, "</script> exp writes it so"),
    ),
    conversions=(Conversion("x", NCHW, NHWC, 768, "exp wants NHWC", ("a",)),),
    ops=(OpChoice("a", "exp", "NHWC", "elementwise"),),
    objective=1536,
    bound=1536,
    counting=lambda: Conversions(1, 768),
)


def drawn(report: PlanReport = REPORT, **options: Any) -> tuple[str, dict[str, Any]]:
    mod = module()
    moving = {var: c.bytes for (_, var), c in located(mod).items()}
    given = {"before": count(mod), "after": report.after, "moving": moving, "operators": {}}
    text = page("a <model>", mod, report, **{**given, **options})
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)
    assert found is not None
    return text, json.loads(found[1])


def test_activations_flow_and_constants_do_not() -> None:
    nodes = {n.name: n for n in dataflow(main_of(module()))}
    assert list(nodes) == ["x", "a", "b", "c", "d", "e", "result"]
    assert nodes["d"].reads == ("c.1",) and nodes["e"].reads == ("d", "c.0")
    assert nodes["c"].gives == ("c.0", "c.1") and nodes["result"].reads == ("e",)
    assert nodes["b"].type == "float32[1, 6, 8, 4]" and nodes["x"].op == "input"


def test_weights_after_the_inputs_are_not_nodes() -> None:
    mod = module()
    gvar = mod.get_global_var("main")
    mod.update_func(gvar, mod["main"].with_attr("num_input", 0))
    assert [n.name for n in dataflow(mod["main"])] == ["result"]


def test_a_module_without_relax_functions_is_an_error() -> None:
    with pytest.raises(ValueError, match="no Relax function"):
        main_of(tvm.IRModule({}))


def test_conversions_put_in_taken_away_and_kept() -> None:
    _, data = drawn()
    nodes, names = data["nodes"], [n["name"] for n in data["nodes"]]
    new = next(k for k, n in enumerate(nodes) if n["kind"] == "new")
    x, a, b = (names.index(v) for v in ("x", "a", "b"))
    assert (nodes[new]["name"], nodes[new]["after"], nodes[new]["before"]) == ("x", 768, 0)
    before, after = data["edges"]["before"], data["edges"]["after"]
    assert [x, a] in before and [x, a] not in after
    assert [x, new] in after and [new, a] in after
    assert (nodes[b]["before"], nodes[b]["after"]) == (768, 0)
    assert ["saved", "768 B: it is now a view"] in nodes[b]["facts"]
    kept = PlanReport(conversions=(Conversion("a", NCHW, NCHW, 768, "moves anyway", ("b",)),))
    _, data = drawn(kept)
    assert [n["after"] for n in data["nodes"] if n["name"] == "b"] == [768]
    assert all(n["kind"] != "new" for n in data["nodes"])


def test_every_reason_is_there() -> None:
    text, data = drawn()
    facts = {value for n in data["nodes"] for _, value in n["facts"]}
    assert {"exp wants NHWC", "</script> exp writes it so", "elementwise"} <= facts
    assert "a &lt;model&gt;" in text and "<model>" not in text
    assert data["titles"]["before"] == ["Before: conversions", "1 (768 B)"]


class _Parser(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.open: list[str] = []
        self.outside: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in ("meta", "i", "br", "input", "wbr"):
            self.open.append(tag)
        for key, value in attrs:
            if key == "id":
                self.ids.append(str(value))
            if key in ("src", "href"):
                self.outside.append(str(value))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_page_is_one_file_that_needs_no_network() -> None:
    text, _ = drawn()
    parser = _Parser()
    parser.feed(text)
    assert parser.open == [] and parser.outside == []
    assert {"panes", "detail", "moves", "data", "search"} <= set(parser.ids)
    assert len(set(parser.ids)) == len(parser.ids)
    addresses = set(re.findall(r"https?://[^\"' )]+", text))
    assert addresses == {"http://www.w3.org/2000/svg"}  # a name, not an address that is fetched
    assert "@import" not in text and "fetch(" not in text and not re.search(r"@[A-Z]+@", text)


@settings(deadline=None, max_examples=60)
@given(st.lists(st.sampled_from("abc"), max_size=40))
def test_blocks_are_disjoint_and_repeat(operators: list[str]) -> None:
    found = blocks(operators, [""] * len(operators))
    for b, c in pairwise(found):
        assert b.stop <= c.start
    for b in found:
        (k, number) = map(int, b.label.split(":")[0].split(" of "))
        size, first = b.stop - b.start, b.start - (k - 1) * (b.stop - b.start)
        assert size >= 3 and number > 1
        assert operators[b.start : b.stop] == operators[first : first + size]


def test_blocks_cover_what_repeats_and_have_the_model_s_names() -> None:
    operators = ["stem", *2 * ["conv", "add", "relu"], "pool", *3 * ["mm", "add", "gelu", "mm"]]
    names = [""] * 8 + [f"/encoder/layer.{k}/{n}" for k in range(3) for n in "abcd"]
    found = blocks(operators, names)
    assert [(b.start, b.stop) for b in found] == [(1, 4), (4, 7), (8, 12), (12, 16), (16, 20)]
    assert [b.label for b in found[:2]] == ["1 of 2: conv, add, relu", "2 of 2: conv, add, relu"]
    assert [b.label for b in found[2:]] == [f"encoder.layer.{k}" for k in range(3)]
    assert blocks(operators[:4], [""] * 4) == []
