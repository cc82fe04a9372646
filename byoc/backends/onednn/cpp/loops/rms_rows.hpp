
// A row divided by the root of the mean of its squares. It follows vectors.hpp.
OPINFO_LINKAGE void OPINFO_RUNTIME(normalise)(const float* from, const float* factor, float* to,
                                              int64_t columns, float epsilon) {
  using namespace opinfo_loops;
  constexpr int kSums = 4;  // that do not wait for each other
  Lanes sums[kSums] = {};
  int64_t k = 0;
  for (; k + kSums * kLanes <= columns; k += kSums * kLanes)
    times<kSums>([&](auto j) OPINFO_ALWAYS {
      const Lanes x = load(from + k + j * kLanes);
      sums[j] += x * x;
    });
  float parts[kLanes], sum = 0;
  store(parts, (sums[0] + sums[1]) + (sums[2] + sums[3]));
  for (float part : parts) sum += part;
  for (; k < columns; ++k) sum += from[k] * from[k];
  const float inverse = 1 / __builtin_sqrtf(sum / static_cast<float>(columns) + epsilon);
  for (k = 0; k + kLanes <= columns; k += kLanes)
    store(to + k, load(from + k) * inverse * load(factor + k));
  for (; k < columns; ++k) to[k] = from[k] * inverse * factor[k];
}
