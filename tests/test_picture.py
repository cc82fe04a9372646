"""The before/after page: what is drawn, where, and that it needs nothing else."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
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
from opinfo.picture.layered import places

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


def test_weights_after_the_inputs_are_no_nodes() -> None:
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
    assert [x, a] in data["before"] and [x, a] not in data["after"]
    assert [x, new] in data["after"] and [new, a] in data["after"]
    assert (nodes[b]["before"], nodes[b]["after"]) == (768, 0)
    assert ["saved", "it moved 768 B; now it is the same memory"] in nodes[b]["why"]
    kept = PlanReport(conversions=(Conversion("a", NCHW, NCHW, 768, "moves anyway", ("b",)),))
    _, data = drawn(kept)
    assert [n["after"] for n in data["nodes"] if n["name"] == "b"] == [768]
    assert all(n["kind"] != "new" for n in data["nodes"])


def test_every_reason_is_there() -> None:
    text, data = drawn()
    told = {w[1] for n in data["nodes"] for w in n["why"]}
    assert {"exp wants NHWC", "</script> exp writes it so", "elementwise"} <= told
    assert "a &lt;model&gt;" in text and "<model>" not in text
    assert "conversions: <b>1 of 768 B</b>" in text


class _Parser(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.open: list[str] = []
        self.outside: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in ("meta", "i", "br"):
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
    assert {"before", "after", "why", "moves", "data"} <= set(parser.ids)
    assert len(set(parser.ids)) == len(parser.ids)
    addresses = set(re.findall(r"https?://[^\"' )]+", text))
    assert addresses == {"http://www.w3.org/2000/svg"}  # a name, not an address that is fetched
    assert "@import" not in text and "fetch(" not in text and not re.search(r"@[A-Z]+@", text)


@settings(deadline=None, max_examples=60)
@given(st.integers(1, 30), st.data())
def test_places_are_below_what_they_read_and_apart(count: int, data: Any) -> None:
    edges = data.draw(
        st.lists(
            st.tuples(st.integers(0, count - 1), st.integers(0, count - 1)).filter(
                lambda e: e[0] < e[1]
            ),
            max_size=60,
        )
        if count > 1
        else st.just([])
    )
    found = places(count, edges)
    assert len(found) == count and min(p.x for p in found) == 0
    for a, b in edges:
        assert found[a].layer < found[b].layer
    for k, p in enumerate(found):
        for q in found[k + 1 :]:
            assert p.layer != q.layer or abs(p.x - q.x) > 1 - 1e-6


def test_a_chain_is_straight_and_branches_are_beside_each_other() -> None:
    chain = places(4, [(0, 1), (1, 2), (2, 3)])
    assert {p.x for p in chain} == {0.0}
    diamond = places(4, [(0, 1), (0, 2), (1, 3), (2, 3)])
    assert [p.layer for p in diamond] == [0, 1, 1, 2]
    assert diamond[0].x == pytest.approx((diamond[1].x + diamond[2].x) / 2)
    with pytest.raises(ValueError, match="got 1 to 1"):
        places(2, [(1, 1)])
