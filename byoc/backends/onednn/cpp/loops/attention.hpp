
// softmax(q k + masks) v as one region: scores exist for a block of rows only. It follows kinds.hpp,
// threads.hpp and attention_tiles.hpp.
#define OPINFO_ATTENTION

namespace opinfo_onednn {
namespace {

// A tensor of a call or a constant as one matrix for each element of a batch, which has several axes.
struct Batched {
  int from = 0;
  const float* constant = nullptr;
  int64_t row = 0, column = 0;
  std::vector<int64_t> steps;

  Matrix matrix(void* const* data, const std::vector<int64_t>& dims, int64_t element) const {
    const float* at = constant ? constant : static_cast<const float*>(data[from]);
    for (size_t k = dims.size(); k-- > 0; element /= dims[k]) at += element % dims[k] * steps[k];
    return {at, row, column};
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
        out.constant = static_cast<const float*>(
            constants()[~v.from]->as(v.desc(), v.desc()).get_data_handle());
      out.steps.assign(at, at + batch.size());
      at += batch.size();
      out.row = *at++, out.column = *at++;
      return out;
    };
    queries = placed(r["queries"]), transposed = placed(r["keys"]), values = placed(r["values"]);
    result = placed(r["dst"]);
    if (const auto found = r.views.find("term"); found != r.views.end())
      for (const View& v : found->second) terms.push_back(placed(v));
  }
};

class Attention {
 public:
  explicit Attention(const Scores& s) : s_(s) { divide(); }

  // True, as a step says: where sums are not finite, those of the separate operators are not either.
  bool operator()(void* const* data) const {
    in_parallel(s_.elements * parts_, [&](int64_t k) {
      const int64_t first = k % parts_ * part_;
      run(data, k / parts_, first, std::min(part_, s_.rows - first));
    });
    return true;
  }

 private:
  // A block of rows has as many as leave room for their scores in half of the second cache. If
  // threads have no batch of their own, each one has some rows.
  void divide() {
    width_ = whole_vectors(s_.keys);
    out_ = whole_vectors(s_.columns);
    const int64_t most = second_cache() / 2 / (4 * (width_ + out_));
    const int64_t fit = std::max<int64_t>(kTileRows, most / kTileRows * kTileRows);
    const int64_t threads = most_threads();
    parts_ = 1;
    if (s_.elements % threads != 0 && s_.elements < 4 * threads)
      parts_ = std::min(threads, std::max<int64_t>(1, s_.rows / kFewestRows));
    part_ = divided(s_.rows, parts_);
    parts_ = (s_.rows + part_ - 1) / part_;
    block_ = divided(part_, (part_ + fit - 1) / fit);
    few_ = part_ < kFew && s_.transposed.row == 1;
    in_place_ = s_.values.column == 1 && s_.columns % kLanes == 0;
  }

  // The rows of each of `count` parts, whole tiles unless all rows are one part.
  static int64_t divided(int64_t rows, int64_t count) {
    if (count == 1) return rows;
    const int64_t each = (rows + count - 1) / count;
    return (each + kTileRows - 1) / kTileRows * kTileRows;
  }

  // A batch's element: its matrices, its terms, and memory for what a thread computes of it.
  struct Element {
    Matrix queries, keys, values, result;
    std::vector<Matrix> terms;
    float *packed, *tall, *some, *scores, *sums, *totals;
  };

  // Some rows of the result for one element of the batch.
  void run(void* const* data, int64_t element, int64_t first, int64_t count) const {
    const auto matrix = [&](const Batched& b) { return b.matrix(data, s_.batch, element); };
    Element e{matrix(s_.queries), matrix(s_.transposed), matrix(s_.values), matrix(s_.result)};
    for (const Batched& t : s_.terms) e.terms.push_back(matrix(t));
    const int64_t sizes[] = {s_.depth * width_, s_.keys * out_, block_ * whole_vectors(s_.depth),
                             block_ * width_, block_ * out_, block_};
    int64_t bytes = 0, k = 0;
    for (int64_t size : sizes) bytes += 4 * whole_vectors(size);
    float* own = reinterpret_cast<float*>(room<3>(bytes));
    for (float** part : {&e.packed, &e.tall, &e.some, &e.scores, &e.sums, &e.totals})
      *part = own, own += whole_vectors(sizes[k++]);
    if (!few_)
      over_panels(s_.keys, [&](int64_t j, int64_t columns) {
        pack({e.keys.at(0, j), e.keys.row, e.keys.column}, s_.depth, columns,
             e.packed + j * s_.depth, whole_vectors(columns));
      });
    if (!in_place_)
      over_panels(s_.columns, [&](int64_t j, int64_t columns) {
        pack({e.values.at(0, j), e.values.row, e.values.column}, s_.keys, columns,
             e.tall + j * s_.keys, whole_vectors(columns));
      });
    for (int64_t from = first; from < first + count; from += block_)
      block(e, from, std::min(block_, first + count - from));
  }

  // Rows whose scores have room in the second cache.
  void block(const Element& e, int64_t from, int64_t rows) const {
    pack_scaled({e.queries.at(from, 0), e.queries.row, e.queries.column}, rows, s_.depth, s_.scale,
                e.some);
    if (few_)
      for (int64_t i = 0; i < rows; ++i)
        multiply_rows(e.some + i * s_.depth, {e.keys.data, e.keys.column, 1}, s_.keys, s_.depth,
                      e.scores + i * width_);
    else
      over_panels(s_.keys, [&](int64_t j, int64_t columns) {
        multiply_panel(e.some, s_.depth, rows, e.packed + j * s_.depth, whole_vectors(columns),
                       columns, s_.depth, e.scores + j, width_, false);
      });
    std::vector<RowTerm> terms(e.terms.size());
    for (int64_t i = 0; i < rows; ++i) {
      for (size_t k = 0; k < terms.size(); ++k)
        terms[k] = {e.terms[k].at(from + i, 0), e.terms[k].column == 1};
      e.totals[i] = add_terms(e.scores + i * width_, s_.keys, terms.data(), terms.size());
    }
    for (int64_t i = 0; i < rows; ++i)
      e.totals[i] = exponentials(e.scores + i * width_, s_.keys, e.totals[i]);
    multiply_values(e, rows);
    for (int64_t i = 0; i < rows; ++i)
      finish(e.sums + i * out_, s_.factor / e.totals[i],
             const_cast<float*>(e.result.at(from + i, 0)), e.result.column);
  }

  // Exponentials times values: of so many keys at a time that the values stay in the first cache.
  void multiply_values(const Element& e, int64_t rows) const {
    for (int64_t key = 0; key < s_.keys; key += kKeys)
      over_panels(s_.columns, [&](int64_t j, int64_t columns) {
        const int64_t wide = whole_vectors(columns);
        const float* values =
            in_place_ ? e.values.at(key, j) : e.tall + j * s_.keys + key * wide;
        multiply_panel(e.scores + key, width_, rows, values, in_place_ ? e.values.row : wide,
                       columns, std::min(kKeys, s_.keys - key), e.sums + j, out_, key > 0);
      });
  }

  template <typename Each>
  static void over_panels(int64_t columns, Each each) {
    for (int64_t j = 0; j < columns; j += kTileColumns)
      each(j, std::min(kTileColumns, columns - j));
  }

  // A row of the result from its sums.
  void finish(const float* from, float factor, float* to, int64_t step) const {
    int64_t j = 0;
    for (; step == 1 && j + kLanes <= s_.columns; j += kLanes) store(to + j, load(from + j) * factor);
    for (; j < s_.columns; ++j) to[j * step] = from[j] * factor;
  }

  static constexpr int64_t kFewestRows = 24, kKeys = 96, kFew = 4;
  Scores s_;
  int64_t width_, out_, parts_, part_, block_;
  bool few_, in_place_;  // keys are not packed; values are not packed
};

inline bool fused(Kernel& out, const Scores& s) {
  auto whole = std::make_shared<Attention>(s);
  out.push_back(Step("attention:own", [whole](void* const* data) { return (*whole)(data); }));
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
    using Desc = dnnl::matmul::primitive_desc;
    append(
        out, post, 0, c,
        [&](const dnnl::primitive_attr& attr) {
          return Desc(cpu(), a.desc(), b.desc(), c.desc(), attr);
        },
        [&](Step& step, const Description&) { step.add(DNNL_ARG_SRC, a).add(DNNL_ARG_WEIGHTS, b); });
  };
  const auto scaled = [](float factor) {
    Post post;
    if (factor != 1) post.items.push_back({false, algorithm::eltwise_linear, factor, 0, View{}});
    return post;
  };
  std::vector<std::string>* const names = listing();
  listing() = nullptr;  // it has one candidate: that by default
  Post post = scaled(s.scale);
  for (size_t k = 0; k < s.terms.size(); ++k)
    post.items.push_back({true, algorithm::binary_add, 0, 0,
                          strided(r.views.at("term")[k], s.terms[k], s.rows, s.keys)});
  const View queries = operand("queries", s.queries, s.rows, s.depth),
             keys = operand("keys", s.transposed, s.depth, s.keys),
             values = operand("values", s.values, s.keys, s.columns);
  View scores = queries, result = strided(r["dst"], s.result, s.rows, s.columns);
  std::copy(s.batch.begin(), s.batch.end(), scores.dims);
  scores.dims[n] = s.rows, scores.dims[n + 1] = s.keys;
  scores = out.own(plain(scores));
  multiply(queries, keys, scores, post);
  Recipe how;
  how.how = algorithm::softmax_accurate;
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
  return in_form(r.form, r.strict,
                 {{"straight", [&](Kernel& out) { return fused(out, s); }},
                  {"separate", [&](Kernel& out) { return separate(out, r, s); }, true}});
}

}  // namespace
}  // namespace opinfo_onednn
