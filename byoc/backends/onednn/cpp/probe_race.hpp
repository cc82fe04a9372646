
// The kernels that a region could get, timed in turns.
//
// It follows probe_jobs.hpp.
namespace {

using namespace opinfo_onednn;

// The constants of the next kernel, in no layout that another kernel asked for.
void keep(const Tensors& fixed) {
  constants().clear();
  for (const DLTensor& t : fixed.all) constants().push_back(std::make_unique<Constant>(&t));
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
                           "packed", "moved", "winograd2", "winograd4", "separate", "streamed",
                           "tiled"}) {
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
  // Without vectors in any name, all but reference code: that takes a thousand times as long. The
  // kernel by default may do in steps what a form has reference code only for, as one primitive.
  int widest = is_slow(out[0].kernel) ? 0 : 1;
  for (const auto& [form, name] : all)
    widest = std::max(widest, width(name) < kAll ? width(name) : 1);
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

}  // namespace
