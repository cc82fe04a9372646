"""TVMScript that tries to run code: payloads in many places, and changes of valid scripts."""
# ruff: noqa: E501 (lines of files)

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Iterator
from pathlib import Path

from .case import Case, command, damaged

HEAD = "from tvm.script import ir as I, relax as R, tirx as T\n"
VALID = (
    '@R.function\ndef main(x: R.Tensor(("n", 4), "float32")):\n    y = R.nn.relu(x)\n    return y\n',
    """@T.prim_func(s_tir=True)
def copy(A: T.Buffer((4, 8), "float32"), B: T.Buffer((4, 8), "float32")):
    for i, j in T.grid(4, 8):
        with T.sblock("copy"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = T.if_then_else(vi < 2, T.exp(A[vi, vj]), T.float32(0))
""",
    """@I.ir_module
class Module:
    @T.prim_func(private=True)
    def relu(A: T.Buffer((4,), "float32"), B: T.Buffer((4,), "float32")):
        T.func_attr({"op_pattern": 0, "tirx.noalias": True})
        for i in range(4):
            B[i] = T.max(A[i], T.float32(0))
    @R.function
    def main(x: R.Tensor((4,), dtype="float32")) -> R.Tensor((4,), dtype="float32"):
        cls = Module
        with R.dataflow():
            y = R.call_tir(cls.relu, (x,), out_ty=R.Tensor((4,), dtype="float32"))
            R.output(y)
        return y
""",
)
#: Places for an expression: `{e}` is the expression, `{s}` a string literal of it.
PLACES = {
    "dimension of R.Tensor": "@R.function\ndef f(x: R.Tensor(({s},), 'float32')):\n    return x\n",
    "dimension of T.Buffer": "@T.prim_func\ndef f(A: T.Buffer(({s},), 'float32')):\n    T.evaluate(0)\n",
    "shape of T.Buffer": "@T.prim_func\ndef f(A: T.Buffer({s}, 'float32')):\n    T.evaluate(0)\n",
    "shape= of T.Buffer": "@T.prim_func\ndef f(A: T.Buffer(dtype='int8', shape=[T.int64({s})])):\n    T.evaluate(0)\n",
    "dimension of R.Shape": "@R.function\ndef f(x: R.Shape([{s}])):\n    return x\n",
    "dimension in R.Tuple": "@R.function\ndef f(x: R.Tuple(R.Tensor(({s}, 'n')))):\n    return x\n",
    "dimension of a result": "@R.function\ndef f(x: R.Tensor((4,))) -> R.Tensor(({s},)):\n    return x\n",
    "computed dimension": "@R.function\ndef f(x: R.Tensor(('' + {s},), 'float32')):\n    return x\n",
    "joined dimension": "@R.function\ndef f(x: R.Tensor(''.join([{s}]), 'float32')):\n    return x\n",
    "greatest dimension": "@R.function\ndef f(x: R.Tensor((max({s}, ' '),), 'float32')):\n    return x\n",
    "dimension of a dict": "@R.function\ndef f(x: R.Tensor({{'a': ({s},)}}['a'], 'float32')):\n    return x\n",
    "global dimension": "N = {s}\n@R.function\ndef f(x: R.Tensor((N,), 'float32')):\n    return x\n",
    "global dimensions": "N = ({s},)\n@R.function\ndef f(x: R.Tensor(N, 'float32')):\n    return x\n",
    "f-string": "@R.function\ndef f(x: R.Tensor((f'{{{e}}}',), 'float32')):\n    return x\n",
    "annotation": "@R.function\ndef f(x: {e}):\n    return x\n",
    "default": "@R.function\ndef f(x: R.Tensor((4,)) = {e}):\n    return x\n",
    "decorator": "@{e}\ndef f(x: R.Tensor((4,))):\n    return x\n",
    "second decorator": "@R.function\n@{e}\ndef f(x: R.Tensor((4,))):\n    return x\n",
    "decorator's option": "@R.function(pure={e})\ndef f(x: R.Tensor((4,))):\n    return x\n",
    "relax value": "@R.function\ndef f(x: R.Tensor((4,))):\n    y = {e}\n    return x\n",
    "relax argument": "@R.function\ndef f(x: R.Tensor((4,))):\n    y = R.add(x, {e})\n    return y\n",
    "relax keyword": "@R.function\ndef f(x: R.Tensor((4,))):\n    y = R.sum(x, axis={e})\n    return y\n",
    "relax statement": "@R.function\ndef f(x: R.Tensor((4,))):\n    {e}\n    return x\n",
    "relax return": "@R.function\ndef f(x: R.Tensor((4,))):\n    return {e}\n",
    "relax if": "@R.function\ndef f(x: R.Tensor((4,))):\n    if {e}:\n        y = x\n    else:\n        y = x\n    return y\n",
    "tir value": "@T.prim_func\ndef f(A: T.Buffer((4,))):\n    v = {e}\n    T.evaluate(v)\n",
    "tir index": "@T.prim_func\ndef f(A: T.Buffer((4,))):\n    A[{e}] = 1.0\n",
    "tir range": "@T.prim_func\ndef f(A: T.Buffer((4,))):\n    for i in range({e}):\n        A[i] = 1.0\n",
    "tir with": "@T.prim_func\ndef f(A: T.Buffer((4,))):\n    with {e}:\n        A[0] = 1.0\n",
    "tir assert": "@T.prim_func\ndef f(A: T.Buffer((4,))):\n    assert {e}, 'no'\n    A[0] = 1.0\n",
    "tir lambda": "@T.prim_func\ndef f(A: T.Buffer((4,))):\n    T.evaluate(T.comm_reducer(lambda x, y: {e}, [0]))\n",
    "index map": "@R.function\ndef f(x: R.Tensor((4,))):\n    return R.layout_transform(x, T.index_map(lambda i: ({e},)))\n",
    "lambda's default": "@R.function\ndef f(x: R.Tensor((4,))):\n    return R.layout_transform(x, T.index_map(lambda i={e}: (i,)))\n",
    "attribute": "@T.prim_func\ndef f(A: T.Buffer((4,))):\n    T.func_attr({{'a': {e}}})\n    A[0] = 1.0\n",
    "comprehension": "@R.function\ndef f(x: R.Tensor((4,))):\n    y = [{e} for _ in range(1)]\n    return x\n",
    "walrus": "@R.function\ndef f(x: R.Tensor((4,))):\n    y = R.add(x, (z := {e}))\n    return y\n",
    "star": "@R.function\ndef f(x: R.Tensor((4,))):\n    y = R.add(*{e})\n    return y\n",
    "slice": "@T.prim_func\ndef f(A: T.Buffer((4,))):\n    T.reads(A[0:{e}])\n",
    "class base": "@I.ir_module\nclass M({e}):\n    @R.function\n    def f(x: R.Tensor((4,))):\n        return x\n",
    "class keyword": "@I.ir_module\nclass M(metaclass={e}):\n    @R.function\n    def f(x: R.Tensor((4,))):\n        return x\n",
    "class body": "@I.ir_module\nclass M:\n    a = {e}\n    @R.function\n    def f(x: R.Tensor((4,))):\n        return x\n",
    "class statement": "@I.ir_module\nclass M:\n    {e}\n    @R.function\n    def f(x: R.Tensor((4,))):\n        return x\n",
    "global": "a = {e}\n@R.function\ndef f(x: R.Tensor((4,))):\n    return x\n",
    "global statement": "{e}\n@R.function\ndef f(x: R.Tensor((4,))):\n    return x\n",
    "type parameter": "@R.function\ndef f[n: {e}](x: R.Tensor((n,))):\n    return x\n",
    "form feed": '@R.function\ndef f(x: R.Tensor((4,))):\n    "\x0c\x1c\x1d\x85\u2028"\n    return x\n@R.function\ndef g(x: R.Tensor((4,))):\n    "\n    {e}\n    "\n    return x\n',
}


def payloads(mark: Path) -> Iterator[str]:
    """Yield expressions that write the mark if evaluated."""
    run = f"system('touch {mark}')"
    yield command(mark)
    yield f"open('{mark}', 'w')"
    yield f"T.entry.inspect.os.{run}"
    yield f"R.entry.inspect.os.{run}"
    yield f"I.entry.inspect.os.{run}"
    yield f"T.tile.__builtins__['__import__']('os').{run}"
    yield f"R.const([1], 'uint8').value.numpy().tofile('{mark}')"
    yield f"R.const([1], 'uint8').data.numpy().tofile('{mark}')"
    yield f"R.emit_te(lambda: open('{mark}', 'w'))"
    yield f"R.call_py_func('f', open('{mark}', 'w'))"
    yield f"eval(\"open('{mark}', 'w')\")"
    yield f"T.Buffer.__call__.__globals__['__builtins__']['open']('{mark}', 'w')"
    yield f"().__class__.__base__.__subclasses__()[-1].__init__.__globals__['sys'].modules['os'].{run}"
    yield f"'{{0.__class__.__init__.__globals__}}'.format(x) + str(open('{mark}', 'w'))"
    yield f"I.pyfunc(lambda: open('{mark}', 'w'))()"
    yield f"T.meta_var(open('{mark}', 'w'))"
    yield f"tvm.get_global_func('runtime.SaveParams')(open('{mark}', 'w'))"
    yield f"T.inline(lambda: open('{mark}', 'w'))()"
    yield f"R.Callable(derive_func=open('{mark}', 'w'))"
    yield f"(lambda f: f('{mark}', 'w'))(open)"
    yield f"[f('{mark}', 'w') for f in [open]][0]"
    yield f"map(open, ['{mark}'], 'w').__next__()"
    yield f"T.ir.tvm.runtime.load_module('{mark}')"


def cases(rng: random.Random, mark: Path, count: int) -> Iterator[Case]:
    """Yield payloads in every place, scripts that overload a parser, and changes of valid scripts."""
    snippets = list(payloads(mark))
    each = max(1, count // 2 // len(PLACES))
    for place, text in PLACES.items():
        for payload in rng.sample(snippets, min(each, len(snippets))):
            content = HEAD + text.format(e=payload, s=repr(payload))
            yield Case(f"{place}: {payload[:40]}", ".py", content.encode())
    yield from _heavy()
    for _ in range(count // 4):
        yield Case("bytes", ".py", damaged(rng, (HEAD + rng.choice(VALID)).encode()))
    for _ in range(count // 4):
        yield Case("tokens", ".py", _tokens(rng, HEAD + rng.choice(VALID)).encode())


def _tokens(rng: random.Random, text: str) -> str:
    """Replace some words, numbers and signs by others of the same text."""
    parts = re.findall(r"\w+|\s+|[^\w\s]", text)
    solid = [k for k, part in enumerate(parts) if not part.isspace()]
    for _ in range(rng.randint(1, 3)):
        parts[rng.choice(solid)] = parts[rng.choice(solid)]
    return "".join(parts)


def _heavy() -> Iterator[Case]:
    """Yield scripts that are deeply nested, endless, or large."""
    body = "@T.prim_func\ndef f(A: T.Buffer((4,), 'float32')):\n    {}\n"
    for name, text in {
        "nested parentheses": "T.evaluate(" + "(" * 5000 + "1" + ")" * 5000 + ")",
        "nested unary": "T.evaluate(" + "-" * 50000 + "1)",
        "long sum": "T.evaluate(" + "+".join(["1"] * 20000) + ")",
        "nested indices": "T.evaluate(" + "A[" * 2000 + "0" + "]" * 2000 + ")",
        "shift": "T.evaluate(1 << (1 << 40))",
        "product": "T.evaluate(" + "*".join(["99999999999999999999"] * 3000) + ")",
        "huge integer": "T.evaluate(" + "9" * 5000 + ")",
        "nested calls": "T.evaluate(" + "T.exp(" * 1000 + "1.0" + ")" * 1000 + ")",
        "power": "T.evaluate(9 ** 9 ** 9)",
        "many loops": "for i in T.grid(*([4] * 100000)):\n        A[0] = 1.0",
        "nested loops": "\n".join("    " * k + f"for i{k} in range(2):" for k in range(1, 90))[4:]
        + "\n" + "    " * 90 + "A[0] = 1.0",
    }.items():  # fmt: skip
        yield Case(name, ".py", (HEAD + body.format(text)).encode())
    loads = itertools.product(
        ("[]", "{}", '{"root_index":0,"nodes":[{"type":"ffi.Module"}]}'), "ab"
    )
    for text, name in loads:
        head = f"{name} = tvm.ir.load_json('''{text}''')\n"
        yield Case("metadata", ".py", (HEAD + head + VALID[0]).encode())
    for value in ("().__class__", "open('x', 'w')"):
        text = '{"root_index":2,"nodes":[{"type":"ffi.String","data":"a"},{"type":"ffi.String",' \
            f'"data":"{value}"}},{{"type":"ffi.Map","data":[0,3]}},' \
            '{"type":"ffi.Array","data":[1]}]}'  # fmt: skip
        body = "@R.function\ndef f(x: R.Tensor((m['a'][0],))):\n    return x\n"
        yield Case("string of the metadata", ".py",
                   f"{HEAD}m = tvm.ir.load_json('''{text}''')\n{body}".encode())  # fmt: skip
