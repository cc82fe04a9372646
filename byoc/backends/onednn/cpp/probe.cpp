
// A program that answers, a line each, which implementations a region gets, and how long they take.
// A job is a line of JSON with one string: what to do, the tensors and the constants, the recipe.
// `query` is about the form by default, `race` about all forms, `compare` about those that it names.
//
//   {"job": "query 0 2 3 4 1 4 8 8 3 4 1 4 8 8 0 eltwise src t0 dst t1 how eltwise_relu with 0 0"}
//
// It follows probe_race.hpp.
namespace {

using namespace opinfo_onednn;

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += static_cast<unsigned char>(c) < ' ' ? ' ' : c;
  }
  return out + "\"";
}

std::string spelled(double value) {
  char digits[32];
  std::snprintf(digits, sizeof digits, "%g", value);
  return digits;
}

std::string steps_of(const Kernel& kernel) {
  std::string out = "\"steps\": [";
  for (size_t k = 0; k < kernel.steps().size(); ++k)
    out += (k > 0 ? ", " : "") + quoted(kernel.steps()[k].implementation());
  return out + "]";
}

std::string raced(const Job& job, const Tensors& tensors, const Tensors& fixed) {
  std::vector<Candidate> all = candidates(job, tensors, fixed);
  if (job.budget > 0 && all.size() > 1) race(all, tensors, job.budget);
  opinfo_regions::Text out;
  for (const Candidate& c : all)
    out << (&c == &all[0] ? "" : ", ") << "{\"form\": \"" << c.form
        << "\", \"implementation\": " << quoted(c.implementation) << ", "
        << steps_of(c.kernel) << ", \"microseconds\": " << spelled(c.microseconds)
        << ", \"difference\": " << spelled(c.difference) << "}";
  return "{\"forms\": [" + out.all() + "]}";
}

std::string queried(const Job& job, const Tensors& tensors, const Tensors& fixed) {
  keep(fixed);
  const Kernel kernel = kernel_of(job.recipe.c_str(), job.tensors);
  std::string out = "{" + steps_of(kernel);
  if (job.budget > 0)
    out += ", \"microseconds\": " + spelled(duration(kernel, tensors, job.budget));
  return out + "}";
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
  char* line = nullptr;
  size_t room = 0;
  std::puts("{}");
  std::fflush(stdout);
  for (ssize_t length; (length = getline(&line, &room, stdin)) > 0;) {
    if (line[length - 1] == '\n') line[length - 1] = 0;
    std::puts(answer(line).c_str());
    std::fflush(stdout);
  }
  std::free(line);
  return 0;
}
