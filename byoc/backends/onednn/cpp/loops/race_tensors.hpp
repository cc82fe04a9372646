
// Fills the tensors of a race of forms, and compares their results. It follows vectors.hpp.
OPINFO_LINKAGE void OPINFO_RUNTIME(fill)(float* to, int64_t count) {
  constexpr int64_t kPeriod = 97;
  for (int64_t k = 0; k < opinfo_loops::lesser(kPeriod, count); ++k)
    to[k] = static_cast<float>(k + 1) / kPeriod;
  for (int64_t done = kPeriod; done < count; done *= 2)
    memcpy(to + done, to, 4 * opinfo_loops::lesser(done, count - done));
}

OPINFO_LINKAGE void OPINFO_RUNTIME(compare)(const float* one, const float* two, int64_t count,
                                            float* difference, float* size) {
  using namespace opinfo_loops;
  const auto absolute = [](const Lanes& v) OPINFO_ALWAYS { return v < 0 ? -v : v; };
  Lanes most = all_of(0), largest = all_of(0);
  int64_t k = 0;
  for (; k + kLanes <= count; k += kLanes) {
    const Lanes a = load(one + k), apart = absolute(a - load(two + k)), length = absolute(a);
    most = apart > most ? apart : most;
    largest = length > largest ? length : largest;
  }
  *difference = *size = 0;
  const auto take = [&](float apart, float length) {
    if (apart > *difference) *difference = apart;
    if (length > *size) *size = length;
  };
  for (int lane = 0; lane < kLanes; ++lane) take(most[lane], largest[lane]);
  for (; k < count; ++k) take(__builtin_fabsf(one[k] - two[k]), __builtin_fabsf(one[k]));
}
