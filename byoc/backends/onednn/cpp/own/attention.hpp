
// softmax(q k + masks) v as one region: scores exist for a block of rows only. It follows kinds.hpp,
// masked_keys.hpp and interface.hpp.
#define OPINFO_ATTENTION

namespace opinfo_onednn {
namespace {

using opinfo_loops::kTileRows;
using opinfo_loops::AttendedOperand;
using opinfo_loops::whole_vectors;

// A tensor of a call or a constant as one matrix for each element of a batch, which has several axes.
struct Batched {
  int from = 0;
  const float* constant = nullptr;
  int64_t row = 0, column = 0;
  std::vector<int64_t> steps;

  AttendedOperand operand(void* const* data) const {
    return {constant ? constant : static_cast<const float*>(data[from]), steps.data(), row, column};
  }
};

// The sizes and places of a recipe's tensors.
struct Scores {
  std::vector<int64_t> batch;
  int64_t elements = 1, rows, keys, depth, columns;
  Batched queries, transposed, values, result;
  std::vector<Batched> terms;
  float scale, factor;  // of the scores, of the result

  // `numbers`: the batch's extents after their number; rows, keys, depth, columns; of each tensor
  // a step for each axis of the batch, those of rows and columns.
  explicit Scores(const Recipe& r) : scale(r.alpha), factor(r.beta) {
    auto at = r.numbers.begin();
    batch.resize(*at++);
    for (int64_t& extent : batch) elements *= extent = *at++;
    rows = *at++, keys = *at++, depth = *at++, columns = *at++;
    const auto placed = [&](const View& v) {
      Batched out;
      out.from = v.from;
      if (v.from < 0)
        out.constant = constants()[~v.from]->elements(v);
      out.steps.assign(at, at + batch.size());
      at += batch.size();
      out.row = *at++, out.column = *at++;
      return out;
    };
    queries = placed(r["queries"]), transposed = placed(r["keys"]), values = placed(r["values"]);
    result = placed(r["dst"]);
    for (const View& v : r.all("term")) terms.push_back(placed(v));
  }
};

class Attention : public Work {
 public:
  explicit Attention(const Scores& s) : s_(s) {
    find_masked();
    divide();
  }

  // True, as a step says: where sums are not finite, those of the separate operators are not either.
  bool run(void* const* data) const override {
    std::vector<AttendedOperand> operands;
    operands.reserve(4 + s_.terms.size());
    for (const Batched* b : {&s_.queries, &s_.transposed, &s_.values, &s_.result})
      operands.push_back(b->operand(data));
    for (const Batched& t : s_.terms) operands.push_back(t.operand(data));
    const AttendedOperand* all = operands.data();
    in_parallel(s_.elements * parts_, [&](int64_t k) {
      OPINFO_RUNTIME(attend)(sizes_, all, k / parts_, k % parts_ * part_, room<3>(sizes_.bytes()));
    });
    return true;
  }

 private:
  // Keys that the only term hides, if it is a constant and the same for the whole batch.
  void find_masked() {
    if (s_.terms.size() != 1) return;
    const Batched& term = s_.terms[0];
    for (size_t k = 0; k < s_.batch.size(); ++k)
      if (s_.batch[k] != 1 && term.steps[k] != 0) return;
    if (!term.constant || term.column != 1) return;
    for (int64_t i = 0; i < s_.rows; ++i) masked_.add(term.constant + i * term.row, 1, s_.keys);
    if (!masked_.worthwhile(s_.keys)) masked_.seen.clear();
  }

  // A block of rows has as many as leave room for their scores in half of the second cache, and few
  // if rows see different keys. If threads have no batch of their own, each one has some rows.
  void divide() {
    const int64_t width = whole_vectors(s_.keys), out = whole_vectors(s_.columns);
    const int64_t most = second_cache() / 2 / (4 * (width + out));
    int64_t fit = std::max<int64_t>(kTileRows, most / kTileRows * kTileRows);
    const bool masked = !masked_.seen.empty();
    if (masked) fit = std::min(fit, kMaskedRows);
    const int64_t threads = most_threads();
    parts_ = 1;
    if (s_.elements % threads != 0 && s_.elements < 4 * threads)
      parts_ = std::min(threads, std::max<int64_t>(1, s_.rows / kFewestRows));
    part_ = divided(s_.rows, parts_);
    parts_ = (s_.rows + part_ - 1) / part_;
    sizes_ = {s_.batch.data(), static_cast<int64_t>(s_.batch.size()), s_.rows, part_, s_.keys,
              s_.depth, s_.columns, static_cast<int64_t>(s_.terms.size()), width, out,
              divided(part_, (part_ + fit - 1) / fit), s_.scale, s_.factor,
              part_ < kFew && s_.transposed.row == 1,
              s_.values.column == 1 && s_.columns % opinfo_loops::kLanes == 0,
              masked ? masked_.seen.data() : nullptr, masked_.gap};
  }

  // The rows of each of `count` parts, whole tiles unless all rows are one part.
  static int64_t divided(int64_t rows, int64_t count) {
    if (count == 1) return rows;
    const int64_t each = (rows + count - 1) / count;
    return (each + kTileRows - 1) / kTileRows * kTileRows;
  }

  static constexpr int64_t kFewestRows = 24, kFew = 4, kMaskedRows = 4 * kTileRows;
  Scores s_;
  MaskedKeys masked_;
  opinfo_loops::Attended sizes_;
  int64_t parts_, part_;
};

inline bool fused(Kernel& out, const Scores& s) {
  out.push_back(Step("attention:own", std::make_shared<Attention>(s)));
  return true;
}

constexpr int kMostAxes = 6;

// The operators one by one, on copies of what is not plain, with all scores in memory.
inline bool separate(Kernel& out, const Recipe& r, const Scores& s) {
  const int n = static_cast<int>(s.batch.size()), rank = n + 2;
  if (rank > kMostAxes) return false;
  const auto strided = [&](const View& v, const Batched& b, int64_t rows, int64_t columns) {
    View w{rank, v.from, v.type, {}, {}};
    for (int k = rank; k-- > 0;) {
      w.strides[k] = k < n ? b.steps[k] : k == n ? b.row : b.column;
      w.dims[k] = w.strides[k] == 0 ? 1 : k < n ? s.batch[k] : k == n ? rows : columns;
      if (w.dims[k] == 1)  // as the library wants it
        w.strides[k] = k + 1 < rank ? w.dims[k + 1] * w.strides[k + 1] : 1;
    }
    return w;
  };
  const auto plain = [&](const View& v) { return View::plain(v.dims, v.rank, v.type, v.from); };
  const auto operand = [&](const char* name, const Batched& b, int64_t rows, int64_t columns) {
    const View v = strided(r[name], b, rows, columns);
    if (v.from < 0 || v.desc() == plain(v).desc()) return v;
    const View own = out.own(plain(v));
    copy(out, v, own);
    return own;
  };
  const auto multiply = [&](const View& a, const View& b, const View& c, const Post& post) {
    append(
        out, post, 0, c,
        [&](const Attributes& attributes) {
          return product_of(a, b.desc(), nullptr, c, attributes);
        },
        [&](Step& step, const Description&) { step.add(DNNL_ARG_SRC, a).add(DNNL_ARG_WEIGHTS, b); });
  };
  const auto scaled = [](float factor) {
    Post post;
    if (factor != 1) post.items.push_back({false, dnnl_eltwise_linear, factor, 0, View{}});
    return post;
  };
  std::vector<std::string>* const names = listing();
  listing() = nullptr;  // it has one candidate: that by default
  Post post = scaled(s.scale);
  const std::vector<View> terms = r.all("term");
  for (size_t k = 0; k < terms.size(); ++k)
    post.items.push_back({true, dnnl_binary_add, 0, 0, strided(terms[k], s.terms[k], s.rows, s.keys)});
  const View queries = operand("queries", s.queries, s.rows, s.depth),
             keys = operand("keys", s.transposed, s.depth, s.keys),
             values = operand("values", s.values, s.keys, s.columns);
  View scores = queries, result = strided(r["dst"], s.result, s.rows, s.columns);
  std::copy(s.batch.begin(), s.batch.end(), scores.dims);
  scores.dims[n] = s.rows, scores.dims[n + 1] = s.keys;
  scores = out.own(plain(scores));
  multiply(queries, keys, scores, post);
  Recipe how;
  how.how = dnnl_softmax_accurate;
  softmax_along(out, how, Post(), scores, scores, rank - 1);
  const bool direct = result.desc() == plain(result).desc();
  const View product = direct ? result : out.own(plain(result));
  multiply(scores, values, product, scaled(s.factor));
  if (!direct) copy(out, product, result);
  if (names) names->push_back("separate");
  listing() = names;
  return true;
}

OPINFO_CALLED Kernel attention(const Recipe& r) {
  const Scores s(r);
  const auto straight = [&](Kernel& out) { return fused(out, s); };
  const auto apart = [&](Kernel& out) { return separate(out, r, s); };
  return in_form(r.form, r.strict, {{"straight", straight}, {"separate", apart, true}});
}

}  // namespace
}  // namespace opinfo_onednn
