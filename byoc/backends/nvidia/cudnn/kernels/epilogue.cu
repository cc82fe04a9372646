// What follows a convolution: residual, bias, activation, second addend, and conversions of tensors
// between channels first and channels last. It follows elements.cuh. Blocks have 128 threads.
// The rest of a number, which becomes the quotient.
__device__ inline unsigned split(unsigned& n, const Divisor& d) {
  const unsigned whole = quotient(n, d), rest = n - whole * d.by;
  n = whole;
  return rest;
}

// Where the channels of a pixel begin in x, which was computed by phases.
__device__ inline unsigned phased(const Epilogue& e, unsigned image, unsigned pixel) {
  const Phases& p = e.phases;
  unsigned across = split(pixel, p.columns) + p.shifts[1], down = pixel + p.shifts[0];
  const unsigned right = split(across, p.strides[1]), below = split(down, p.strides[0]);
  const unsigned place = (image * p.counts[0] + down) * p.counts[1] + across;
  return ((place * p.strides[0].by + below) * p.strides[1].by + right) * e.channels.by;
}

// N elements side by side of each thread. x and y may be the same tensor. Of phases, channels are
// the last axis of y.
template <int N, bool PHASED = false>
__device__ inline void finish(const Epilogue& e) {
  const unsigned place = blockIdx.x * 128u + threadIdx.x, first = place * N;
  if (first >= e.count) return;
  const auto read = [](const void* from, unsigned k) {
    return from == nullptr ? Part<N>{} : static_cast<const Part<N>*>(from)[k];
  };
  unsigned from = place;
  if (PHASED) {
    unsigned pixel = first;
    const unsigned channel = split(pixel, e.channels), rest = split(pixel, e.phases.pixels);
    from = (phased(e, pixel, rest) + channel) / N;
  }
  const Part<N> x = read(e.x, from), residual = read(e.residual, place),
                added = read(e.added, place);
  float bias[N] = {};
  if (e.bias != nullptr) {
    const unsigned line = quotient(first, e.inside),
                   channel = line - quotient(line, e.channels) * e.channels.by;
    const Element* terms = static_cast<const Element*>(e.bias) + channel;
    if (e.inside.by > 1) {
      for (int k = 0; k < N; ++k) bias[k] = wide(*terms);
    } else {
      const Part<N> some = *reinterpret_cast<const Part<N>*>(terms);
      for (int k = 0; k < N; ++k) bias[k] = wide(some.at[k]);
    }
  }
  Part<N> y;
#pragma unroll
  for (int k = 0; k < N; ++k) {
    float value = wide(x.at[k]);
    if (e.residual != nullptr) value += wide(residual.at[k]);
    if (e.bias != nullptr) value += bias[k];
    value = activated(e, value);
    if (e.added != nullptr) value += wide(added.at[k]);
    y.at[k] = narrow(value);
  }
  static_cast<Part<N>*>(e.y)[place] = y;
}

extern "C" __global__ void __launch_bounds__(128) epilogue_parts(Epilogue e) { finish<kWidth>(e); }
extern "C" __global__ void __launch_bounds__(128) epilogue_elements(Epilogue e) { finish<1>(e); }
extern "C" __global__ void __launch_bounds__(128) phased_parts(Epilogue e) {
  finish<kWidth, true>(e);
}
extern "C" __global__ void __launch_bounds__(128) phased_elements(Epilogue e) { finish<1, true>(e); }

// x is matrices of rows and columns; a block transposes a tile of 32 x 32 elements.
template <bool PHASED = false>
__device__ inline void convert(const Epilogue& e, float* tile) {
  constexpr int kTile = 32, kRows = 4, kSteps = kTile / kRows, kPitch = kTile + 1;
  const unsigned across = (e.columns + kTile - 1) / kTile, down = (e.rows + kTile - 1) / kTile;
  const unsigned matrix = blockIdx.x / (across * down), number = blockIdx.x % (across * down);
  const unsigned row0 = number / across * kTile, column0 = number % across * kTile;
  const unsigned lane = threadIdx.x % kTile, line = threadIdx.x / kTile;
  const unsigned begin = matrix * e.rows * e.columns;
  const auto read = [](const void* from, unsigned k) {
    return wide(static_cast<const Element*>(from)[k]);
  };
#pragma unroll
  for (int k = 0; k < kSteps; ++k) {
    const unsigned row = row0 + line + kRows * k, column = column0 + lane;
    if (row < e.rows && column < e.columns)
      tile[(line + kRows * k) * kPitch + lane] =
          read(e.x, (PHASED ? phased(e, matrix, row) : begin + row * e.columns) + column);
  }
  float residual[kSteps] = {}, added[kSteps] = {};
#pragma unroll
  for (int k = 0; k < kSteps; ++k) {
    const unsigned row = row0 + lane, column = column0 + line + kRows * k;
    if (row >= e.rows || column >= e.columns) continue;
    if (e.residual != nullptr) residual[k] = read(e.residual, begin + column * e.rows + row);
    if (e.added != nullptr) added[k] = read(e.added, begin + column * e.rows + row);
  }
  __syncthreads();
#pragma unroll
  for (int k = 0; k < kSteps; ++k) {
    const unsigned row = row0 + lane, column = column0 + line + kRows * k;
    if (row >= e.rows || column >= e.columns) continue;
    float value = tile[lane * kPitch + line + kRows * k];
    if (e.residual != nullptr) value += residual[k];
    if (e.bias != nullptr) value += read(e.bias, e.channel_is_row != 0 ? row : column);
    value = activated(e, value);
    if (e.added != nullptr) value += added[k];
    static_cast<Element*>(e.y)[begin + column * e.rows + row] = narrow(value);
  }
}

extern "C" __global__ void __launch_bounds__(128) epilogue_converts(Epilogue e) {
  extern __shared__ float4 room[];
  convert(e, reinterpret_cast<float*>(room));
}
extern "C" __global__ void __launch_bounds__(128) phased_converts(Epilogue e) {
  extern __shared__ float4 room[];
  convert<true>(e, reinterpret_cast<float*>(room));
}

extern "C" __global__ void __launch_bounds__(128) arranges(Arrangement a) {
  unsigned rest = blockIdx.x * 128u + threadIdx.x;
  if (rest >= a.count) return;
  Element& to = static_cast<Element*>(a.to)[rest];
  const unsigned in = split(rest, a.in), right = split(rest, a.taps[1]),
                 below = split(rest, a.taps[0]), out = split(rest, a.out),
                 phase = split(rest, a.strides[1]);
  // A convolution reads its window forwards, a transposed one writes it.
  const unsigned row = rest + a.strides[0].by * (a.taps[0].by - 1 - below),
                 column = phase + a.strides[1].by * (a.taps[1].by - 1 - right);
  if (row >= a.sizes[0] || column >= a.sizes[1]) {
    to = narrow(0.f);
    return;
  }
  const unsigned pixel = row * a.sizes[1] + column, pixels = a.sizes[0] * a.sizes[1];
  to = static_cast<const Element*>(a.from)[a.last != 0 ? (in * pixels + pixel) * a.out.by + out
                                                       : (in * a.out.by + out) * pixels + pixel];
}
