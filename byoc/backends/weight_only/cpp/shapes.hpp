// Checks of shapes that are known at each call only. It follows views.hpp.
#include <initializer_list>

namespace opinfo_weight_only {
namespace {

inline std::string text_of(const View& v) {
  std::string out = "[";
  for (int d = 0; d < v.rank; ++d) out += (d ? ", " : "") + std::to_string(v.dims[d]);
  return out + "]";
}

// An error unless `x` has `depth` values along `axis`.
[[maybe_unused]] void expect_depth(const char* name, const View& x, int axis, int64_t depth) {
  if (x.dims[axis] != depth)
    throw opinfo::Error("ValueError", std::string(name) + ": activations of shape " + text_of(x) +
                                          " have " + std::to_string(x.dims[axis]) +
                                          " values, expected " + std::to_string(depth));
}

// An error unless `x` has as many rows as `out`, and each of `number` other operands broadcasts to `out`.
[[maybe_unused]] void expect_rows(const char* name, const View& x, const View& out,
                                  const View* others, int number) {
  bool fits = x.rank == out.rank;
  for (int d = 0; fits && d + 1 < out.rank; ++d) fits = x.dims[d] == out.dims[d];
  if (!fits)
    throw opinfo::Error("ValueError", std::string(name) + ": activations of shape " + text_of(x) +
                                          " and a result of " + text_of(out) +
                                          ", expected the same rows");
  for (int k = 0; k < number; ++k) {
    const int skipped = out.rank - others[k].rank;
    fits = skipped >= 0;
    for (int d = 0; fits && d < others[k].rank; ++d)
      fits = others[k].dims[d] == 1 || others[k].dims[d] == out.dims[skipped + d];
    if (!fits)
      throw opinfo::Error("ValueError", std::string(name) + ": an operand of shape " +
                                            text_of(others[k]) +
                                            " does not broadcast to the result of " + text_of(out));
  }
}

// The columns of the result, which are the extents of words, scales and zero points along `axis`.
[[maybe_unused]] int64_t columns_of(const char* name, const View& out, int axis,
                                    std::initializer_list<View> weights) {
  const int64_t columns = out.dims[out.rank - 1];
  for (const View& w : weights)
    if (w.dims[axis] != columns)
      throw opinfo::Error("ValueError", std::string(name) + ": weights of shape " + text_of(w) +
                                            " have " + std::to_string(w.dims[axis]) +
                                            " columns, expected " + std::to_string(columns) +
                                            " as in the result of " + text_of(out));
  return columns;
}

}  // namespace
}  // namespace opinfo_weight_only
