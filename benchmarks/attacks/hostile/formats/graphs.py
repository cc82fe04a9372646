"""JSON of `tvm.ir.save_json` with nodes changed."""

from __future__ import annotations

import base64
import copy
import json
import random
from collections.abc import Iterator
from typing import Any

import tvm

from opinfo.frontend.formats.from_script import from_text

from .case import Case, damaged
from .scripts import HEAD, VALID

ODD: tuple[Any, ...] = (0, -1, 1, 2**31, 2**63, 2**64, 1e400, 0.5, True, None, "", "x",
                        [], {}, [0],
                        "float32", "custom[x]", "float999x999", "NaN")  # fmt: skip


def cases(rng: random.Random, count: int) -> Iterator[Case]:
    """Yield graphs of small modules, each with one to three changes."""
    texts = [tvm.ir.save_json(from_text(HEAD + text)) for text in VALID]
    lowered = [tvm.relax.transform.LegalizeOps()(from_text(HEAD + t)) for t in VALID]
    graphs = [json.loads(text) for text in (*texts, *map(tvm.ir.save_json, lowered))]
    yield from _written()
    for k in range(count):
        graph = copy.deepcopy(rng.choice(graphs))
        if k % 8 == 7:
            yield Case("bytes", ".json", damaged(rng, json.dumps(graph).encode()))
            continue
        names = [_change(rng, graph) for _ in range(rng.choice((1, 1, 2, 3)))]
        yield Case(", ".join(names), ".json", json.dumps(graph).encode())


def _change(rng: random.Random, graph: dict[str, Any]) -> str:
    nodes = graph["nodes"]
    node = rng.choice(nodes)
    data = node.get("data")
    indices = [key for key, v in _items(data) if type(v) is int]
    kind = rng.choice(
        ("index", "index", "index", "value", "type", "field", "copy", "cycle", "root")
    )
    if kind in ("index", "cycle") and indices:
        key = rng.choice(indices)
        place = nodes.index(node)
        data[key] = place if kind == "cycle" else rng.randrange(len(nodes))
        return f"{node['type']}.{key} is node {data[key]}"
    if kind == "value" and _items(data):
        key = rng.choice(_items(data))[0]
        data[key] = rng.choice(ODD)
        return f"{node['type']}.{key} is {data[key]!r}"
    if kind == "type":
        before, node["type"] = node["type"], rng.choice(nodes)["type"]
        return f"{before} as {node['type']}"
    if kind == "field" and isinstance(data, dict) and data:
        return f"without {node['type']}.{data.popitem()[0]}"
    if kind == "copy":
        nodes[nodes.index(node)] = copy.deepcopy(rng.choice(nodes))
        return f"another node for {node['type']}"
    if kind == "root":
        graph["root_index"] = rng.choice((rng.randrange(len(nodes)), -1, len(nodes), None))
        return f"root {graph['root_index']}"
    node["data"] = rng.choice(ODD)
    return f"{node['type']} is {node['data']!r}"


def _items(data: Any) -> list[tuple[Any, Any]]:
    if isinstance(data, dict):
        return list(data.items())
    return list(enumerate(data)) if isinstance(data, list) else []


def _written() -> Iterator[Case]:
    """Yield hand-written graphs: code, bombs, and functions that TVM's reader would call."""

    def graph(name: str, *nodes: tuple[str, Any]) -> Case:
        values = {"root_index": len(nodes) - 1, "nodes": [{"type": t, "data": d} for t, d in nodes]}
        return Case(name, ".json", json.dumps(values).encode())

    library = base64.b64encode(b"\x7fELF" + b"\0" * 60).decode()
    datas: tuple[Any, ...] = (library, 0, [], "", {"0": library})
    for data in datas:
        yield graph("machine code", ("ffi.Module", data))
    for kind in ("ffi.Function", "ffi.OpaquePyObject", "transform.PassInfo", "sym.Analyzer",
                 "te.ComputeOp", "relax.BlockBuilder", "runtime.disco.ProcessSession", "no.Such",
                 "tirx.PrimFuncPass", "target.TargetTag", "relax.ExecBuilder"):  # fmt: skip
        yield graph(kind, (kind, {}))
    for name in ("runtime.ModuleLoadFromFile", "tvm.relax.type.infer_view_ty", "no.such"):
        yield graph(
            f"function {name}",
            ("None", None),
            ("ir.EnvFunc", name),
            (
                "relax.FuncType",
                {"span": 0, "params": 0, "ret": 0, "derive_func": 1, "purity": True},
            ),
        )
    yield graph("deep", ("ffi.Array", []), *(("ffi.Array", [k]) for k in range(100_000)))
    # Each node holds the one before it twice: a tree of 2 ** 300 leaves.
    yield graph("wide", ("ffi.Array", []), *(("ffi.Array", [k, k]) for k in range(300)))
    head = bytes.fromhex("3fa1b496f0405edd" + "00" * 8 + "0100000000000000" + "0100000002200100")
    for extent, length in ((2**40, 2**42), (2**62, 4), (-1, 4), (1, 2**40), (1, 3)):
        raw = head + extent.to_bytes(8, "little", signed=True) + length.to_bytes(8, "little")
        yield graph("tensor", ("ffi.Tensor", base64.b64encode(raw + b"\0" * 4).decode()))
    yield Case("brackets", ".json", b"[" * 1_000_000)
    yield Case(
        "two root_index", ".json", b'{"root_index":0,"root_index":1,"nodes":[{"type":"None"}]}'
    )
    yield Case("long number", ".json", b'{"root_index":' + b"9" * 100_000 + b',"nodes":[]}')
