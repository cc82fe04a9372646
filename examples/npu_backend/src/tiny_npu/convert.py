"""Regions to C++: a function for each, and the weights of all of them."""

from collections.abc import Sequence

from opinfo.byoc import ABI, Code, Region

FUNCTION = """
static void {symbol}_(const DLTensor* x, const DLTensor* out) {{
  const auto* in = reinterpret_cast<const float*>(opinfo::data(x));
  const auto* weights = reinterpret_cast<const float*>(opinfo::data(constants[{weights}]));
  auto* result = reinterpret_cast<float*>(opinfo::data(out));
  const int64_t rows = x->shape[0], depth = {depth}, columns = {columns};
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j) {{
      float sum = {bias};
      for (int64_t k = 0; k < depth; ++k) sum += in[i * depth + k] * weights[k * columns + j];
      result[i * columns + j] = {value};
    }}
}}
OPINFO_TYPED({symbol}, {symbol}_)
"""
BIAS = "reinterpret_cast<const float*>(opinfo::data(constants[{index}]))[j]"


def convert(regions: Sequence[Region]) -> Code:
    """All regions of a model as one C++ file."""
    symbols = tuple(r.symbol for r in regions)
    source = [ABI, "static opinfo::Constants constants;\n"]
    arrays = []
    for r in regions:
        source.append(_function(r, len(arrays)))
        arrays += [(f"{r.symbol}_{k}", a) for k, a in enumerate(r.constants)]
    source.append(f"OPINFO_CONSTANTS({symbols[0]}, constants)\n")
    return Code("".join(source), symbols, tuple(arrays))


def _function(r: Region, first: int) -> str:
    """``first`` is the number of the region's first constant among those of all regions."""
    product, add = r.calls[0], r.find("relax.add")
    weights = product.operands[1]
    depth, columns = weights.shape
    bias = "0"
    if add is not None:
        (operand,) = (t for t in add.operands if t.source == "constant")
        bias = BIAS.format(index=first + operand.index)
    return FUNCTION.format(
        symbol=r.symbol,
        weights=first + weights.index,
        depth=depth,
        columns=columns,
        bias=bias,
        value="sum > 0 ? sum : 0" if r.find("relax.nn.relu") else "sum",
    )
