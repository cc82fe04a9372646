"""Pages in a real browser: what is drawn, and what a reader can do with it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tvm import relax

from opinfo.byoc import dispatch
from opinfo.byoc.matching.diagnose import FallbackOp
from opinfo.byoc.measure import Measured, Timing
from opinfo.layout.model.layout import Layout
from opinfo.layout.report.plan_report import Conversion, Conversions, PlanReport, ValueChoice
from opinfo.picture import page
from opinfo.picture.compiled import compiled_page
from opinfo.verify.verification import Verified

from ..byoc.backends.toy import TOY
from ..common.browser import browser, opened
from ..layout import nets

NCHW, NHWC, BLOCKED = Layout.identity(4), Layout.parse("NHWC"), Layout.parse("NCHW8c")
SHAPE = (1, 8, 6, 6)
BLOCK = ("exp", "tanh", "sigmoid", "abs", "add", "nn.relu", "negative", "add")
CHECKS = (Path(__file__).parent / "page_checks.js").read_text(encoding="utf-8")
PATH = "model.backbone.stage4.block2.depthwise_convolution.batch_normalisation.Conv_2317"


def module(count: int) -> Any:
    """Blocks that repeat, of which every fifth differs; a mask that all blocks read."""
    x, mask = (relax.Var(name, relax.TensorType(SHAPE, "float32")) for name in ("x", "mask"))
    builder = relax.BlockBuilder()
    with builder.function("main", [x, mask]):
        with builder.dataflow():
            here, start = x, x
            for k in range(count - 3):
                op = BLOCK[k % len(BLOCK)]
                if k // len(BLOCK) % 5 == 4 and op == "tanh":
                    op = "sin"
                call = relax.op.nn.relu if op == "nn.relu" else getattr(relax.op, op)
                second = mask if k % len(BLOCK) == 4 else start
                here = builder.emit(call(here, second) if op == "add" else call(here))
                start = here if k % len(BLOCK) == len(BLOCK) - 1 else start
            out = builder.emit_output(here)
        builder.emit_func_output(out)
    return builder.get()


def plan_page(count: int) -> str:
    mod = module(count)
    names = [b.var.name for b in mod["main"].body.blocks[0].bindings]
    layouts = [(NCHW, NHWC, BLOCKED)[k // 3 % 3] for k in range(len(names))]
    values = [ValueChoice(n, SHAPE, "float32", x, f"{n}: in the order of its accesses")
              for n, x in zip(names, layouts, strict=True)]  # fmt: skip
    pairs = zip(names, names[1:], layouts, layouts[1:], strict=False)
    found = [Conversion(a, x, y, 1152 * (k + 1), f"{b} wants {y.spell()}", (b,))
             for k, (a, b, x, y) in enumerate(pairs) if x != y]  # fmt: skip
    report = PlanReport(tuple(values), tuple(found[:9]), status="optimal", objective=9e6, bound=9e6)
    moving = {names[2]: 1152}
    return page(PATH, mod, report, Conversions(1, 1152), report.after, moving, {})


def compile_page() -> str:
    """Everything that a compiled model may have, with long names and hundreds of rows."""

    def net(emit: Any, rng: Any, x: Any, row: Any) -> Any:
        for _ in range(6):
            x = emit(relax.op.tanh(emit(relax.op.nn.relu(emit(relax.op.add(x, x))))))
        return emit(relax.op.add(x, row))

    done = dispatch(nets.net(net, (4, 8), (8,)), [TOY])
    taken = [replace(t, microseconds=12.5 * (k + 1), nodes=(f"{PATH}.{k}", f"{PATH}_relu"))
             for k, t in enumerate(done.taken)]  # fmt: skip
    rest = [FallbackOp(f"lv{k}", "relax.image.resize2d",
                       f"no pattern of backend{k} has relax.resize2d",
                       "want conv2d=NHWC,OHWI", f"{PATH}.{k}") for k in range(60)]  # fmt: skip
    value = ValueChoice("lv2_with_a_name", (1, 256, 160, 160), "float32", NHWC, "relu wants NHWC")
    report = PlanReport((value,), (Conversion("x", NCHW, NHWC, 768, "toy wants NHWC", ("lv",)),))
    timings = [Timing("toy", ("relax.add", "relax.nn.relu"), ("float32[4, 8]",) * 3,
                      Measured(12.5), False)] * 40  # fmt: skip
    done = replace(done, taken=tuple(taken), left=(*done.left, *rest), report=report,
                   timings=tuple(timings))  # fmt: skip
    return compiled_page(PATH, done, Verified(2e-7, 1.0, 27.2, 9))


@pytest.fixture(scope="module")
def driver() -> Iterator[Any]:
    with browser() as found:
        yield found


def shown(driver: Any, path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")
    opened(driver, path)


def check(driver: Any, name: str) -> Any:
    """The result of one of the functions in ``page_checks.js``."""
    return driver.execute_script(f"{CHECKS}return {name}()")


def silent(driver: Any) -> list[Any]:
    return [entry for entry in driver.get_log("browser") if entry["level"] != "INFO"]


def boxes(driver: Any) -> int:
    count = driver.execute_script(
        "return document.querySelectorAll('#panes section:last-child .node').length"
    )
    return int(count)


@pytest.mark.parametrize("count", [10, 100, 800])
def test_a_plan_is_drawn_without_crossings(driver: Any, tmp_path: Path, count: int) -> None:
    shown(driver, tmp_path / "plan.html", plan_page(count))
    assert silent(driver) == []
    assert check(driver, "wide") == []
    assert check(driver, "crossings") == []
    if count > 60:  # folded at first
        before = boxes(driver)
        assert before < count / 2
        driver.find_element("id", "expand").click()
        assert boxes(driver) >= count
        assert check(driver, "crossings") == [] and silent(driver) == []
        driver.find_element("id", "collapse").click()
        assert boxes(driver) == before
    for element in driver.find_elements("css selector", ".moves button")[:2]:
        element.click()
        assert check(driver, "broken") == []


def test_the_check_of_crossings_sees_one(driver: Any, tmp_path: Path) -> None:
    """A straight line through a box that it does not end at."""
    shown(driver, tmp_path / "plan.html", plan_page(10))
    driver.execute_script(
        "const path = document.querySelector('path.edge');"
        "const box = [...document.querySelectorAll('.node')][3];"
        "const [x, y] = box.getAttribute('transform').match(/-?[\\d.]+/g).map(Number);"
        "path.setAttribute('d', `M${x + 20} ${y - 9}V${y + 90}`);"
    )
    assert check(driver, "crossings") != []


def test_search_finds_dims_and_opens_a_block(driver: Any, tmp_path: Path) -> None:
    from selenium.webdriver.common.keys import Keys

    shown(driver, tmp_path / "plan.html", plan_page(100))
    active = driver.switch_to.active_element
    active.send_keys("/")
    field = driver.switch_to.active_element
    assert field.get_attribute("id") == "search"
    field.send_keys("relax.sin")
    hits = driver.find_element("id", "hits")
    bindings = module(100)["main"].body.blocks[0].bindings
    want = sum("relax.sin" in str(getattr(b.value, "op", "")) for b in bindings)
    shown_nodes = driver.execute_script("return nodes.length")
    assert hits.text == f"{want} of {shown_nodes}" and want > 0
    bright = "#pane-after .node:not(.dim)"
    assert 0 < len(driver.find_elements("css selector", bright)) <= want
    field.send_keys(Keys.ENTER)
    assert hits.text == f"1 of {want}"
    assert driver.find_element("css selector", "#detail h2").text == "sin"
    field.send_keys(Keys.ESCAPE)
    assert driver.find_elements("css selector", ".dim") == []


def test_arrows_follow_edges_and_enter_opens_a_block(driver: Any, tmp_path: Path) -> None:
    from selenium.webdriver.common.keys import Keys

    shown(driver, tmp_path / "plan.html", plan_page(100))
    block = driver.find_element("css selector", "#pane-after .node.block")
    driver.execute_script("arguments[0].focus()", block)
    before = boxes(driver)
    block.send_keys(Keys.ENTER)  # chooses
    driver.switch_to.active_element.send_keys(Keys.ENTER)  # opens
    assert boxes(driver) > before
    top = driver.execute_script("return places.y[chosen]")
    driver.switch_to.active_element.send_keys(Keys.ARROW_DOWN)
    assert driver.execute_script("return places.y[chosen]") > top
    driver.find_element("id", "toggle").click()
    assert boxes(driver) == before


def test_a_compiled_model_fits_and_no_word_is_broken(driver: Any, tmp_path: Path) -> None:
    shown(driver, tmp_path / "compiled.html", compile_page())
    driver.execute_script("document.querySelectorAll('details').forEach(d => { d.open = true })")
    assert silent(driver) == [] and check(driver, "wide") == []
    assert check(driver, "broken") == [] and check(driver, "crossings") == []
    cards = driver.find_element("class name", "cards").text
    assert "27x faster" in cards and "us" in cards
    driver.execute_script("reveal(nodes.findIndex(n => n.key === 'toy'))")
    detail = driver.find_element("id", "detail").text
    assert "12.5 us" in detail and "Conv_2317" in detail
    rows = "#tables tbody tr:not([hidden])"
    all_rows = len(driver.find_elements("css selector", rows))
    driver.find_element("id", "search").send_keys("backend59")
    assert 0 < len(driver.find_elements("css selector", rows)) < all_rows


@pytest.mark.part
@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("make", [lambda: plan_page(10), compile_page], ids=["plan", "compiled"])
def test_text_can_be_read(driver: Any, tmp_path: Path, make: Any, theme: str) -> None:
    shown(driver, tmp_path / "page.html", make())
    driver.execute_script("choose(1)")
    while driver.execute_script("return document.documentElement.dataset.theme") != theme:
        driver.find_element("id", "theme").click()
    ratio, text = check(driver, "contrast")
    assert ratio >= 4.5, text
