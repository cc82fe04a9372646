// Rows in the order of their experts, each of which multiplies all of its rows at once. It follows
// dense.hpp of `weight_only`.
namespace opinfo_experts {
namespace {

using namespace opinfo_weight_only;

// Calls each(expert, rows, count) for each expert that has rows, in order.
//
// There are `total` rows, and as many in turn for each number in `ids`. A number outside of the
// experts is an error, or becomes the nearest expert if `clips`.
template <typename Id, typename Each>
void by_expert(const View& ids, int64_t experts, bool clips, int64_t total, const Each& each) {
  int64_t numbers = 1;
  for (int k = 0; k < ids.rank; ++k) numbers *= ids.dims[k];
  if (total == 0 || numbers == 0) return;
  const int64_t share = total / numbers;
  const Id* id = reinterpret_cast<const Id*>(ids.data);
  std::vector<int64_t> of(numbers), first(experts + 1), rows(total);
  for (int64_t k = 0; k < numbers; ++k) {
    int64_t expert = id[k];
    if (clips) expert = std::clamp<int64_t>(expert, 0, experts - 1);
    if (expert < 0 || expert >= experts)
      throw opinfo::Error("IndexError", "row " + std::to_string(k) + " has the expert " +
                                            std::to_string(expert) + " of " +
                                            std::to_string(experts));
    first[(of[k] = expert) + 1] += share;
  }
  for (int64_t e = 0; e < experts; ++e) first[e + 1] += first[e];
  std::vector<int64_t> next(first.begin(), first.end() - 1);
  for (int64_t k = 0; k < numbers; ++k)
    for (int64_t r = 0; r < share; ++r) rows[next[of[k]]++] = k * share + r;
  for (int64_t e = 0; e < experts; ++e)
    if (first[e + 1] > first[e]) each(e, rows.data() + first[e], first[e + 1] - first[e]);
}

// Matrices of few bits, whose columns are side by side.
struct Grouped {
  Weights all;  // of which `columns` are of one expert
  const Kernels& by;
  int bits, scale;  // of a value, and the bytes of a scale

  Weights of(int64_t expert) const {
    Weights w = all;
    const int64_t blocks = expert * w.panels() * w.blocks;
    w.data += blocks * w.block * kColumns * bits / 8;
    w.scales = static_cast<const char*>(w.scales) + blocks * kColumns * scale;
    if (w.zeros != nullptr) w.zeros = static_cast<const char*>(w.zeros) + blocks * kColumns * scale;
    return w;
  }
};

template <typename X, typename Y>
struct Call {
  const View &x, &out;
  const View* others;
  const bool* half;
  int number;
  Finish* finish;

  template <typename Id, typename Matrices>
  void run(const Matrices& w, int64_t columns, int64_t depth, const View& ids, int64_t experts,
           bool clips) const {
    const int64_t total = elements(out) / columns;
    const Others beside(out, total, others, half, number);
    const int64_t sources = elements(x) / depth;
    if (total > 0 && (sources == 0 || total % sources != 0))
      throw opinfo::Error("ValueError", std::to_string(sources) + " rows of activations for " +
                                            std::to_string(total) + " rows of the result");
    by_expert<Id>(ids, experts, clips, total, [&](int64_t e, const int64_t* rows, int64_t count) {
      multiply(w, e, count, Chosen{rows, sources}, beside);
    });
  }

 private:
  static int64_t elements(const View& v) {
    int64_t out = 1;
    for (int k = 0; k < v.rank; ++k) out *= v.dims[k];
    return out;
  }
  const X* from() const { return reinterpret_cast<const X*>(x.data); }
  Y* to() const { return reinterpret_cast<Y*>(out.data); }

  void multiply(const Grouped& w, int64_t expert, int64_t count, const Chosen& chosen,
                const Others& beside) const {
    product(w.of(expert), w.by, from(), to(), count, chosen, beside, finish);
  }
  template <typename Matrix>
  void multiply(const Matrix& w, int64_t expert, int64_t count, const Chosen& chosen,
                const Others& beside) const {
    product(w.of(expert), from(), to(), count, chosen, beside, finish);
  }
};

}  // namespace
}  // namespace opinfo_experts
