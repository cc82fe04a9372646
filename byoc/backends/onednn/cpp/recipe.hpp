
// Regions as words: the kind, then its tensors, numbers and what follows. It follows kinds.hpp and
// quantized.hpp.
//
//   convolution src t0.p0312 weights c0.g2 dst t1.p0312 sizes 8 1 1 0 0 1 1 1 1 eltwise relu 0 0
//
// t0 is a tensor of the call, c0 a constant; what follows the dot is a function of View.
namespace opinfo_onednn {
namespace {

// A value by its name. Tables of these compile in a fraction of the time of a std::map.
template <typename Value>
struct Named {
  const char* name;
  Value value;
};

template <typename Value, size_t count>
Value named(const Named<Value> (&all)[count], const std::string& name, const char* what) {
  for (const Named<Value>& n : all)
    if (name == n.name) return n.value;
  OPINFO_THROW(ValueError) << "unknown " << what << " " << name;
}

inline Algorithm algorithm_of(const std::string& name) {
#define OPINFO_ALGORITHM(name) {#name, dnnl_##name}
  static constexpr Named<Algorithm> all[] = {
      OPINFO_ALGORITHM(eltwise_relu),      OPINFO_ALGORITHM(eltwise_logistic),
      OPINFO_ALGORITHM(eltwise_tanh),      OPINFO_ALGORITHM(eltwise_gelu_erf),
      OPINFO_ALGORITHM(eltwise_gelu_tanh), OPINFO_ALGORITHM(eltwise_exp),
      OPINFO_ALGORITHM(eltwise_abs),       OPINFO_ALGORITHM(eltwise_sqrt),
      OPINFO_ALGORITHM(eltwise_square),    OPINFO_ALGORITHM(eltwise_log),
      OPINFO_ALGORITHM(eltwise_clip),      OPINFO_ALGORITHM(eltwise_swish),
      OPINFO_ALGORITHM(eltwise_hardswish), OPINFO_ALGORITHM(eltwise_linear),
      OPINFO_ALGORITHM(eltwise_pow),       OPINFO_ALGORITHM(eltwise_soft_relu),
      OPINFO_ALGORITHM(eltwise_elu),       OPINFO_ALGORITHM(eltwise_mish),
      OPINFO_ALGORITHM(eltwise_hardsigmoid), OPINFO_ALGORITHM(eltwise_round),
      OPINFO_ALGORITHM(binary_add),        OPINFO_ALGORITHM(binary_sub),
      OPINFO_ALGORITHM(binary_mul),        OPINFO_ALGORITHM(binary_div),
      OPINFO_ALGORITHM(binary_max),        OPINFO_ALGORITHM(binary_min),
      OPINFO_ALGORITHM(pooling_max),       OPINFO_ALGORITHM(pooling_avg_include_padding),
      OPINFO_ALGORITHM(softmax_accurate),  OPINFO_ALGORITHM(softmax_log),
      OPINFO_ALGORITHM(reduction_max),     OPINFO_ALGORITHM(reduction_min),
      OPINFO_ALGORITHM(reduction_sum),     OPINFO_ALGORITHM(reduction_mean),
      OPINFO_ALGORITHM(resampling_linear), OPINFO_ALGORITHM(resampling_nearest),
      OPINFO_ALGORITHM(pooling_avg_exclude_padding),
  };
#undef OPINFO_ALGORITHM
  return named(all, name, "algorithm");
}

inline int argument_of(const std::string& name) {
  static constexpr Named<int> all[] = {
      {"src", DNNL_ARG_SRC}, {"weights", DNNL_ARG_WEIGHTS}, {"dst", DNNL_ARG_DST},
      {"src0", DNNL_ARG_SRC_0}, {"src1", DNNL_ARG_SRC_1}};
  return named(all, name, "argument");
}

// The text up to a separator, which it goes past.
inline std::string until(const char*& at, char separator) {
  const char* end = std::strchr(at, separator);
  const std::string out = end ? std::string(at, end) : std::string(at);
  at = end ? end + 1 : at + out.size();
  return out;
}

class Reader {
 public:
  Reader(const char* text, const Shapes& in) : at_(text), in_(in) {}

  bool word(std::string* out) {
    while (*at_ == ' ') ++at_;
    *out = until(at_, ' ');
    return !out->empty();
  }
  std::string word() {
    std::string out;
    if (!word(&out)) OPINFO_THROW(ValueError) << "a recipe ends too early";
    return out;
  }
  int64_t integer() { return std::strtoll(word().c_str(), nullptr, 10); }
  float real() { return std::strtof(word().c_str(), nullptr); }  // hexadecimal, or inf

  View view() {
    const std::string all = word();
    const char* at = all.c_str();
    const std::string tensor_name = until(at, '.');
    const int k = std::atoi(tensor_name.c_str() + 1);
    View v = tensor_name[0] == 'c' ? constants().at(k)->view(k) : tensor(in_, k);
    while (*at != 0) {
      const std::string part = until(at, '.');
      const char* rest = part.c_str() + 1;
      switch (part[0]) {
        case 'p': v = v.permuted(rest); break;
        case 'e': v = v.expanded(std::atoi(rest)); break;
        case 't': v = v.trailing(std::atoi(rest)); break;
        case 'g': v = v.grouped(std::atoll(rest)); break;
        case 'm': v = v.merged(); break;
        case 'f': v = v.flat(); break;
        default: OPINFO_THROW(ValueError) << "unknown axes " << part;
      }
    }
    return v;
  }

 private:
  const char* at_;
  const Shapes& in_;
};

inline Recipe read(const char* text, const Shapes& in) {
  Reader reader(text, in);
  Recipe r;
  r.kind = reader.word();
  for (std::string word; reader.word(&word);) {
    if (word == "form" || word == "only") {
      r.form = reader.word();
      r.strict = word == "only";
    } else if (word == "implementation") {
      std::string name;
      for (int64_t n = reader.integer(); n > 0; --n) name += reader.word() + (n > 1 ? " " : "");
      r.post.implementations.push_back(name);
    } else if (word == "how") {
      r.how = algorithm_of(reader.word());
    } else if (word == "with") {
      r.alpha = reader.real();
      r.beta = reader.real();
    } else if (word == "eltwise") {
      const Algorithm how = algorithm_of(reader.word());
      const float alpha = reader.real(), beta = reader.real();
      r.post.items.push_back({false, how, alpha, beta, View{}});
    } else if (word == "binary") {
      const Algorithm how = algorithm_of(reader.word());
      r.post.items.push_back({true, how, 0, 0, reader.view()});
    } else if (word == "numbers") {
      for (int64_t n = reader.integer(); n > 0; --n) r.numbers.push_back(reader.integer());
    } else if (word == "scale" || word == "zero") {
      const int arg = argument_of(reader.word());
      const int mask = static_cast<int>(reader.integer());
      r.scales.items.push_back({word == "zero", arg, mask, reader.view()});
    } else {
      r.views.emplace_back(word, reader.view());
    }
  }
  return r;
}

// What a region does for tensors of these shapes; in its usual form, that which needs no race.
OPINFO_CALLED Kernel kernel_of(const char* text, const Shapes& in, bool usual = false) {
  static constexpr Named<Kernel (*)(const Recipe&)> kinds[] = {
      {"convolution", convolution},
      {"deconvolution", deconvolution},
      {"matmul", matmul},
      {"pooling", pooling},
      {"softmax", softmax},
      {"layer_norm", layer_norm},
      {"concat", concat},
      {"binary", binary},
      {"eltwise", eltwise},
      {"quantized_convolution", quantized_convolution},
      {"quantized_matmul", quantized_matmul},
      {"quantized_binary", quantized_binary},
      {"converted", converted},
#ifdef OPINFO_ATTENTION
      {"attention", attention},
#endif
#ifdef OPINFO_RMS_NORM
      {"rms_norm", rms_norm},
#endif
  };
  static constexpr const char* several[] = {"convolution", "deconvolution", "matmul", "softmax",
                                            "attention"};
  Recipe r = read(text, in);
  if (usual) {
    r.form.clear();
    r.strict = false;
    r.post.implementations.clear();
  }
  const auto is_kind = [&](const char* kind) { return r.kind == kind; };
  if (r.strict && r.form != "straight" &&
      std::none_of(std::begin(several), std::end(several), is_kind))
    OPINFO_THROW(ValueError) << r.kind << " has no form " << r.form;
  return named(kinds, r.kind, "kind of region")(r);
}

}  // namespace
}  // namespace opinfo_onednn
