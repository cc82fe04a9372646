// What the kernels of epilogue.cu are given.
enum Activation { kIdentity, kRelu, kSigmoid, kTanh, kSilu, kHardSwish, kLeakyRelu };

// n / by is (high(n * factor) + n) >> shift, for n below 2^31.
struct Divisor {
  unsigned by, factor, shift;
};

// Where x holds a result that was computed by phases: see conv_phases.hpp. Of rows and columns.
struct Phases {
  Divisor columns, pixels;  // of an image of y
  Divisor strides[2];
  unsigned shifts[2], counts[2];  // pixel k of y is phase (k + shift) % stride of pixel (k + shift) / stride
};

// y = activation(x + residual + bias) + added. Tensors are null if there are none. Those but `bias`,
// which has an element for each channel, have the elements of y, in its layout.
struct Epilogue {
  const void* x;
  void* y;
  const void* residual;
  const void* bias;
  const void* added;
  int activation;
  float limit;          // of a relu, 0 for none; of hard swish, x * min(max(x + offset, 0), limit) * factor
  float slope;          // of a leaky relu below 0
  const float* offset;
  const float* factor;
  unsigned count;       // elements of y
  Divisor inside;       // elements of y side by side that have one channel
  Divisor channels;
  unsigned rows, columns;  // where layouts are converted: of x; y has these matrices transposed
  int channel_is_row;      // of x, else a channel is a column
  Phases phases;
};

// Weights of a transposed convolution as those of its phases: `to` has the axes (row and column of the
// phase, channel of y, row and column of the tap, channel of x).
struct Arrangement {
  const void* from;
  void* to;
  unsigned count;                           // elements of `to`
  Divisor in, taps[2], out, strides[2];     // its extents, the last axis first for each pair
  unsigned sizes[2];                        // pixels of the weights
  int last;                                 // whether channels of y are the last axis of `from`
};
