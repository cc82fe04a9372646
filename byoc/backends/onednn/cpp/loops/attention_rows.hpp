
// Rows of attention: scores, exponentials, sums of values. It follows attention_tiles.hpp.
namespace opinfo_loops {
namespace {

// A batch's element: its matrices, its terms, and memory for what a thread computes of it.
struct AttendedElement {
  Matrix queries, keys, values, result;
  const Matrix* terms;
  RowTerm* row_terms;
  float *packed, *tall, *some, *scores, *sums, *totals;
  float squares;  // of all keys; infinite if no key may be left out
};

inline Matrix matrix(const Attended& s, const AttendedOperand& o, int64_t element) {
  const float* at = o.data;
  for (int64_t k = s.axes; k-- > 0; element /= s.extents[k])
    at += element % s.extents[k] * o.steps[k];
  return {at, o.row, o.column};
}

inline AttendedElement element_of(const Attended& s, const AttendedOperand* operands,
                                  int64_t element, char* memory) {
  AttendedElement e{};
  e.squares = __builtin_inff();
  Matrix* const matrices[] = {&e.queries, &e.keys, &e.values, &e.result};
  for (int k = 0; k < 4; ++k) *matrices[k] = matrix(s, operands[k], element);
  float* own = reinterpret_cast<float*>(memory);
  float** const parts[] = {&e.packed, &e.tall, &e.some, &e.scores, &e.sums, &e.totals};
  for (int k = 0; k < Attended::kParts; own += s.size(k++)) *parts[k] = own;
  Matrix* terms = reinterpret_cast<Matrix*>(own);
  for (int64_t k = 0; k < s.terms; ++k) terms[k] = matrix(s, operands[4 + k], element);
  e.terms = terms;
  e.row_terms = reinterpret_cast<RowTerm*>(terms + s.terms);
  return e;
}

template <typename Use>
void over_panels(int64_t columns, Use use) {
  for (int64_t j = 0; j < columns; j += kTileColumns) use(j, lesser(kTileColumns, columns - j));
}

// A row of the result from its sums.
inline void finish(const float* from, float factor, int64_t columns, float* to, int64_t step) {
  int64_t j = 0;
  for (; step == 1 && j + kLanes <= columns; j += kLanes) store(to + j, load(from + j) * factor);
  for (; j < columns; ++j) to[j * step] = from[j] * factor;
}

// The sum of the squares of a matrix, row by row; not finite if an element is not.
inline float squares(const Matrix& m, int64_t rows, int64_t columns) {
  if (m.column != 1 && m.row == 1) return squares({m.data, m.column, 1}, columns, rows);
  Lanes sums = all_of(0);
  for (int64_t i = 0; i < rows; ++i) {
    Lanes row = all_of(0);
    int64_t j = 0;
    for (; m.column == 1 && j + kLanes <= columns; j += kLanes) row += load(m.at(i, j)) * load(m.at(i, j));
    for (; j < columns; ++j) row[0] += *m.at(i, j) * *m.at(i, j);
    sums += row;
  }
  return reduced(sums, plus);
}

// The keys that a block of rows computes, in whole panels. No product of a query and a key is larger
// than the root of the sums of their squares. So if those are finite and small beside the gap, the
// weights of the other keys are 0; and as the values are finite, they add nothing.
inline int64_t keys_of(const Attended& s, const AttendedElement& e, int64_t from, int64_t rows) {
  if (!s.seen) return s.keys;
  const float most = squares({e.some, s.depth, 1}, rows, s.depth) * e.squares;
  const float room = (s.gap - 100) / 2.5f;  // that of two scores, and of rounding them
  if (!(most < 1e30f && room > 0 && most < room * room)) return s.keys;
  int64_t keys = 0;
  for (int64_t i = from; i < from + rows; ++i) keys = keys < s.seen[i] ? s.seen[i] : keys;
  return lesser((keys + kTileColumns - 1) / kTileColumns * kTileColumns, s.keys);
}

// Exponentials times values: of so many keys at a time that the values stay in the first cache.
inline void multiply_values(const Attended& s, const AttendedElement& e, int64_t rows, int64_t keys) {
  constexpr int64_t kKeys = 96;
  for (int64_t key = 0; key < keys; key += kKeys)
    over_panels(s.columns, [&](int64_t j, int64_t columns) {
      const int64_t wide = whole_vectors(columns);
      const float* values = s.in_place ? e.values.at(key, j) : e.tall + j * s.keys + key * wide;
      multiply_panel(e.scores + key, s.width, rows, values, s.in_place ? e.values.row : wide,
                     columns, lesser(kKeys, keys - key), e.sums + j, s.out, key > 0);
    });
}

// Rows whose scores have room in the second cache.
inline void attend_block(const Attended& s, const AttendedElement& e, int64_t from, int64_t rows) {
  pack_scaled({e.queries.at(from, 0), e.queries.row, e.queries.column}, rows, s.depth, s.scale,
              e.some);
  const int64_t keys = keys_of(s, e, from, rows);
  if (s.few)
    for (int64_t i = 0; i < rows; ++i)
      multiply_rows(e.some + i * s.depth, {e.keys.data, e.keys.column, 1}, keys, s.depth,
                    e.scores + i * s.width);
  else
    over_panels(keys, [&](int64_t j, int64_t columns) {
      multiply_panel(e.some, s.depth, rows, e.packed + j * s.depth, whole_vectors(columns), columns,
                     s.depth, e.scores + j, s.width, false);
    });
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t k = 0; k < s.terms; ++k)
      e.row_terms[k] = {e.terms[k].at(from + i, 0), e.terms[k].column == 1};
    e.totals[i] = add_terms(e.scores + i * s.width, keys, e.row_terms, s.terms);
  }
  for (int64_t i = 0; i < rows; ++i)
    e.totals[i] = exponentials(e.scores + i * s.width, keys, e.totals[i]);
  multiply_values(s, e, rows, keys);
  for (int64_t i = 0; i < rows; ++i)
    finish(e.sums + i * s.out, s.factor / e.totals[i], s.columns,
           const_cast<float*>(e.result.at(from + i, 0)), e.result.column);
}

}  // namespace
}  // namespace opinfo_loops

OPINFO_LINKAGE void OPINFO_RUNTIME(attend)(const opinfo_loops::Attended& s,
                                           const opinfo_loops::AttendedOperand* operands,
                                           int64_t element, int64_t first, char* memory) {
  using namespace opinfo_loops;
  AttendedElement e = element_of(s, operands, element, memory);
  if (s.seen && squares(e.values, s.keys, s.columns) < __builtin_inff())
    e.squares = squares(e.keys, s.depth, s.keys);
  if (!s.few)
    over_panels(s.keys, [&](int64_t j, int64_t columns) {
      pack({e.keys.at(0, j), e.keys.row, e.keys.column}, s.depth, columns, e.packed + j * s.depth,
           whole_vectors(columns));
    });
  if (!s.in_place)
    over_panels(s.columns, [&](int64_t j, int64_t columns) {
      pack({e.values.at(0, j), e.values.row, e.values.column}, s.keys, columns, e.tall + j * s.keys,
           whole_vectors(columns));
    });
  const int64_t end = lesser(first + s.part, s.rows);
  for (int64_t from = first; from < end; from += s.block)
    attend_block(s, e, from, lesser(s.block, end - from));
}
