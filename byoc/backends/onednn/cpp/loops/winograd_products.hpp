
// The products of tiles and weights at a point. It follows tile_products.hpp and winograd_pictures.hpp.
namespace opinfo_loops {
namespace {

// Terms that are summed up before the next weights are read: these stay in the first cache.
constexpr int64_t kTerms = 256;

}  // namespace
}  // namespace opinfo_loops

OPINFO_LINKAGE void OPINFO_RUNTIME(multiply_point)(const opinfo_loops::Picture& p,
                                                   const float* tiles, int64_t count,
                                                   const float* panels, float* products) {
  using namespace opinfo_loops;
  const int64_t depth = p.parts * p.channels;
  for (int64_t d = 0; d < depth; d += kTerms)
    for (int64_t k = 0; k < p.results; k += kTileColumns) {
      const float* weights = panels + k / kPanel * kPanel * depth + d * kPanel + k % kPanel;
      multiply_panel(tiles + d, depth, count, weights, kPanel, lesser(kTileColumns, p.results - k),
                     lesser(kTerms, depth - d), products + k, p.row, d > 0);
    }
}
