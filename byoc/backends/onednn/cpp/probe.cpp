
// A program that answers, a line each, which implementations a region gets, and how long they take.
// A job is a line of JSON with one string: what to do, the tensors and the constants, the recipe.
//
//   {"job": "query 2 3 4 1 4 8 8 3 4 1 4 8 8 0 eltwise src t0 dst t1 how eltwise_relu with 0 0"}
//
// It follows recipe.hpp.
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

// Microseconds of a call: the shortest of those that fit into the budget, at least two.
double duration(const Kernel& kernel, const Tensors& tensors, double budget) {
  void* data[kOwn + kMostOwn];
  for (size_t k = 0; k < tensors.all.size(); ++k) data[k] = tensors.all[k].data;
  kernel(data);
  double best = 1e9;
  const double until = seconds() + budget;
  for (int k = 0; k < 2 || seconds() < until; ++k) {
    const double from = seconds();
    kernel(data);
    best = std::min(best, seconds() - from);
  }
  return 1e6 * best;
}

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += static_cast<unsigned char>(c) < ' ' ? ' ' : c;
  }
  return out + "\"";
}

std::string told(const Kernel& kernel, const Tensors& tensors, const Job& job) {
  std::ostringstream out;
  out << "{\"steps\": [";
  for (size_t k = 0; k < kernel.steps().size(); ++k)
    out << (k > 0 ? ", " : "") << quoted(kernel.steps()[k].implementation());
  out << "]";
  if (job.budget > 0) out << ", \"microseconds\": " << duration(kernel, tensors, job.budget);
  out << "}";
  return out.str();
}

// The constants of the next kernel, in no layout that another kernel asked for.
void keep(const Tensors& fixed) {
  constants().clear();
  for (const DLTensor& t : fixed.all) constants().push_back(std::make_unique<Constant>(&t));
}

// A kernel of each form, by each implementation; reference implementations only if asked for.
void forms(const Job& job, const Tensors& tensors, const Tensors& fixed, std::ostream& out) {
  const char* before = "";
  for (const char* form : {"straight", "swapped", "rows", "layer", "unpacked", "packed", "moved"}) {
    std::vector<std::string> names;
    const std::string recipe = job.recipe + " only " + form;
    listing() = &names;
    try {
      keep(fixed);
      kernel_of(recipe.c_str(), job.tensors);
    } catch (const std::exception&) {
      names.clear();
    }
    listing() = nullptr;
    for (size_t k = 0; k < names.size(); ++k) {
      const std::string& name = names[k];
      if (std::find(names.begin(), names.begin() + k, name) != names.begin() + k) continue;
      if (name.rfind("ref", 0) == 0 && k > 0) continue;
      const auto words = 1 + std::count(name.begin(), name.end(), ' ');
      const std::string whole = recipe + " implementation " + std::to_string(words) + " " + name;
      try {
        keep(fixed);
        const Kernel kernel = kernel_of(whole.c_str(), job.tensors);
        out << before << "{\"form\": \"" << form << "\", \"implementation\": " << quoted(name)
            << ", \"kernel\": " << told(kernel, tensors, job) << "}";
        before = ", ";
      } catch (const std::exception&) {
      }
    }
  }
}

std::string answer(const std::string& line) {
  std::ostringstream out;
  try {
    const Job one = job(line);
    const Tensors tensors(one.tensors, one.budget > 0), fixed(one.fixed, one.budget > 0);
    keep(fixed);
    if (one.mode == "forms") {
      out << "{\"forms\": [";
      forms(one, tensors, fixed, out);
      out << "]}";
    } else {
      out << told(kernel_of(one.recipe.c_str(), one.tensors), tensors, one);
    }
    constants().clear();
  } catch (const std::exception& e) {
    return "{\"error\": " + quoted(e.what()) + "}";
  }
  return out.str();
}

}  // namespace

int main() {
  std::cout << "{}" << std::endl;
  for (std::string line; std::getline(std::cin, line);) std::cout << answer(line) << std::endl;
}
