
// The jobs of the program in probe.cpp: how a line is read, the tensors of a job, and what a call of
// a kernel takes and computes.
//
// It follows functions.hpp.
#include <stdio.h>
#include <time.h>

namespace {

using namespace opinfo_onednn;

struct Job {
  std::string mode, recipe;
  double budget = 0;  // seconds to measure for
  std::vector<std::pair<std::string, std::string>> named;  // forms to race, with implementations
  Shapes tensors, fixed;
};

int64_t integer(const char*& words) { return std::strtoll(until(words, ' ').c_str(), nullptr, 10); }

std::vector<std::pair<std::string, std::string>> pairs(const char*& words) {
  std::vector<std::pair<std::string, std::string>> out(integer(words));
  for (auto& [form, implementation] : out) {
    form = until(words, ' ');
    for (int64_t parts = integer(words); parts > 0; --parts)
      implementation += (implementation.empty() ? "" : " ") + until(words, ' ');
  }
  return out;
}

Shapes shapes(const char*& words) {
  Shapes out(integer(words));
  for (Dims& s : out) {
    int64_t rank = integer(words);
    s = {integer(words)};
    for (; rank > 0; --rank) s.push_back(integer(words));
  }
  return out;
}

Job job(const std::string& line) {
  const size_t from = line.find(": \"") + 3, to = line.rfind('"');
  const std::string text = line.substr(from, to - from);
  const char* words = text.c_str();
  Job out;
  out.mode = until(words, ' ');
  out.budget = std::strtod(until(words, ' ').c_str(), nullptr);
  if (out.mode == "compare") out.named = pairs(words);
  out.tensors = shapes(words);
  out.fixed = shapes(words);
  out.recipe = words;
  return out;
}

// Tensors with numbers that neither vanish nor grow; without memory if nothing runs.
struct Tensors {
  std::vector<std::unique_ptr<char, decltype(&std::free)>> memory;
  std::vector<DLTensor> all;

  Tensors(const Shapes& shapes, bool filled) {
    for (const Dims& s : shapes) {
      const auto type = static_cast<Type>(s[0]);
      int64_t count = 1;
      for (size_t k = 1; k < s.size(); ++k) count *= s[k];
      const int64_t size = dnnl_data_type_size(static_cast<dnnl_data_type_t>(type));
      const size_t bytes = (size * count + 64) / 64 * 64;
      char* data = filled ? static_cast<char*>(std::aligned_alloc(64, bytes)) : nullptr;
      if (filled && type == dnnl_f32)
        OPINFO_RUNTIME(fill)(reinterpret_cast<float*>(data), count);
      else if (filled)
        std::memset(data, 0, bytes);
      memory.emplace_back(data, &std::free);
      DLTensor t{};
      t.data = data;
      t.device = {kDLCPU, 0};
      t.ndim = static_cast<int32_t>(s.size()) - 1;
      t.dtype = {static_cast<uint8_t>(type == dnnl_bf16  ? kDLBfloat
                                      : type == dnnl_u8  ? kDLUInt
                                      : type == dnnl_f32 ? kDLFloat
                                                          : kDLInt),
                 static_cast<uint8_t>(8 * size), 1};
      t.shape = const_cast<int64_t*>(s.data() + 1);
      all.push_back(t);
    }
  }
};

double seconds() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// Microseconds of a call.
double once(const Kernel& kernel, const Tensors& tensors) {
  void* data[kOwn + kMostOwn];
  for (size_t k = 0; k < tensors.all.size(); ++k) data[k] = tensors.all[k].data;
  const double from = seconds();
  kernel(data);
  return 1e6 * (seconds() - from);
}

// Microseconds of a call: the shortest of those that fit into the budget, at least two.
double duration(const Kernel& kernel, const Tensors& tensors, double budget) {
  once(kernel, tensors);
  double best = 1e12;
  const double until = seconds() + budget;
  for (int k = 0; k < 2 || seconds() < until; ++k) best = std::min(best, once(kernel, tensors));
  return best;
}

// The elements of the last tensor after a call, and the microseconds of that.
std::vector<float> result(const Kernel& kernel, const Tensors& tensors, double* microseconds) {
  const DLTensor& last = tensors.all.back();
  int64_t count = 1;
  for (int k = 0; k < last.ndim; ++k) count *= last.shape[k];
  std::fill_n(static_cast<char*>(last.data), count * last.dtype.bits / 8, 0);
  *microseconds = once(kernel, tensors);
  if (type_of(last.dtype) != dnnl_f32) return {};
  const float* all = static_cast<const float*>(last.data);
  return std::vector<float>(all, all + count);
}

// The largest difference, as a part of the largest element.
double difference(const std::vector<float>& one, const std::vector<float>& two) {
  float most = 0, size = 0;
  OPINFO_RUNTIME(compare)(one.data(), two.data(), static_cast<int64_t>(one.size()), &most, &size);
  return std::isfinite(most) && std::isfinite(size) ? most / std::max(size, 1e-30f) : 1;
}

}  // namespace
