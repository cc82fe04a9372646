// A convolution of groups in half precision, and what follows it: by tensor cores, channels last.
//
// A block computes a tile of pixels for one group: it copies the group's channels of the part of the image
// that the tile reads, zeros beside the image, and the group's weights. Products are summed over units of
// 8 channels of a tap of the window. They do not depend on the order in which elements are added, so
// each thread reads 16 bytes side by side, and what lies where in a fragment follows from that.
//
// Defined by the host: IN, OUT, the channels of a group, which are even; ROWS, COLUMNS, the window. It
// follows tensor_cores.cuh, elements.cuh and grouped.h. Blocks have 4 warps.
constexpr int kUnits = (IN + 7) / 8, kBlocks = (OUT + 7) / 8, kChunks = ROWS * COLUMNS * kUnits, kSteps = (kChunks + 3) / 4;
// Units from a row of weights, and from a pixel, to the next: rows that are read at once lie in other banks.
constexpr int kRow = 4 * (kSteps | 1), kPixel = kUnits % 8 == 0 ? kUnits + 4 : kUnits;

// What is copied at once: elements of a pixel or a tap; those beyond IN, up to whole units, are zeros.
constexpr int kPiece = IN % 8 == 0 ? 8 : IN % 4 == 0 ? 4 : 2, kPieces = IN / kPiece,
              kUnitPieces = kUnits * 8 / kPiece;

// Elements to shared memory, or zeros; complete after `arrive`.
__device__ inline void copy(uint4* units, int piece, const Element* from, bool inside) {
  Element* to = reinterpret_cast<Element*>(units) + piece * kPiece;
#ifdef EMULATED
  *reinterpret_cast<Part<kPiece>*>(to) =
      inside ? *reinterpret_cast<const Part<kPiece>*>(from) : Part<kPiece>{};
#else
  const unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(to));
  if constexpr (kPiece == 8)
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                 : : "r"(address), "l"(from), "r"(inside ? 16 : 0));
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;"
                 : : "r"(address), "l"(from), "n"(2 * kPiece), "r"(inside ? 2 * kPiece : 0));
#endif
}

__device__ inline void arrive() {
#ifndef EMULATED
  asm volatile("cp.async.wait_all;" ::: "memory");
#endif
  __syncthreads();
}

// Two elements of y side by side.
__device__ inline void finish_two(const Epilogue& e, unsigned place, unsigned channel, float first,
                                  float second) {
  const auto add = [&](const void* from, unsigned at) {
    if (from == nullptr) return;
    const Part<2> more = static_cast<const Part<2>*>(from)[at / 2];
    first += wide(more.at[0]), second += wide(more.at[1]);
  };
  add(e.residual, place);
  add(e.bias, channel);
  first = activated(e, first), second = activated(e, second);
  add(e.added, place);
  static_cast<Part<2>*>(e.y)[place / 2] = {narrow(first), narrow(second)};
}

// A warp has M times 16 pixels of the tile.
template <int M>
__device__ inline void grouped(const Grouped& g) {
  extern __shared__ float4 room[];
  uint4* weights = reinterpret_cast<uint4*>(room);
  int* taps = reinterpret_cast<int*>(weights + kBlocks * 8 * kRow);
  uint4* image = reinterpret_cast<uint4*>(taps + 4 * kSteps);
  const int thread = threadIdx.x, lane = thread & 31, warp = thread >> 5, quad = lane & 3,
            line = lane >> 2;
  int rest = blockIdx.x;
  const int group = rest % g.groups;
  rest /= g.groups;
  const int column0 = rest % g.tiles[1] * g.tile[1];
  rest /= g.tiles[1];
  const int row0 = rest % g.tiles[0] * g.tile[0], number = rest / g.tiles[0];

  const int top = row0 * g.strides[0] - g.padding[0], left = column0 * g.strides[1] - g.padding[1];
  const Element* x = static_cast<const Element*>(g.epilogue.x);
  for (int k = thread; k < g.part[0] * g.part[1] * kUnitPieces; k += 128) {
    const int place = k / kUnitPieces, piece = k % kUnitPieces, down = place / g.part[1],
              row = top + down, column = left + place - down * g.part[1];
    const bool inside = piece < kPieces && row >= 0 && row < g.image[0] && column >= 0 &&
                        column < g.image[1];
    const int pixel = (number * g.image[0] + row) * g.image[1] + column;
    copy(image + place * kPixel, piece,
         inside ? x + (pixel * g.groups + group) * IN + piece * kPiece : x, inside);
  }
  constexpr int kRowPieces = kSteps * 4 * 8 / kPiece;
  const Element* w = static_cast<const Element*>(g.weights) + group * OUT * ROWS * COLUMNS * IN;
  for (int k = thread; k < kBlocks * 8 * kRowPieces; k += 128) {
    const int row = k / kRowPieces, place = k % kRowPieces, tap = place / kUnitPieces,
              piece = place % kUnitPieces;
    const bool inside = row < OUT && tap < ROWS * COLUMNS && piece < kPieces;
    copy(weights + row * kRow, place,
         inside ? w + (row * ROWS * COLUMNS + tap) * IN + piece * kPiece : w, inside);
  }
  for (int k = thread; k < 4 * kSteps; k += 128) {
    const int tap = k / kUnits, row = tap / COLUMNS, column = tap % COLUMNS;
    taps[k] = (row * g.dilation[0] * g.part[1] + column * g.dilation[1]) * kPixel + k % kUnits;
  }
  arrive();

  // Of the thread's pixels: where they are in the part of the image, and in y, if they are.
  int from[M][2], to[M][2];
#pragma unroll
  for (int m = 0; m < M; ++m)
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int k = (warp * M + m) * 16 + line + 8 * r, row = k / g.tile[1],
                column = k - row * g.tile[1];
      const bool inside =
          row < g.tile[0] && row0 + row < g.result[0] && column0 + column < g.result[1];
      from[m][r] =
          inside ? (row * g.strides[0] * g.part[1] + column * g.strides[1]) * kPixel : 0;
      to[m][r] = inside ? (number * g.result[0] + row0 + row) * g.result[1] + column0 + column : -1;
    }
  float sums[M][kBlocks][4] = {};
#pragma unroll 2
  for (int step = 0; step < kSteps; ++step) {
    const int chunk = 4 * step + quad;
    const bool inside = kChunks % 4 == 0 || chunk < kChunks;  // else 0 times what may not be finite
    const uint4* at = image + taps[inside ? chunk : 0];
    uint4 pixels[M][2];
#pragma unroll
    for (int m = 0; m < M; ++m)
#pragma unroll
      for (int r = 0; r < 2; ++r)
        pixels[m][r] = inside ? at[from[m][r]] : make_uint4(0, 0, 0, 0);
#pragma unroll
    for (int n = 0; n < kBlocks; ++n) {
      const uint4 b = weights[(n * 8 + line) * kRow + chunk];
#pragma unroll
      for (int m = 0; m < M; ++m) {
        const uint4 &up = pixels[m][0], &low = pixels[m][1];
        multiply(sums[m][n], up.x, low.x, up.y, low.y, b.x, b.y);
        multiply(sums[m][n], up.z, low.z, up.w, low.w, b.z, b.w);
      }
    }
  }
#pragma unroll
  for (int m = 0; m < M; ++m)
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      if (to[m][r] < 0) continue;
#pragma unroll
      for (int n = 0; n < kBlocks; ++n) {
        if (OUT % 8 != 0 && n * 8 + quad * 2 >= OUT) continue;
        const unsigned channel = group * OUT + n * 8 + quad * 2;
        finish_two(g.epilogue, static_cast<unsigned>(to[m][r]) * (g.groups * OUT) + channel, channel,
                   sums[m][n][2 * r], sums[m][n][2 * r + 1]);
      }
    }
}

extern "C" __global__ void __launch_bounds__(128) grouped_64(Grouped g) { grouped<1>(g); }
extern "C" __global__ void __launch_bounds__(128) grouped_128(Grouped g) { grouped<2>(g); }
