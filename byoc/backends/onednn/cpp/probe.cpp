
// A program that answers, a line each, which implementations a region gets, and how long they take.
// A job is a line of JSON with one string: what to do, the tensors and the constants, the recipe.
// `query` is about the form by default, `race` about all forms, `compare` about those that it names.
//
//   {"job": "query 0 2 3 4 1 4 8 8 3 4 1 4 8 8 0 eltwise src t0 dst t1 how eltwise_relu with 0 0"}
//
// It follows functions.hpp.
#include <time.h>

#include <iostream>

namespace {

using namespace opinfo_onednn;

struct Job {
  std::string mode, recipe;
  double budget = 0;  // seconds to measure for
  std::vector<std::pair<std::string, std::string>> named;  // forms to race, with implementations
  Shapes tensors, fixed;
};

std::vector<std::pair<std::string, std::string>> pairs(std::istream& words) {
  size_t count = 0, parts = 0;
  words >> count;
  std::vector<std::pair<std::string, std::string>> out(count);
  for (auto& [form, implementation] : out) {
    words >> form >> parts;
    for (std::string part; parts-- > 0 && words >> part;)
      implementation += (implementation.empty() ? "" : " ") + part;
  }
  return out;
}

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
  if (out.mode == "compare") out.named = pairs(words);
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

// The elements of the last tensor after a call, and the microseconds of that.
std::vector<float> result(const Kernel& kernel, const Tensors& tensors, double* microseconds) {
  const DLTensor& last = tensors.all.back();
  int64_t count = 1;
  for (int k = 0; k < last.ndim; ++k) count *= last.shape[k];
  std::fill_n(static_cast<char*>(last.data), count * last.dtype.bits / 8, 0);
  *microseconds = once(kernel, tensors);
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

// The names of forms and of the implementations that each of them has. Their constants have no
// memory: nothing runs.
std::vector<std::pair<std::string, std::string>> named(const Job& job) {
  std::vector<std::pair<std::string, std::string>> out;
  const Tensors fixed(job.fixed, false);
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
        out.push_back({form, names[k]});
  }
  constants().clear();
  return out;
}

// Whether one of two candidates is the other one once more: both are direct, or by default, and no
// operand is brought to another layout by one of them only.
bool same(const Candidate& one, const Candidate& two) {
  const auto direct = [](const Candidate& c) {
    return c.form.empty() || c.form == "straight" || c.form == "packed";
  };
  const auto &steps = one.kernel.steps(), &others = two.kernel.steps();
  return direct(one) && direct(two) && steps.size() == others.size() &&
         std::equal(steps.begin(), steps.end(), others.begin(), [](const Step& a, const Step& b) {
           return a.implementation() == b.implementation();
         });
}

// Microseconds of a call that no other form shortens by much, and of one that is surely longer.
constexpr double kShort = 4, kLong = 400;

bool is_short(const Kernel& kernel, const Tensors& tensors) {
  return once(kernel, tensors) < kLong && duration(kernel, tensors, 0) < kShort;
}

// The kernel by default first, then one of each form by each implementation for the widest vectors.
std::vector<Candidate> candidates(const Job& job, const Tensors& tensors, const Tensors& fixed) {
  keep(fixed);
  std::vector<Candidate> out;
  out.push_back({"", "", kernel_of(job.recipe.c_str(), job.tensors)});
  const bool named_only = job.mode == "compare";
  if (named_only && job.named.empty()) return out;
  if (job.budget > 0 && is_short(out[0].kernel, tensors)) return out;
  const auto all = named_only ? job.named : named(job);
  int widest = 0;
  for (const auto& [form, name] : all)
    if (width(name) < kAll) widest = std::max(widest, width(name));
  for (const auto& [form, name] : all) {
    if (width(name) < widest) continue;
    const auto words = 1 + std::count(name.begin(), name.end(), ' ');
    const std::string whole = job.recipe + " only " + form + " implementation " +
                              std::to_string(words) + " " + name;
    try {
      keep(fixed);
      Candidate c{form, name, kernel_of(whole.c_str(), job.tensors)};
      const bool known = std::any_of(out.begin(), out.end(),
                                     [&](const Candidate& other) { return same(c, other); });
      if (job.budget == 0 || !known) out.push_back(std::move(c));
    } catch (const std::exception&) {
    }
  }
  return out;
}

// What takes so many times as long as the best is not called again: after its first call, which
// also touches memory for the first time, and after further ones; and this if calls are long.
constexpr double kCold = 2, kHopeless = 1.5, kClose = 1.15;
// Microseconds of a long call: two of these differ by less than the last factor.
constexpr double kSteady = 1000;
// The largest difference of a result that is right.
constexpr double kRight = 2e-5;

// Times candidates that `is_short` has called the first of, the likely ones in turn: twice, and
// again until the budget is spent. The last ones come first, as they are often the fastest.
void race(std::vector<Candidate>& all, const Tensors& tensors, double budget) {
  Candidate& first = all[0];
  const std::vector<float> expected = result(first.kernel, tensors, &first.microseconds);
  double best = first.microseconds;
  const auto timed = [&](Candidate& c) {
    c.microseconds = std::min(c.microseconds, once(c.kernel, tensors));
    best = std::min(best, c.microseconds);
  };
  const auto likely = [&](const Candidate& c, double factor) {
    return c.difference <= kRight && c.microseconds < factor * best;
  };
  for (size_t k = all.size(); k-- > 1;) try {
      Candidate& c = all[k];
      c.difference = difference(expected, result(c.kernel, tensors, &c.microseconds));
      if (c.difference <= kRight) best = std::min(best, c.microseconds);
      if (likely(c, best < kSteady ? kCold : kHopeless)) timed(c);
    } catch (const std::exception&) {  // a primitive that cannot be executed, as some have bugs
      all[k].difference = 1;
    }
  const double until = seconds() + budget;
  for (int k = 0; k < 2 || (seconds() < until && k < 100); ++k)
    for (Candidate& c : all)
      if (&c == &first || likely(c, best < kSteady ? kHopeless : kClose)) timed(c);
}

std::string raced(const Job& job, const Tensors& tensors, const Tensors& fixed) {
  std::vector<Candidate> all = candidates(job, tensors, fixed);
  if (job.budget > 0 && all.size() > 1) race(all, tensors, job.budget);
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
    const std::string out = one.mode == "query" ? queried(one, tensors, fixed)
                                                : raced(one, tensors, fixed);
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
