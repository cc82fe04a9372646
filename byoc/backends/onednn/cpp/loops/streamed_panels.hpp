
// Panels of products of few rows: each weight is read once, as fast as memory is. It follows
// vectors.hpp.
namespace opinfo_loops {
namespace {

// How a panel is read. AVX-512: in order, and requested ahead into the second cache. Else: four parts
// of its depth at once. AMD's Zen 3 reads four streams 1.4 times as fast as one, and requests slow both.
constexpr int kStreams = kLanes == 16 ? 1 : 4;
// Bytes of weights that are requested before they are used, into the second cache.
constexpr int64_t kAhead = 12288;
// Values that are summed up before their sum is added to the others, for accuracy.
constexpr int64_t kPart = 512;

// Add the products with row `d` of a panel.
template <int rows>
OPINFO_INLINE void add_row(const Panel& p, int64_t d, Lanes* sums) {
  const float* weights = p.weights + d * kPanel;
  for (int64_t line = 0; kStreams == 1 && line < kPanel; line += 16)
    __builtin_prefetch(weights + kAhead / 4 + line, 0, 2);
  times<rows>([&](auto i) OPINFO_ALWAYS {
    const Lanes left = all_of(p.x[i * p.x_row + d]);
    times<kPanelVectors>([&](auto j) OPINFO_ALWAYS {
      sums[i * kPanelVectors + j] += left * load(weights + j * kLanes);
    });
  });
}

template <int rows>
void multiply(const Panel& p) {
  const int64_t each = p.depth / kStreams;
  Lanes total[rows * kPanelVectors];
  times<rows * kPanelVectors>([&](auto k) OPINFO_ALWAYS { total[k] = all_of(0); });
  for (int64_t d = each * kStreams; d < p.depth; ++d) add_row<rows>(p, d, total);
  for (int64_t first = 0; first < each; first += kPart / kStreams) {
    Lanes sums[rows * kPanelVectors];
    times<rows * kPanelVectors>([&](auto k) OPINFO_ALWAYS { sums[k] = all_of(0); });
    for (int64_t d = first; d < lesser(first + kPart / kStreams, each); ++d)
#pragma GCC unroll 4
      for (int stream = 0; stream < kStreams; ++stream)
        add_row<rows>(p, stream * each + d, sums);
    times<rows * kPanelVectors>([&](auto k) OPINFO_ALWAYS { total[k] += sums[k]; });
  }
  for (int64_t i = 0; i < rows; ++i) {
    float out[kPanel];
    times<kPanelVectors>([&](auto j) OPINFO_ALWAYS {
      store(out + j * kLanes, total[i * kPanelVectors + j]);
    });
    for (int64_t j = 0; p.bias && j < p.columns; ++j) out[j] += p.bias[j];
    memcpy(p.out + i * p.out_row, out, 4 * p.columns);
  }
}

}  // namespace
}  // namespace opinfo_loops

OPINFO_LINKAGE void OPINFO_RUNTIME(pack_panels)(const float* data, int64_t row, int64_t column,
                                                int64_t depth, int64_t columns, int64_t panel,
                                                float* out) {
  const int64_t panels = (columns + panel - 1) / panel;
  for (int64_t j = 0; j < panels * panel; ++j) {
    float* to = out + j / panel * depth * panel + j % panel;
    for (int64_t k = 0; k < depth; ++k, to += panel)
      *to = j < columns ? data[k * row + j * column] : 0;
  }
}

OPINFO_LINKAGE void OPINFO_RUNTIME(multiply_panel)(const opinfo_loops::Panel& p) {
  switch (p.rows) {
    case 1: return opinfo_loops::multiply<1>(p);
    case 2: return opinfo_loops::multiply<2>(p);
    case 3: return opinfo_loops::multiply<3>(p);
    default: return opinfo_loops::multiply<opinfo_loops::kMostRows>(p);
  }
}
