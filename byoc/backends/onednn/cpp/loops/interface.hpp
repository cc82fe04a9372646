// What recipes call of loops of our own, and what these need to know. The loops are an object of their
// own, which is optimised for vectors and includes no header of C++ but <utility>.
#ifndef OPINFO_LOOPS
#define OPINFO_LOOPS
#include <oneapi/dnnl/dnnl_types.h>
#include <stddef.h>
#include <stdint.h>

namespace opinfo_loops {

// The widest vectors that the compiler may use, in floats.
#if defined(__AVX512F__)
constexpr int kLanes = 16;
#elif defined(__AVX__)
constexpr int kLanes = 8;
#else
constexpr int kLanes = 4;
#endif

constexpr int64_t whole_vectors(int64_t columns) {
  return (columns + kLanes - 1) / kLanes * kLanes;
}

// An item that follows a convolution, and where its operand lies.
struct Following {
  int how;  // a dnnl_alg_kind_t
  float alpha, beta;
  int from;               // the operand's tensor; -1 without one
  const float* constant;  // or the operand
  bool by_channel;        // it differs by channel
  int64_t strides[3];     // of the operand: elements, rows, columns
};

constexpr int kMostResults = 16, kMostFollowing = 4;

// A tile's results: where the channels of each one begin, null outside of the picture.
struct Results {
  float* to[kMostResults];
  const float* others[kMostFollowing][kMostResults];
};

// The functions for tiles of a kind, and what their weights are multiplied with.
struct Tiles {
  int points[2], out[2], taps[2];
  const double* weights[2];
  void (*to)(const float* const*, int64_t, float*, int64_t);
  bool (*from)(const float*, int64_t, int64_t, const float*, const Following*, int64_t,
               const Results&);
};

// Rows or columns of a picture, with the first result of each tile. A window of more than three
// taps is a sum of `parts` windows of three, whose inputs are like further channels.
struct PictureAxis {
  int64_t in, from, out, to;  // extents and strides of source and result
  int64_t window, taps_apart;  // of the weights
  int64_t step, pad, parts;
  const int64_t* starts;
  int64_t tiles;
};

// A convolution in tiles.
struct Picture {
  const Tiles* tiles;
  PictureAxis axes[2];
  int64_t from, to;  // strides of the batch
  int64_t channels, results, parts, points;
  int64_t at_once;  // tiles
  int64_t row;      // elements from the products of one tile to those of the next
  const float *zeros, *bias;
  const Following* following;
  int64_t followings;
};

// A matrix in memory: where it begins, and how far apart rows and columns lie.
struct Matrix {
  const float* data;
  int64_t row, column;

  const float* at(int64_t i, int64_t j) const { return data + i * row + j * column; }
};

// A tile of a product: as many rows and vectors of columns as have room in registers, with a vector
// of each operand.
constexpr int kTileRows = 6, kTileVectors = kLanes == 16 ? 4 : 2;

constexpr int64_t kTileColumns = kTileVectors * kLanes;

// What is added to a row of scores: an element for each key, or one for all.
struct RowTerm {
  const float* data;
  bool each;
};

// Sizes of attention. `width` and `out` are the columns of scores and sums in memory.
struct Attended {
  const int64_t* extents;  // of the batch
  int64_t axes, rows;
  int64_t part;  // rows of a thread
  int64_t keys, depth, columns, terms, width, out;
  int64_t block;  // rows at a time
  float scale, factor;
  bool few, in_place;  // keys are not packed; values are not packed
  // Keys that each row sees, null if it sees all: the terms of the others are less by `gap` or more
  // than the largest of the row's.
  const int64_t* seen;
  float gap;

  // Elements of what a thread computes: packed keys and values, and of a block its queries, scores,
  // sums and totals.
  static constexpr int kParts = 6;
  int64_t size(int part) const {
    const int64_t all[kParts] = {depth * width, keys * out,  block * whole_vectors(depth),
                                 block * width, block * out, block};
    return whole_vectors(all[part]);
  }
  int64_t bytes() const {
    int64_t out = terms * static_cast<int64_t>(sizeof(Matrix) + sizeof(RowTerm));
    for (int k = 0; k < kParts; ++k) out += 4 * size(k);
    return out;
  }
};

// A tensor as one matrix for each element of the batch, with a step for each of its axes.
struct AttendedOperand {
  const float* data;
  const int64_t* steps;
  int64_t row, column;
};

// Some columns of a product with few rows: `weights` has them as `kPanel` elements for each of `depth`
// terms.
constexpr int kMostRows = 4, kPanelVectors = 4, kPanel = kPanelVectors * kLanes;
struct Panel {
  const float *weights, *x, *bias;
  float* out;
  int64_t rows, depth, columns, x_row, out_row;
};

// A product of a block of rows with constant weights, in panels of `kTileColumns`. Rows are packed in
// strips of at most `kTileRows`, which differ by one row at most. The bias has whole panels.
constexpr int64_t kBlockRows = 24 * kTileRows;  // of a block, at most
struct Strips {
  Matrix src;
  int64_t rows, depth, columns;
  const float *weights, *bias;
  float* packed;
  float* out;
  int64_t out_row;

  int64_t strips() const { return (rows + kTileRows - 1) / kTileRows; }
  int64_t panels() const { return (columns + kTileColumns - 1) / kTileColumns; }
  int64_t first(int64_t strip) const { return rows * strip / strips(); }  // row of a strip
};

}  // namespace opinfo_loops

// The tiles with so many results along each axis, or along one axis only.
OPINFO_LINKAGE const opinfo_loops::Tiles* OPINFO_RUNTIME(tiles)(int outputs, bool one_axis);
// The weights at each point of a part, from taps whose results and channels lie so far apart.
OPINFO_LINKAGE void OPINFO_RUNTIME(at_points)(const opinfo_loops::Picture& p, const float* taps,
                                              int64_t results_apart, int64_t channels_apart,
                                              float* out);
// Transforms a tile of `source` to points.
OPINFO_LINKAGE void OPINFO_RUNTIME(gather)(const opinfo_loops::Picture& p, const float* source,
                                           int64_t tile, float* points);
// Products of so many tiles and the weights at one point, in panels: whole vectors for each tile.
OPINFO_LINKAGE void OPINFO_RUNTIME(multiply_point)(const opinfo_loops::Picture& p,
                                                   const float* tiles, int64_t count,
                                                   const float* panels, float* products);
// Transforms products to a tile of the result; whether all its sums are finite.
OPINFO_LINKAGE bool OPINFO_RUNTIME(scatter)(const opinfo_loops::Picture& p, void* const* data,
                                            float* result, int64_t tile, const float* products);
// A part of the rows from the first one on, for one element of a batch. Operands are queries, keys,
// values, the result, and terms.
OPINFO_LINKAGE void OPINFO_RUNTIME(attend)(const opinfo_loops::Attended& s,
                                           const opinfo_loops::AttendedOperand* operands,
                                           int64_t element, int64_t first, char* memory);
// Weights in panels of `panel` columns, whose rows and columns lie so far apart.
OPINFO_LINKAGE void OPINFO_RUNTIME(pack_panels)(const float* data, int64_t row, int64_t column,
                                                int64_t depth, int64_t columns, int64_t panel,
                                                float* out);
OPINFO_LINKAGE void OPINFO_RUNTIME(multiply_panel)(const opinfo_loops::Panel& p);
// A strip of rows; then the product of all strips with the panels from `first` to `end`.
OPINFO_LINKAGE void OPINFO_RUNTIME(pack_strip)(const opinfo_loops::Strips& s, int64_t strip);
OPINFO_LINKAGE void OPINFO_RUNTIME(multiply_strips)(const opinfo_loops::Strips& s, int64_t first,
                                                    int64_t end);
// A row divided by the root of the mean of its squares, times a factor of each column.
OPINFO_LINKAGE void OPINFO_RUNTIME(normalise)(const float* from, const float* factor, float* to,
                                              int64_t columns, float epsilon);
// Hyperbolic tangents of elements, or GELUs by them; `from` and `to` may be the same.
OPINFO_LINKAGE void OPINFO_RUNTIME(tangents)(const float* from, float* to, int64_t count, bool gelu);
// Numbers that neither vanish nor grow in products.
OPINFO_LINKAGE void OPINFO_RUNTIME(fill)(float* to, int64_t count);
// The largest difference, and the largest of the first numbers; those that are not numbers are left
// out.
OPINFO_LINKAGE void OPINFO_RUNTIME(compare)(const float* one, const float* two, int64_t count,
                                            float* difference, float* size);
#endif
