"""Batches of sequences for attention over caches, and attention to them in float64 by numpy."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
SCALE, ROPE_SCALE, THETA = 0.2, 1.5, 10000.0


@dataclass(frozen=True)
class Case:
    """Sizes, and the sequences of a batch.

    Attributes:
        groups: Heads of keys.
        heads: Heads of queries.
        features: Elements of a head.
        dtype: That of queries, keys and values.
        rows: Queries of each sequence.
        tokens: Keys of each sequence, with hidden ones.
        page: Tokens of a page.
        causal: Whether rows see the keys before them only.
        turned: Whether queries and keys are turned first.
        hidden: Tokens that are hidden in each sequence, from the one of its number on.
        window: The window of causal attention.
        trees: The parents of the nodes that the last keys are, for each sequence; -1 for a root.
        scaling: The scaling of rotary embeddings, as MLC-LLM's models have it.
    """

    groups: int
    heads: int
    features: int
    dtype: str
    rows: tuple[int, ...]
    tokens: tuple[int, ...]
    page: int = 16
    causal: int = 1
    turned: int = 0
    hidden: tuple[tuple[int, int], ...] = ()
    window: int = 0
    trees: tuple[tuple[int, ...], ...] = ()
    scaling: tuple[tuple[str, Any], ...] = ()

    @property
    def sizes(self) -> tuple[int, int, int, str]:
        return self.groups, self.heads, self.features, self.dtype


class Batch:
    """Random operands of a case, by the names of their roles."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.rng = np.random.default_rng(3)
        count = sum(case.rows)
        self.operands: dict[str, Any] = {
            "query": self._floats(count, case.heads, case.features),
            "query_indptr": _starts(case.rows),
            "positions": self.rng.integers(0, 50, count).astype("int32"),
            "key_offsets": self.rng.integers(0, 9, len(case.rows)).astype("int32"),
            "causal": case.causal, "rotary_mode": case.turned, "rope_scale": ROPE_SCALE,
            "rope_theta": THETA, "scale": SCALE,
            "tree_indptr": _starts([len(t) for t in case.trees]),
            "tree": np.asarray([n for t in case.trees for n in numbered(t)], "int32"),
        }  # fmt: skip

    def paged(self) -> None:
        """Add pages, in which sequences have theirs in any order."""
        case = self.case
        counts = [-(-n // case.page) for n in case.tokens]
        pages, last = sum(counts) + 2, [n - case.page * (c - 1) for n, c in
                                       zip(case.tokens, counts, strict=True)]  # fmt: skip
        sinks = [sink for sink, _ in case.hidden]
        shown = [sink + many for sink, many in case.hidden]
        lengths = [last, shown, sinks] if case.hidden else last
        self.operands |= {
            "pages": self._floats(pages, 2, case.groups, case.page, case.features),
            "page_indptr": _starts(counts),
            "page_table": self.rng.permutation(pages)[: sum(counts)].astype("int32"),
            "lengths": np.asarray(lengths, "int32"),
        }

    def ragged(self) -> None:
        """Add keys and values that follow each other."""
        shape = (sum(self.case.tokens), self.case.groups, self.case.features)
        self.operands |= {"keys": self._floats(*shape), "values": self._floats(*shape),
                          "key_indptr": _starts(self.case.tokens)}  # fmt: skip

    def unread(self, place: int) -> Any:
        """Return what trees over pages take and do not read: positions, factors and the mode 0."""
        return self.operands[{6: "key_offsets", 7: "positions"}[place]] if place < 8 else 0

    def attention(self) -> tuple[Array, Array]:
        """Return attention and the logarithms of sums, row by row."""
        case, rows = self.case, sum(self.case.rows)
        out = np.zeros((rows, case.heads, case.features))
        merged = np.full((rows, case.heads), -5e4)
        starts = self.operands["query_indptr"]
        for b, length in enumerate(case.rows):
            keys, values = self._rows_of(b)
            for i, h in itertools.product(range(length), range(case.heads)):
                row = starts[b] + i
                seen = self._seen(b, i, len(keys))
                if not seen:
                    continue
                group = h // (case.heads // case.groups)
                k, v = (x[list(seen), group].astype("float64") for x in (keys, values))
                q = self.operands["query"][row, h].astype("float64")
                if case.turned:
                    q = self._turned(q, self.operands["positions"][row])
                    k = np.stack([self._turned(x, self._position(b, j))
                                  for x, j in zip(k, seen, strict=True)])  # fmt: skip
                scores = k @ q * SCALE
                weights = np.exp(scores - scores.max())
                out[row, h] = weights @ v / weights.sum()
                merged[row, h] = np.log2(weights.sum()) + scores.max() / np.log(2)
        return out, merged

    def _rows_of(self, b: int) -> tuple[Array, Array]:
        """The keys and values of a sequence, (tokens, groups, features)."""
        if "keys" in self.operands:
            begin, end = self.operands["key_indptr"][b : b + 2]
            return self.operands["keys"][begin:end], self.operands["values"][begin:end]
        places = list(range(self.case.tokens[b]))
        if self.case.hidden:
            sink, many = self.case.hidden[b]
            places = places[:sink] + places[sink + many :]
        pages, page = self.operands["pages"], self.case.page
        table = self.operands["page_table"][self.operands["page_indptr"][b] :]
        found = [pages[table[p // page], :, :, p % page] for p in places]
        both = np.stack(found) if found else np.zeros((0, 2, *pages.shape[2:3], pages.shape[4]))
        return both[:, 0], both[:, 1]

    def _position(self, b: int, j: int) -> int:
        if self.case.trees:
            return int(self.operands["positions"][self.operands["key_indptr"][b] + j])
        return int(self.operands["key_offsets"][b] + j)

    def _seen(self, b: int, i: int, count: int) -> list[int]:
        length = self.case.rows[b]
        if self.case.trees:
            parents = self.case.trees[b]
            before, node = count - len(parents), i + len(parents) - length
            above = []
            while node >= 0:
                above.append(before + node)
                node = parents[node]
            return [*range(before), *reversed(above)]
        if not self.case.causal:
            return list(range(count))
        if self.case.window:
            return list(range(max(count - max(self.case.window - i - 1, 0), 0), count))
        return list(range(max(min(count - length + i + 1, count), 0)))

    def _turned(self, x: Array, position: int) -> Array:
        half = len(x) // 2
        frequencies, magnitude = scaled(len(x), dict(self.case.scaling))
        angle = position * ROPE_SCALE * frequencies
        cos, sin = np.cos(angle) * magnitude, np.sin(angle) * magnitude
        out = cos * x + sin * np.concatenate([-x[half:], x[:half]])
        return np.asarray(out.astype(_type(self.case.dtype)).astype("float64"))

    def _floats(self, *shape: int) -> Array:
        return np.asarray(self.rng.standard_normal(shape).astype(_type(self.case.dtype)))


def numbered(parents: tuple[int, ...]) -> list[tuple[int, int]]:
    """Return the number of each node in depth-first order, and the first after its descendants."""
    out = [(0, 0)] * len(parents)

    def visit(node: int, number: int) -> int:
        after = number + 1
        for child, parent in enumerate(parents):
            if parent == node:
                after = visit(child, after)
        out[node] = (number, after)
        return after

    count = 0
    for root, parent in enumerate(parents):
        if parent < 0:
            count = visit(root, count)
    return out


def scaled(features: int, scaling: dict[str, Any]) -> tuple[Array, float]:
    """Return the frequency of each feature, and the factor of cosine and sine."""
    d = np.arange(features)
    plain = THETA ** -(2 * d % features / features)
    kind = scaling.get("rope_type")
    if kind is None:
        return plain, 1.0
    original = scaling["original_max_position_embeddings"]
    if kind == "longrope":
        ratio = scaling["max_position_embeddings"] / original
        return plain, float(np.sqrt(1 + np.log(ratio) / np.log(original)))
    slow = plain / scaling["factor"]
    if kind == "llama3":
        low, high = scaling["low_freq_factor"], scaling["high_freq_factor"]
        share = np.clip((original * plain / (2 * np.pi) - low) / (high - low), 0, 1)
    else:
        turns = np.array([scaling["beta_fast"], scaling["beta_slow"]])
        low, high = features * np.log(original / (turns * 2 * np.pi)) / (2 * np.log(THETA))
        low, high = max(low, 0), min(high, features - 1)
        share = 1 - np.clip((d - low) / (high - low), 0, 1)
    return slow * (1 - share) + plain * share, 1.0


def _type(dtype: str) -> Any:
    return ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype


def _starts(counts: Any) -> Array:
    return np.concatenate([[0], np.cumsum(counts)]).astype("int32")
