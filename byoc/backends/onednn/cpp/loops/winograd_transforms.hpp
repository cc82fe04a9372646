
// Winograd's minimal filtering F(m, 3): m sums of three products by m + 2 products, after
// S. Winograd, "Arithmetic Complexity of Computations", 1980. It follows vectors.hpp.
namespace opinfo_loops {
namespace {

// F(outputs, taps) for points: sum k of weight[k] data[i + k] = sum p of
// kOutput[i][p] (sum k of kWeights[p][k] weight[k]) (sum j of kInput[p][j] data[j]).
// Its points are 0, pairs that differ in sign, and infinity.
template <int outputs>
struct Minimal;

template <>
struct Minimal<1> {  // nothing to save
  static constexpr int kOut = 1, kTaps = 1, kPoints = 1;
  static constexpr float kInput[1][1] = {{1}};
  static constexpr double kWeights[1][1] = {{1}};
  static constexpr float kOutput[1][1] = {{1}};
};

template <>
struct Minimal<2> {  // 0, 1, -1
  static constexpr int kOut = 2, kTaps = 3, kPoints = 4;
  static constexpr float kInput[4][4] = {{-1, 0, 1, 0}, {0, 1, 1, 0}, {0, -1, 1, 0}, {0, -1, 0, 1}};
  static constexpr double kWeights[4][3] = {{-1, 0, 0}, {.5, .5, .5}, {.5, -.5, .5}, {0, 0, 1}};
  static constexpr float kOutput[2][4] = {{1, 1, 1, 0}, {0, 1, -1, 1}};
};

template <>
struct Minimal<4> {  // 0, 3/4, -3/4, 3/2, -3/2: all but the weights are exact in binary
  static constexpr int kOut = 4, kTaps = 3, kPoints = 6;
  static constexpr float kInput[6][6] = {
      {1.265625, 0, -2.8125, 0, 1, 0},       {0, -1.6875, -2.25, 0.75, 1, 0},
      {0, 1.6875, -2.25, -0.75, 1, 0},       {0, -0.84375, -0.5625, 1.5, 1, 0},
      {0, 0.84375, -0.5625, -1.5, 1, 0},     {0, 1.265625, 0, -2.8125, 0, 1}};
  static constexpr double kWeights[6][3] = {
      {64. / 81, 0, 0},                      {-128. / 243, -32. / 81, -8. / 27},
      {-128. / 243, 32. / 81, -8. / 27},     {32. / 243, 16. / 81, 8. / 27},
      {32. / 243, -16. / 81, 8. / 27},       {0, 0, 1}};
  static constexpr float kOutput[4][6] = {{1, 1, 1, 1, 1, 0},
                                          {0, 0.75, -0.75, 1.5, -1.5, 0},
                                          {0, 0.5625, 0.5625, 2.25, 2.25, 0},
                                          {0, 0.421875, -0.421875, 3.375, -3.375, 1}};
};

// Whether rows and columns of points p and -p differ by the signs of odd powers only.
template <typename F>
constexpr bool paired() {
  for (int p = 1; p + 1 < F::kPoints; p += 2) {
    for (int j = 0; j < F::kPoints; ++j)
      if (F::kInput[p][j] != (j % 2 ? -1 : 1) * F::kInput[p + 1][j]) return false;
    for (int i = 0; i < F::kOut; ++i)
      if (F::kOutput[i][p] != (i % 2 ? -1 : 1) * F::kOutput[i][p + 1]) return false;
  }
  return true;
}

// sum += factor * value, for a factor that is known.
template <bool first>
OPINFO_INLINE void accumulate(Lanes& sum, float factor, const Lanes& value) {
  if (first)
    sum = factor == 1 ? value : factor * value;
  else if (factor == 1 || factor == -1)
    sum = factor == 1 ? sum + value : sum - value;
  else
    sum += factor * value;
}

// The terms j, j + step, ... of row p of the input's matrix.
template <typename F, int p, int j, int step, bool first = true>
OPINFO_INLINE void input_terms(Lanes& sum, const Lanes* data) {
  if constexpr (j < F::kPoints) {
    constexpr float factor = F::kInput[p][j];
    if constexpr (factor != 0) accumulate<first>(sum, factor, data[j]);
    input_terms<F, p, j + step, step, first && factor == 0>(sum, data);
  }
}

template <typename F, int p = 0, typename Store>
OPINFO_INLINE void input_points(const Lanes* data, Store store) {
  static_assert(paired<F>());
  if constexpr (p < F::kPoints && p % 2 == 1 && p + 1 < F::kPoints) {
    Lanes even, odd;
    input_terms<F, p, 0, 2>(even, data);
    input_terms<F, p, 1, 2>(odd, data);
    store(At<p>(), even + odd);
    store(At<p + 1>(), even - odd);
    input_points<F, p + 2>(data, store);
  } else if constexpr (p < F::kPoints) {
    Lanes sum;
    input_terms<F, p, 0, 1>(sum, data);
    store(At<p>(), sum);
    input_points<F, p + 1>(data, store);
  }
}

// Term p of output i; `data` has the sums and the differences of paired points.
template <typename F, int i, int p, bool first = true>
OPINFO_INLINE void output_terms(Lanes& sum, const Lanes* data) {
  if constexpr (p < F::kPoints) {
    constexpr bool pair = p > 0 && p + 1 < F::kPoints;
    constexpr float factor = F::kOutput[i][p];
    if constexpr (factor != 0) accumulate<first>(sum, factor, data[pair ? p + i % 2 : p]);
    output_terms<F, i, pair ? p + 2 : p + 1, first && factor == 0>(sum, data);
  }
}

template <typename F, int i = 0, typename Store>
OPINFO_INLINE void outputs(const Lanes* data, Store store) {
  if constexpr (i < F::kOut) {
    Lanes sum;
    output_terms<F, i, 0>(sum, data);
    store(At<i>(), sum);
    outputs<F, i + 1>(data, store);
  }
}

template <typename F, typename Load, typename Store>
OPINFO_INLINE void transform_input(Load load, Store store) {
  Lanes data[F::kPoints];
  times<F::kPoints>([&](auto j) OPINFO_ALWAYS { data[j] = load(j); });
  input_points<F>(data, store);
}

template <typename F, typename Load, typename Store>
OPINFO_INLINE void transform_output(Load load, Store store) {
  Lanes data[F::kPoints];
  times<F::kPoints>([&](auto p) OPINFO_ALWAYS { data[p] = load(p); });
  times<(F::kPoints - 1) / 2>([&](auto k) OPINFO_ALWAYS {
    constexpr int p = 2 * k + 1;
    if constexpr (p + 1 < F::kPoints) {
      const Lanes one = data[p], two = data[p + 1];
      data[p] = one + two;
      data[p + 1] = one - two;
    }
  });
  outputs<F>(data, store);
}

}  // namespace
}  // namespace opinfo_loops
