// Convolutions of cuDNN as tests call them, behind the headers of generated code.

extern "C" void kernels(const char* path) {
  auto* image = new DLTensor{};
  image->data = const_cast<char*>(path);
  constants().push_back(std::make_unique<Constant>(image));
}

// relu(x * w + b) of a 1x1 convolution over rows of pixels; returns how many plans were run.
namespace plans {
extern "C" void plans_times(float fused, float first, float last, float unnamed, float knob) {
  stub::knob_time = knob;
  stub::fused_time = fused;
  stub::first_time = first;
  stub::last_time = last;
  stub::unnamed_time = unnamed;
}
extern "C" int handles(int threads) {
  std::set<cudnnHandle_t> found;
  for (int k = 0; k < threads; ++k) std::thread([&] { found.insert(handle_on(0)); }).join();
  return static_cast<int>(found.size());
}
static int device = 0;
extern "C" void on(int other) { device = other; }
extern "C" int run(int64_t pixels, int fuses, int without_residual, int captured,
                   int most_operations, float* x, float* w, float* b, float* y) {
  stub::fuses = fuses;
  stub::fuses_without = without_residual;
  stub::captured = captured;
  stub::executed = 0;
  void* data[] = {x, w, b, y};
  const Current current(device);
  Context c{"conv", device, 16, {{1, 3, 1, pixels}, {4, 3, 1, 1}, {4}, {1, 4, 1, pixels}}, data};
  Conv v;
  v.order = {0, 1, 2, 3};
  v.strides = v.dilation = {1, 1};
  v.padding = {0, 0};
  v.x = c.tensor(0);
  v.w = c.tensor(1);
  v.bias = c.tensor(2);
  v.y = c.tensor(3);
  v.activation = kRelu;
  int executed = -1;
  try {
    const auto kernel = convolution(c, v);
    executed = stub::executed;
    stub::most_operations = most_operations;
    (*kernel)(data, nullptr);
    if (most_operations < 99) (*kernel)(data, nullptr);
  } catch (const opinfo::Error&) {
    executed = -1;
  }
  stub::captured = 0;
  stub::most_operations = 99;
  return executed;
}
}  // namespace plans

// Three regions: relu(x * w) of 1x1 convolutions over rows of 5, 6 and again 5 pixels, two of any
// batch, and one of any number of pixels. Functions return how many plans were run, and `planned`
// how many were built.
namespace checks {
template <int pixels>
std::unique_ptr<Kernel> region(const Context& c) {
  Conv v;
  v.order = {0, 1, 2, 3};
  v.strides = v.dilation = {1, 1};
  v.padding = {0, 0};
  v.x = c.tensor(0);
  v.w = c.tensor(1);
  v.y = c.tensor(2);
  v.activation = kRelu;
  return convolution(c, v);
}
template <int pixels>
const int64_t spec[] = {4, kDLFloat, 32, 1, 3, 1, pixels, 4, kDLFloat, 32, 4, 3, 1, 1,
                        4, kDLFloat, 32, 1, 4, 1, pixels};
static Function regions[] = {{"a", region<5>, 3, spec<5>}, {"b", region<6>, 3, spec<6>},
                             {"c", region<5>, 3, spec<5>}};
template <int pixels>
const int64_t any_batch[] = {4, kDLFloat, 32, -1, 3, 1, pixels, 4, kDLFloat, 32, 4, 3, 1, 1,
                             4, kDLFloat, 32, -1, 4, 1, pixels};
const int64_t any_size[] = {4, kDLFloat, 32, -1, 3, 1, -1, 4, kDLFloat, 32, 4, 3, 1, 1,
                            4, kDLFloat, 32, -1, 4, 1, -1};
static Function symbolic[] = {{"d", region<5>, 3, any_batch<5>}, {"e", region<6>, 3, any_batch<6>},
                              {"f", region<0>, 3, any_size}};

template <typename Work>
int counted(Work work) {
  stub::executed = stub::planned = 0;
  stub::fuses = stub::fuses_without = true;  // other tests share the stub
  stub::first_named = 0;
  try {
    work();
  } catch (const std::exception&) {
    return -1;
  }
  return stub::executed;
}
extern "C" int planned() { return stub::planned; }
extern "C" int runs(int most_operations) { return stub::most_operations = most_operations; }
extern "C" int check(int k) { return counted([&] { regions[k].check(0); }); }
extern "C" int first_call() { return counted([&] { before_kernels()(0, false, 0); }); }
// x and w are ones, so y is 3.
extern "C" int call(int k, int64_t batch, int64_t pixels) {
  std::vector<float> x(batch * 3 * pixels, 1.0f), w(12, 1.0f), y(batch * 4 * pixels);
  int64_t shapes[][4] = {{batch, 3, 1, pixels}, {4, 3, 1, 1}, {batch, 4, 1, pixels}};
  float* data[] = {x.data(), w.data(), y.data()};
  DLTensor tensors[3];
  TVMFFIAny args[3], result;
  for (int n = 0; n < 3; ++n) {
    tensors[n] = {data[n], {kDLCPU, 0}, 4, {kDLFloat, 32, 1}, shapes[n], nullptr, 0};
    args[n] = TVMFFIAny{};
    args[n].type_index = kTVMFFIDLTensorPtr;
    args[n].v_ptr = &tensors[n];
  }
  const int ran = counted([&] {
    if (symbolic[k].safe_call(args, 3, &result) != 0) throw std::runtime_error("it raised");
  });
  return std::all_of(y.begin(), y.end(), [](float v) { return v == 3.0f; }) ? ran : -2;
}
extern "C" int prepare_alone(int k) { return counted([&] { regions[k].prepare(0); }); }
}  // namespace checks

// Runs a convolution of 3x3 pixels. `data`: x, w, residual, bias, added, offset, factor, y.
namespace forms {
extern "C" void forms_times(float fused, float same, float other, int last, int without) {
  stub::fused_time = fused;
  stub::unnamed_time = 9.0f;
  stub::fuses_without = without;
  (last ? stub::last_time : stub::first_time) = same;
  (last ? stub::first_time : stub::last_time) = other;
}
struct Given {
  int64_t element, last, transposed, images, in, out, rows, columns, groups, activation, constant,
      alignment;
  double limit;
};
extern "C" int forms_convolve(const Given* g, void* const* data) {
  const auto image = [&](int64_t channels) {
    return g->last ? Extents{g->images, g->rows, g->columns, channels}
                   : Extents{g->images, channels, g->rows, g->columns};
  };
  const int64_t many = g->transposed ? g->in : g->out,
                few = (g->transposed ? g->out : g->in) / g->groups;
  Context c{"conv", 0, static_cast<int>(g->alignment),
            {image(g->in), g->last ? Extents{many, 3, 3, few} : Extents{many, few, 3, 3},
             image(g->out), {g->out}, image(g->out), {1}, {1}, image(g->out)}, data};
  const auto tensor = [&](int k) { return data[k] != nullptr ? c.tensor(k) : Operand{}; };
  Conv v;
  constexpr cudnnDataType_t types[] = {CUDNN_DATA_FLOAT, CUDNN_DATA_HALF, CUDNN_DATA_BFLOAT16};
  v.type = types[g->element];
  v.kernels = static_cast<int>(g->element);
  v.last = g->last;
  v.transposed = g->transposed;
  v.order = g->last ? std::vector<int>{0, 3, 1, 2} : std::vector<int>{0, 1, 2, 3};
  v.strides = v.dilation = v.padding = {1, 1};
  v.groups = g->groups;
  v.x = tensor(0);
  v.w = g->constant ? Operand{-1, data[1], c.extents[1]} : tensor(1);
  v.residual = tensor(2), v.bias = tensor(3), v.added = tensor(4);
  v.offset = tensor(5), v.factor = tensor(6), v.y = tensor(7);
  v.activation = static_cast<Activation>(g->activation);
  (v.activation == kLeakyRelu ? v.slope : v.limit) = g->limit;
  try {
    const auto kernel = convolution(c, v);
    for (int k = 0; k < 2; ++k) (*kernel)(data, nullptr);
  } catch (const opinfo::Error& error) {
    return 1;
  }
  return 0;
}
}  // namespace forms

// relu(convolution + bias + residual) of any window. `data`: x, w, bias, residual, y. `grouped`: the number
// of the kernels of groups, or -1.
namespace windows {
extern "C" void own_kernels(float time) { stub::own_time = time; }
extern "C" void gradients(float time) {
  stub::gradient_time = time;
  stub::fused_time = stub::unnamed_time = time > 0 ? time : 1.0f;
}
struct Given {
  int64_t element, last, constant, alignment, groups, x[4], w[4], y[4], strides[2], padding[2],
      dilation[2], transposed, grouped, waits;
};
extern "C" int windows_convolve(const Given* g, void* const* data) {
  const auto all = [](const int64_t* e, int n) { return Extents(e, e + n); };
  const int64_t channels = g->y[g->last ? 3 : 1];
  Context c{"conv", 0, static_cast<int>(g->alignment),
            {all(g->x, 4), all(g->w, 4), {channels}, all(g->y, 4), all(g->y, 4)}, data};
  c.waits = g->waits;
  stub::planned = 0;
  Conv v;
  constexpr cudnnDataType_t types[] = {CUDNN_DATA_FLOAT, CUDNN_DATA_HALF, CUDNN_DATA_BFLOAT16};
  v.type = types[g->element];
  v.kernels = static_cast<int>(g->element);
  v.last = g->last;
  v.transposed = g->transposed;
  v.grouped = static_cast<int>(g->grouped);
  v.order = g->last ? std::vector<int>{0, 3, 1, 2} : std::vector<int>{0, 1, 2, 3};
  v.strides = all(g->strides, 2), v.padding = all(g->padding, 2), v.dilation = all(g->dilation, 2);
  v.groups = g->groups;
  v.x = c.tensor(0);
  v.w = g->constant ? Operand{-1, data[1], c.extents[1]} : c.tensor(1);
  v.bias = c.tensor(2);
  if (data[3] != nullptr) v.residual = c.tensor(3);
  v.y = c.tensor(4);
  v.activation = kRelu;
  try {
    const auto kernel = convolution(c, v);
    for (int k = 0; k < 2; ++k) (*kernel)(data, nullptr);
  } catch (const opinfo::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
}  // namespace windows
