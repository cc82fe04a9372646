"""Compare an imported graph with ONNX's reference implementation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import tvm
from onnx.reference import ReferenceEvaluator
from tvm import relax

from opinfo.analysis.proposal.legalise import legalise_module
from opinfo.frontend.formats.from_onnx import from_model
from opinfo.testing.unoptimised import unoptimised
from tests.models.weights import Array


def outputs(proto: Any, feed: Mapping[str, Array]) -> list[Array]:
    """Import, compile and call a model, and return its outputs."""
    machine = relax.VirtualMachine(unoptimised(legalise_module(from_model(proto, {}))), tvm.cpu())
    args = [tvm.runtime.tensor(np.require(feed[i.name], requirements="C"))
            for i in proto.graph.input]  # fmt: skip
    result = machine["main"](*args)
    single = isinstance(result, tvm.runtime.Tensor)
    return [x.numpy() for x in ([result] if single else result)]


def check(proto: Any, feed: Mapping[str, Array], tolerance: float = 1e-5) -> None:
    """Compare all outputs."""
    expected = ReferenceEvaluator(proto).run(None, dict(feed))
    for a, b in zip(outputs(proto, feed), expected, strict=True):
        assert (a.shape, a.dtype) == (b.shape, b.dtype)
        np.testing.assert_allclose(a.astype("float64"), b.astype("float64"), 0, tolerance)
