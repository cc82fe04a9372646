// What the kernels of pieces.cu are given.

// Rows of `depth` numbers, each cut into the six pieces that a product adds: `to` has them as six rows of
// `depth` bfloat16, one after another. Element k of row r is from[r * row + k * step].
struct Cuts {
  const float* from;
  unsigned short* to;
  float* largest;  // the largest magnitude of each row, infinite if a number is not finite
  unsigned depth;
  long long row, step;
};

enum AfterProduct { kNothing, kReluAfter, kGeluAfter };

// d = activation(alpha a b + residual + bias), for rows of `a` whose largest magnitude is none that the
// pieces are for: 0, or from `least` to `most`. Element k of column c is b[c * column + k * step].
struct Repair {
  const float* a;
  const float* b;
  const float* bias;      // null for none, as is
  const float* residual;  // this
  float* d;
  const float* largest;
  float least, most;
  unsigned rows, columns, depth;
  long long column, step;
  float alpha;
  int after;
};
