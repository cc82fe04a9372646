
// A program that answers, a line each, which implementations a region gets, and how long they take.
// A job is a line of JSON with one string: what to do, the tensors and the constants, the recipe.
//
//   {"job": "query 2 3 4 1 4 8 8 3 4 1 4 8 8 0 eltwise src t0 dst t1 how eltwise_relu with 0 0"}
//
// It follows functions.hpp.
#include <time.h>

#include <iostream>

namespace {

using namespace opinfo_onednn;

struct Job {
  std::string mode, recipe;
  double budget = 0;  // seconds to measure for
  Shapes tensors, fixed;
};

Shapes shapes(std::istream& words) {
  size_t count = 0;
  words >> count;
  Shapes out(count);
  for (Dims& s : out) {
    int64_t rank = 0, type = 0;
    words >> rank >> type;
    s = {type};
    for (int64_t e; rank-- > 0 && words >> e;) s.push_back(e);
  }
  return out;
}

Job job(const std::string& line) {
  const size_t from = line.find(": \"") + 3, to = line.rfind('"');
  std::istringstream words(line.substr(from, to - from));
  Job out;
  words >> out.mode >> out.budget;
  out.tensors = shapes(words);
  out.fixed = shapes(words);
  std::getline(words, out.recipe);
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
      if (data != nullptr) std::memset(data, 0, bytes);
      for (int64_t k = 0; filled && type == Type::f32 && k < count; ++k)
        reinterpret_cast<float*>(data)[k] = static_cast<float>(k % 97 + 1) / 97;
      memory.emplace_back(data, &std::free);
      DLTensor t{};
      t.data = data;
      t.device = {kDLCPU, 0};
      t.ndim = static_cast<int32_t>(s.size()) - 1;
      t.dtype = {static_cast<uint8_t>(type == Type::bf16  ? kDLBfloat
                                      : type == Type::u8  ? kDLUInt
                                      : type == Type::f32 ? kDLFloat
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

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += static_cast<unsigned char>(c) < ' ' ? ' ' : c;
  }
  return out + "\"";
}

// The elements of the last tensor after a call.
std::vector<float> result(const Kernel& kernel, const Tensors& tensors) {
  void* data[kOwn + kMostOwn];
  for (size_t k = 0; k < tensors.all.size(); ++k) data[k] = tensors.all[k].data;
  const DLTensor& last = tensors.all.back();
  int64_t count = 1;
  for (int k = 0; k < last.ndim; ++k) count *= last.shape[k];
  std::fill_n(static_cast<char*>(last.data), count * last.dtype.bits / 8, 0);
  kernel(data);
  if (type_of(last.dtype) != Type::f32) return {};
  const float* all = static_cast<const float*>(last.data);
  return std::vector<float>(all, all + count);
}

// The largest difference, as a part of the largest element.
double difference(const std::vector<float>& one, const std::vector<float>& two) {
  double most = 0, size = 1e-30;
  for (size_t k = 0; k < one.size(); ++k) {
    most = std::max(most, static_cast<double>(std::abs(one[k] - two[k])));
    size = std::max(size, static_cast<double>(std::abs(one[k])));
  }
  return std::isfinite(most) && std::isfinite(size) ? most / size : 1;
}

// The constants of the next kernel, in no layout that another kernel asked for.
void keep(const Tensors& fixed) {
  constants().clear();
  for (const DLTensor& t : fixed.all) constants().push_back(std::make_unique<Constant>(&t));
}

std::string steps_of(const Kernel& kernel) {
  std::string out = "\"steps\": [";
  for (size_t k = 0; k < kernel.steps().size(); ++k)
    out += (k > 0 ? ", " : "") + quoted(kernel.steps()[k].implementation());
  return out + "]";
}

// The instruction set in the name of an implementation: 0 for reference code, kAll for none.
constexpr int kAll = 4;
int width(const std::string& name) {
  if (name.rfind("ref", 0) == 0) return 0;
  if (name.find("sse41") != std::string::npos) return 1;
  if (name.find("avx512") != std::string::npos) return 3;
  return name.find("avx") != std::string::npos ? 2 : kAll;
}

struct Candidate {
  std::string form, implementation;
  Kernel kernel;
  double microseconds = 1e12, difference = 0;
};

// The names of forms and of the implementations that each of them has.
std::vector<Candidate> named(const Job& job, const Tensors& fixed) {
  std::vector<Candidate> out;
  for (const char* form : {"straight", "swapped", "rows", "layer", "unpacked", "turned", "padded",
                           "packed", "moved", "winograd2", "winograd4", "separate", "streamed"}) {
    std::vector<std::string> names;
    listing() = &names;
    try {
      keep(fixed);
      kernel_of((job.recipe + " only " + form).c_str(), job.tensors);
    } catch (const std::exception&) {
      names.clear();
    }
    listing() = nullptr;
    for (size_t k = 0; k < names.size(); ++k)
      if (std::find(names.begin(), names.begin() + k, names[k]) == names.begin() + k)
        out.push_back({form, names[k], {}});
  }
  return out;
}

// Microseconds of a call that no other form shortens by much.
constexpr double kShort = 4;

// The kernel by default first, then one of each form by each implementation for the widest vectors.
std::vector<Candidate> candidates(const Job& job, const Tensors& tensors, const Tensors& fixed) {
  keep(fixed);
  std::vector<Candidate> out;
  out.push_back({"", "", kernel_of(job.recipe.c_str(), job.tensors)});
  if (job.budget > 0 && duration(out[0].kernel, tensors, 0) < kShort) return out;
  std::vector<Candidate> all = named(job, fixed);
  int widest = 0;
  for (const Candidate& c : all)
    if (width(c.implementation) < kAll) widest = std::max(widest, width(c.implementation));
  for (Candidate& c : all) {
    if (width(c.implementation) < widest) continue;
    const auto words = 1 + std::count(c.implementation.begin(), c.implementation.end(), ' ');
    const std::string whole = job.recipe + " only " + c.form + " implementation " +
                              std::to_string(words) + " " + c.implementation;
    try {
      keep(fixed);
      c.kernel = kernel_of(whole.c_str(), job.tensors);
      out.push_back(std::move(c));
    } catch (const std::exception&) {
    }
  }
  return out;
}

// What is this much slower in its first call is not called often.
constexpr double kHopeless = 1.5;

// Times candidates, the likely ones in turn until the budget is spent.
void race(std::vector<Candidate>& all, const Tensors& tensors, double budget) {
  const std::vector<float> expected = result(all[0].kernel, tensors);
  double best = 1e12;
  for (Candidate& c : all) try {
      c.difference = difference(expected, result(c.kernel, tensors));
      c.microseconds = once(c.kernel, tensors);
      best = std::min(best, c.microseconds);
    } catch (const std::exception&) {  // a primitive that cannot be executed, as some have bugs
      c.difference = 1;
    }
  const double until = seconds() + budget;
  for (int k = 0; k < 3 || (seconds() < until && k < 100); ++k)
    for (Candidate& c : all)
      if (&c == &all[0] || c.microseconds < kHopeless * best) {
        c.microseconds = std::min(c.microseconds, once(c.kernel, tensors));
        best = std::min(best, c.microseconds);
      }
}

std::string raced(const Job& job, const Tensors& tensors, const Tensors& fixed) {
  std::vector<Candidate> all = candidates(job, tensors, fixed);
  if (job.budget > 0) race(all, tensors, job.budget);
  std::ostringstream out;
  for (const Candidate& c : all)
    out << (&c == &all[0] ? "" : ", ") << "{\"form\": \"" << c.form
        << "\", \"implementation\": " << quoted(c.implementation) << ", "
        << steps_of(c.kernel) << ", \"microseconds\": " << c.microseconds
        << ", \"difference\": " << c.difference << "}";
  return "{\"forms\": [" + out.str() + "]}";
}

std::string queried(const Job& job, const Tensors& tensors, const Tensors& fixed) {
  keep(fixed);
  const Kernel kernel = kernel_of(job.recipe.c_str(), job.tensors);
  std::ostringstream out;
  out << "{" << steps_of(kernel);
  if (job.budget > 0) out << ", \"microseconds\": " << duration(kernel, tensors, job.budget);
  return out.str() + "}";
}

std::string answer(const std::string& line) {
  try {
    const Job one = job(line);
    const Tensors tensors(one.tensors, one.budget > 0), fixed(one.fixed, one.budget > 0);
    const std::string out = one.mode == "race" ? raced(one, tensors, fixed)
                                               : queried(one, tensors, fixed);
    constants().clear();
    return out;
  } catch (const std::exception& e) {
    return "{\"error\": " + quoted(e.what()) + "}";
  }
}

}  // namespace

// The program's `main`: it is linked with the object that libraries are linked with.
OPINFO_LINKAGE int OPINFO_RUNTIME(probe)() {
  std::cout << "{}" << std::endl;
  for (std::string line; std::getline(std::cin, line);) std::cout << answer(line) << std::endl;
  return 0;
}
