
// Primitives that do as much as they can of what follows them. It follows steps.hpp, and tangents.hpp if
// that is there.
namespace opinfo_onednn {
namespace {

// The weights' layout to ask for: the library's choice, or what it chose before.
inline MemoryDesc wanted(const View& v) {
  return v.from < 0 ? constants()[~v.from]->preferred(v) : v.any();
}

inline bool starts(const char* name, const char* with) {
  return std::strncmp(name, with, std::strlen(with)) == 0;
}

// Whether a primitive is a reference implementation, or does its post-ops with one: a convolution by
// products of matrices takes 7 ns for each element of a ReLU, which is 0.2 ns apart. One of halves would
// round before what is apart.
inline bool slow(const Description& pd, bool post, Type type) {
  const char* name = pd.implementation();
  if (starts(name, "ref")) return true;
  if (!post) return false;
  return starts(name, "conv:any") ||
         (type == dnnl_f32 && starts(name, "x64:gemm") && pd.is_convolution());
}

// Go to the first implementation whose name begins so; false if there is none.
inline bool select(const Description& pd, const std::string& name) {
  do {
    if (starts(pd.implementation(), name.c_str())) return true;
  } while (pd.next());
  return false;
}

// Where the names of all implementations of main primitives are written, if anywhere.
inline std::vector<std::string>*& listing() {
  static std::vector<std::string>* names = nullptr;
  return names;
}

inline void list(const Description& pd) {
  do listing()->push_back(pd.implementation());
  while (pd.next());
}

// Describes a primitive with attributes, and gives it its operands but for the result.
using Describe = Called<Description(const Attributes&)>;
using Bind = Called<void(Step&, const Description&)>;

// Whether an item is a loop of our own.
inline bool is_own([[maybe_unused]] const Post::Item& i, [[maybe_unused]] const View& dst) {
#ifdef OPINFO_TANGENTS
  return !i.binary && has_own_tangent(i.how, dst);
#else
  return false;
#endif
}

// A primitive that does what it can of `post` from item `from` on: all of it, or as much as it has
// more than a reference implementation for. What is left follows in place, step by step.
OPINFO_CALLED void append(Kernel& out, const Post& post, size_t from, const View& dst,
                          Describe describe, Bind bind);

OPINFO_CALLED Description binary_of(Algorithm how, const View& one, const View& two, const View& dst,
                                    const Attributes& a) {
  return described(dnnl_binary_primitive_desc_create, how, one.desc().get(), two.desc().get(),
                   dst.desc().get(), a.get());
}

OPINFO_CALLED Description eltwise_of(Algorithm how, const View& src, const View& dst, float alpha,
                                     float beta, const Attributes& a) {
  return described(dnnl_eltwise_forward_primitive_desc_create, dnnl_forward_inference, how,
                   src.desc().get(), dst.desc().get(), alpha, beta, a.get());
}

OPINFO_CALLED void append_rest(Kernel& out, const Post& post, size_t from, const View& dst) {
  if (from == post.items.size()) return;
  const Post::Item& i = post.items[from];
#ifdef OPINFO_TANGENTS
  if (is_own(i, dst)) {
    out.push_back(tangents(i.how, dst, dst));
    return append_rest(out, post, from + 1, dst);
  }
#endif
  if (i.binary) {
    append(
        out, post, from + 1, dst,
        [&](const Attributes& a) { return binary_of(i.how, dst, i.other, dst, a); },
        [&](Step& s, const Description&) {
          s.add(DNNL_ARG_SRC_0, dst).add(DNNL_ARG_SRC_1, i.other);
        });
    return;
  }
  append(
      out, post, from + 1, dst,
      [&](const Attributes& a) { return eltwise_of(i.how, dst, dst, i.alpha, i.beta, a); },
      [&](Step& s, const Description&) { s.add(DNNL_ARG_SRC, dst); });
}

void append(Kernel& out, const Post& post, size_t from, const View& dst, Describe describe,
            Bind bind) {
  Description best;
  size_t to = from, end = from;
  while (end < post.items.size() && !is_own(post.items[end], dst)) ++end;
  for (size_t k = end + 1; k-- > from && (!best || slow(best, to > from, dst.type));) {
    try {
      Description pd = describe(Attributes(post, from, k));
      if (from == 0 && listing() && k == end) {
        list(pd);
        pd = describe(Attributes(post, from, k));
      }
      for (const std::string& name : post.implementations) {
        if (from > 0 || select(pd, name)) break;
        pd = describe(Attributes(post, from, k));
      }
      if (!best || !slow(pd, k > from, dst.type)) best = pd, to = k;
    } catch (const Refused&) {  // not with these items
    }
  }
  if (!best) best = describe(Attributes(post, from, from));  // says why not
  Step s(best, post, from, to);
  bind(s, best);
  s.add(DNNL_ARG_DST, dst);
  out.push_back(std::move(s));
  append_rest(out, post, to, dst);
}

OPINFO_CALLED Kernel anchored(const Post& post, const View& dst, Describe describe, Bind bind) {
  Kernel out;
  append(out, post, 0, dst, describe, bind);
  return out;
}

// An equivalent of a region's primitive; its function, which the caller keeps, returns false where it
// does not apply.
struct Form {
  const char* name;
  Called<bool(Kernel&)> make;
  bool by_race = false;  // never chosen without being measured
};

// The step of a kernel that has no more than a reference implementation.
inline bool is_slow(const Kernel& kernel) {
  for (const Step& step : kernel.steps())
    if (step.implementation().find("ref") != std::string::npos) return true;
  return false;
}

// A kernel in the form of this name; else in the first one that needs no reference implementation.
OPINFO_CALLED Kernel in_form(const std::string& name, bool strict,
                             const std::vector<Form>& forms) {
  for (const Form& f : forms) {
    Kernel kernel;
    if (name == f.name && f.make(kernel)) return kernel;
  }
  if (strict) OPINFO_THROW(ValueError) << "not in the form " << name;
  Kernel first;
  bool any = false;
  for (const Form& f : forms) {
    Kernel kernel;
    if (f.by_race || !f.make(kernel)) continue;
    if (!is_slow(kernel)) return kernel;
    if (!any) first = std::move(kernel), any = true;
  }
  return first;
}

}  // namespace
}  // namespace opinfo_onednn
