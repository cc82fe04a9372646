"""Near misses: the reason is the true one, and with it mended the pattern matches."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest
import tvm
from tvm import relax

from opinfo import byoc
from opinfo.byoc import Pattern, dispatch, one
from opinfo.layout.plan import plan_layout

from ...layout import nets
from ...layout.nets import const
from ..backends.npu import CONV, NPU, attribute, float32

nn, op = relax.op.nn, relax.op
N = tvm.tirx.Var("n", "int64")
IMAGE = (1, 4, 6, 6)
Shape = tuple[Any, ...]
Build = Callable[..., Any]


@dataclass(frozen=True)
class Near:
    """What misses, why the operator of a name is left, and the same mended: all is taken.

    ``whys``: by the operator's name, without ``relax.``.
    """

    build: Build
    whys: dict[str, str]
    mended: Build
    shapes: tuple[Shape, ...] = (IMAGE,)
    mended_shapes: tuple[Shape, ...] = ()


def conv(*after: Callable[[Any, Any], Any], dtype: str = "float32", kernel: Shape = (8, 4, 3, 3),
         **attrs: Any) -> Build:  # fmt: skip
    """A convolution, and functions of its result and a generator of random numbers."""

    def build(emit: Any, rng: Any, x: Any) -> Any:
        w = const(rng, *kernel)
        if dtype != "float32":
            x, w = emit(op.astype(x, dtype)), relax.const(w.value.numpy().astype(dtype))
        y = emit(nn.conv2d(x, w, padding=1, **attrs))
        for f in after or (lambda y, r: nn.relu(y),):
            y = emit(f(y, rng))
        return y

    return build


def tail(f: Callable[[Any, Any], Any]) -> Build:
    """A function of the emitter and a convolution's result."""
    return lambda emit, rng, x: f(emit, emit(nn.conv2d(x, const(rng, 4, 4, 3, 3), padding=1)))


def call(f: Callable[..., Any]) -> Build:
    return lambda emit, rng, *xs: emit(f(*xs))


def relu(y: Any, rng: Any) -> Any:
    return nn.relu(y)


def bias(*shape: int) -> Callable[[Any, Any], Any]:
    return lambda y, rng: op.add(y, const(rng, *shape))


def cast(dtype: str) -> Callable[[Any, Any], Any]:
    return lambda y, rng: op.astype(y, dtype)


def own_shift(emit: Any, y: Any) -> Any:
    """A bias that depends on what it is added to: no region holds one without the other."""
    return emit(nn.relu(emit(op.add(y, emit(op.mean(y, [2, 3], keepdims=True))))))


def shared(emit: Any, y: Any) -> Any:
    return emit(op.sqrt(emit(op.maximum(emit(nn.relu(y)), y))))


def returned(emit: Any, y: Any) -> Any:
    return emit(relax.Tuple([y, emit(nn.relu(y))]))


def layer_norm(*axes: int) -> Build:
    extents = [IMAGE[a] for a in axes]
    return lambda emit, rng, x: emit(
        nn.layer_norm(x, const(rng, *extents), const(rng, *extents), axes=list(axes))
    )


def weights(emit: Any, rng: Any, x: Any, w: Any) -> Any:
    return emit(nn.relu(emit(nn.conv2d(x, w, padding=1))))


NEEDS = "npu, pattern conv_relu: relax.add or relax.nn.relu must follow relax.nn.conv2d, and "
BEGIN = "npu, pattern conv_relu: "
plain = conv()
NEAR = {
    "dtype": Near(conv(dtype="float16"),
                  {"nn.conv2d": BEGIN + "the dtype is float16, expected float32"}, plain),
    "data_layout": Near(conv(data_layout="NHWC", kernel_layout="OIHW"),
                        {"nn.conv2d": BEGIN + "data_layout is NHWC, expected NCHW"},
                        plain, ((1, 6, 6, 4),), (IMAGE,)),
    "kernel_layout": Near(conv(kernel=(3, 3, 4, 8), kernel_layout="HWIO"),
                          {"nn.conv2d": BEGIN + "kernel_layout is HWIO, expected OIHW"}, plain),
    "groups": Near(conv(kernel=(8, 2, 3, 3), groups=2),
                   {"nn.conv2d": BEGIN + "groups is 2, expected 1"}, plain),
    "dilation": Near(conv(dilation=2),
                     {"nn.conv2d": BEGIN + "dilation is [2, 2], expected [1, 1]"}, plain),
    "symbolic": Near(plain, {"nn.conv2d": BEGIN + "the shape (n, 8, 6, 6) is symbolic, expected "
                             "a static shape"}, plain, ((N, 4, 6, 6),), (IMAGE,)),
    "kernel": Near(weights, {"nn.conv2d": BEGIN + "the kernel is not constant"},
                   lambda emit, rng, x: weights(emit, rng, x, const(rng, 8, 4, 3, 3)),
                   (IMAGE, (8, 4, 3, 3)), (IMAGE,)),
    "nothing after": Near(conv(lambda y, r: y),
                          {"nn.conv2d": NEEDS + "its result is also the function's result"},
                          plain),
    "another activation": Near(
        conv(lambda y, r: nn.gelu(y)),
        {"nn.conv2d": NEEDS + "relax.nn.gelu is not relax.nn.relu",
         "nn.gelu": "no pattern of npu has relax.nn.gelu"}, plain),
    "cast in between": Near(
        conv(cast("float16"), relu),
        {"nn.conv2d": NEEDS + "relax.astype is not relax.nn.relu",
         "astype": "no pattern of npu has relax.astype",
         "nn.relu": BEGIN + "relax.astype stands between relax.nn.conv2d and relax.nn.relu"},
        plain),
    "bias": Near(conv(bias(8, 6, 6), relu),
                 {"nn.conv2d": NEEDS + "the bias is (8, 6, 6), expected (1, 8, 1, 1)",
                  "add": BEGIN + "after relax.nn.conv2d, the bias is (8, 6, 6), expected "
                  "(1, 8, 1, 1)"}, conv(bias(1, 8, 1, 1), relu)),
    "another op in between": Near(
        conv(bias(1, 8, 1, 1), lambda y, r: op.sqrt(y), relu),
        {"nn.conv2d": BEGIN + "relax.nn.relu must follow relax.add, and relax.sqrt is not "
         "relax.nn.relu",
         "add": BEGIN + "relax.nn.relu must follow relax.add, and relax.sqrt is not relax.nn.relu",
         "nn.relu": BEGIN + "relax.sqrt stands between relax.add and relax.nn.relu"},
        conv(bias(1, 8, 1, 1), relu)),
    "fan-out": Near(tail(shared),
                    {"nn.conv2d": NEEDS + "its result is read by 2 operators, expected one",
                     "nn.relu": BEGIN + "relax.nn.relu may follow relax.nn.conv2d, but its result "
                     "is read by 2 operators, expected one"}, plain),
    "not convex": Near(tail(own_shift),
                       {"nn.conv2d": NEEDS + "its result is read by 2 operators, expected one",
                        "add": BEGIN + "relax.add may follow relax.nn.conv2d, but its result is "
                        "read by 2 operators, expected one"}, conv(bias(1, 8, 1, 1), relu)),
    "returned": Near(tail(returned),
                     {"nn.relu": BEGIN + "relax.nn.relu may follow relax.nn.conv2d, but its result "
                      "is also used by the tuple lv2"}, plain),
    "ceil_mode": Near(call(lambda x: nn.max_pool2d(x, (3, 3), (2, 2), ceil_mode=True)),
                      {"nn.max_pool2d": "npu, pattern pool: ceil_mode is True, expected "
                       "False or 0"},
                      call(lambda x: nn.max_pool2d(x, (3, 3), (2, 2))), ((1, 4, 6, 6),)),
    "output_size": Near(
        call(lambda x: nn.adaptive_avg_pool2d(x, (4, 4))),
        {"nn.adaptive_avg_pool2d": "npu, pattern global_pool: output_size is [4, 4], expected "
         "[1, 1]"}, conv()),
    "axes": Near(layer_norm(2, 3),
                 {"nn.layer_norm": "npu, pattern layer_norm: axes is [2, 3], expected the "
                  "last axis"},
                 layer_norm(3)),
    "rank": Near(call(op.matmul),
                 {"matmul": "npu, pattern matmul: the operands have rank [3, 2], expected "
                  "[2, 2]"},
                 call(op.matmul), ((2, 4, 6), (6, 5)), ((4, 6), (6, 5))),
    "nothing before": Near(
        call(op.exp), {"exp": "npu, pattern matmul: relax.exp must follow relax.matmul"},
        lambda emit, rng, x: emit(op.exp(emit(op.matmul(x, x)))), ((4, 4),)),
    "several results": Near(
        lambda emit, rng, x: emit(op.split(x, 2, 1)),
        {"split": "no pattern of npu has relax.split"}, plain),
}  # fmt: skip


@pytest.mark.parametrize("name", NEAR)
def test_the_reason_is_the_true_one_and_can_be_mended(name: str) -> None:
    case = NEAR[name]
    left = dispatch(nets.net(case.build, *case.shapes), [NPU]).left
    whys = {o.op.removeprefix("relax."): o.why for o in left}
    assert {k: whys.get(k) for k in case.whys} == case.whys
    mended = dispatch(nets.net(case.mended, *(case.mended_shapes or case.shapes)), [NPU])
    assert mended.taken and not mended.left


def twice(last: Callable[[Any, Any, Any], Any]) -> Build:
    """The convolution done twice: what is said of its two results."""

    def build(emit: Any, rng: Any, x: Any) -> Any:
        w = const(rng, 4, 4, 3, 3)
        return last(emit, *(emit(nn.conv2d(x, w, padding=1)) for _ in range(2)))

    return build


TWICE = "duplicate relax.nn.conv2d, one for each use of its result"
MENDS: dict[tuple[str, str], tuple[str, Build]] = {
    ("dtype", "nn.conv2d"): ("cast to float32", lambda emit, rng, x: emit(op.astype(plain(
        emit, rng, emit(op.astype(emit(op.astype(x, "float16")), "float32"))), "float16"))),
    ("symbolic", "nn.conv2d"): ("bind n to a number", plain),
    ("fan-out", "nn.conv2d"): (TWICE, twice(
        lambda emit, y, z: emit(op.sqrt(emit(op.maximum(emit(nn.relu(y)), z)))))),
    ("not convex", "add"): (TWICE, twice(
        lambda emit, y, z: emit(nn.relu(emit(op.add(
            y, emit(op.mean(z, [2, 3], keepdims=True)))))))),
    ("returned", "nn.relu"): (TWICE, twice(
        lambda emit, y, z: emit(relax.Tuple([z, emit(nn.relu(y))])))),
    ("cast in between", "nn.relu"): ("do relax.nn.relu before relax.astype",
                                     conv(relu, cast("float16"))),
}  # fmt: skip


@pytest.mark.parametrize("name", NEAR)
def test_what_would_mend_it_is_said_where_it_helps(name: str) -> None:
    case = NEAR[name]
    left = dispatch(nets.net(case.build, *case.shapes), [NPU]).left
    mends = {o.op.removeprefix("relax."): o.suggestion for o in left}
    if not any(name == known for known, _ in MENDS):
        assert not any(mends.values())
    for missed in case.whys:
        expected, mended = MENDS.get((name, missed), (None, None))
        if mended is not None:
            assert mends[missed] == expected
            done = dispatch(nets.net(mended, IMAGE), [NPU])
            assert [t.pattern for t in done.taken] == ["conv_relu"]


def test_the_nearest_of_all_backends_is_reported() -> None:
    far = replace(NPU, name="far", patterns=(Pattern("dilated", one(
        "relax.nn.conv2d", attribute("dilation", [2, 2]), *CONV)),))  # fmt: skip
    mod = nets.net(conv(kernel=(8, 2, 3, 3), groups=2), IMAGE)
    for backends in ([far, NPU], [NPU, far]):
        (found, *_) = dispatch(mod, backends).left
        assert found.why == BEGIN + "groups is 2, expected 1"


def test_an_attribute_that_the_operator_lacks_is_named() -> None:
    pattern = Pattern("grouped", one("relax.nn.relu", byoc.attribute("group", 1)),
                      one("relax.nn.conv2d", byoc.attribute("group", 1)))  # fmt: skip
    alone = Pattern("alone", one("relax.nn.conv2d", byoc.attribute("group", 1)))
    mod = nets.net(conv(relu), IMAGE)
    left = dispatch(mod, [replace(NPU, name="typo", patterns=(pattern, alone))]).left
    whys = {o.op: o.why for o in left}
    assert (
        "relax.nn.conv2d has no attribute group; it has strides, padding,"
        in whys["relax.nn.conv2d"]
    )
    assert whys["relax.nn.relu"].endswith("relax.nn.relu has no attribute group")


def test_ops_that_match_count_before_conditions_that_hold() -> None:
    sums = Pattern("sum", one("relax.add", float32, float32, lambda node: "never"))
    mod = nets.net(conv(bias(8, 6, 6), relu), IMAGE)
    left = dispatch(mod, [replace(NPU, name="adder", patterns=(sums,)), NPU]).left
    (why,) = (o.why for o in left if o.op == "relax.add")
    assert why == BEGIN + "after relax.nn.conv2d, the bias is (8, 6, 6), expected (1, 8, 1, 1)"


def test_what_matches_and_is_not_chosen_says_so() -> None:
    (left, *_) = dispatch(nets.net(plain, IMAGE), [NPU], force={"conv2d": "tvm"}).left
    assert left.why == BEGIN + "it matches, but another choice was forced or costs less"
    assert left.suggestion == "force conv2d=npu.conv_relu"
    op_name, _, place = left.suggestion.removeprefix("force ").partition("=")
    assert dispatch(nets.net(plain, IMAGE), [NPU], force={op_name: place}).taken


def test_without_a_backend_that_is_said() -> None:
    (left, *_) = dispatch(nets.net(plain, IMAGE), [NPU], {"npu": 0}).left
    assert left.why == "no available backend has a higher priority than tvm"


def test_what_is_laid_out_otherwise_or_not_recognised() -> None:
    mod = nets.net(plain, IMAGE)
    packed = plan_layout(mod, {"relax.nn.conv2d": ("NCHW4c", "OIHW4i4o")}).module
    (why,) = (o.why for o in dispatch(packed, [NPU]).left if o.op == "relax.nn.conv2d")
    assert why == "its buffers have the layouts NCHW4c, OIHW4i4o, NCHW4c"
    fused = relax.transform.FuseTIR()(relax.transform.FuseOps()(
        relax.transform.AnnotateTIROpPattern()(mod)))  # fmt: skip
    (left,) = dispatch(fused, [NPU]).left
    assert left.why.startswith("not recognised: ")


def test_a_module_that_is_not_lowered_is_said() -> None:
    mod = nets.net(lambda e, r, x: e(op.exp(x)), (2, 3), legal=False)
    with pytest.warns(UserWarning, match=r"^dispatch: .* relax\.exp is not lowered; apply relax"):
        dispatch(mod, ["tvm"])
