// Plans of cuDNN's engines for a graph: which are allowed, and how one is run. It follows
// cudnn_records.hpp.
#include <atomic>
#include <chrono>
#include <optional>
#include <set>
#include <thread>

namespace opinfo_nvidia {
namespace {

constexpr int64_t kWorkspace = int64_t{256} << 20;
constexpr size_t kThreads = 16;

struct Plan {
  Descriptor plan, graph;
  Choice choice;
  int64_t bytes = 0;  // of its workspace
  bool filters = false;  // it computes by Winograd's minimal filtering
  std::shared_ptr<std::mutex> one_at_a_time = std::make_shared<std::mutex>();

  explicit operator bool() const { return static_cast<bool>(plan); }

  // cuDNN does not say that two threads may run a plan at once.
  cudnnStatus_t run(cudnnHandle_t h, const Graph& graph, void* const* data, void* scratch,
                    void* room) const {
    std::vector<void*> addresses;
    for (const Bound& b : graph.bound()) addresses.push_back(b.in(data, scratch));
    return run(h, graph, addresses, room);
  }

  // `addresses`: of the tensors that the graph binds.
  cudnnStatus_t run(cudnnHandle_t h, const Graph& graph, const std::vector<void*>& addresses,
                    void* room) const {
    std::vector<int64_t> ids;
    for (const Bound& b : graph.bound()) ids.push_back(b.id);
    Descriptor pack(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    pack.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, ids)
        .set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, addresses)
        .set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, room)
        .finalize("variant pack");
    std::lock_guard<std::mutex> lock(*one_at_a_time);
    return cudnnBackendExecute(h, plan.raw(), pack.raw());
  }
};

// Whether float32 may be convolved by minimal filtering, if a plan proves to be accurate.
inline bool may_filter(cudnnDataType_t type) {
  static const bool wanted = from_environment("OPINFO_CUDNN_WINOGRAD", 1.0) != 0.0;
  return wanted && type == CUDNN_DATA_FLOAT;
}

// What an engine does to the numbers. One that does anything else is not used: FFT, tf32, rounded
// inputs, sums in half precision, sums in an order that changes.
enum Arithmetic {
  kProducts,   // adds products
  kFiltering,  // Winograd's minimal filtering
  kRefused
};

inline Arithmetic arithmetic(const Descriptor& engine, cudnnDataType_t type) {
  Arithmetic out = kProducts;
  for (const auto note : engine.get<cudnnBackendNumericalNote_t>(
           CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_NUMERICAL_NOTE_TYPE_COUNT)) {
    if (note == CUDNN_NUMERICAL_NOTE_STRICT_NAN_PROP) continue;
    const bool filters = note == CUDNN_NUMERICAL_NOTE_WINOGRAD ||
                         note == CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_4x4 ||
                         note == CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_6x6 ||
                         note == CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_13x13;
    if (filters && may_filter(type))
      out = kFiltering;
    else if (note != CUDNN_NUMERICAL_NOTE_TENSOR_CORE || type == CUDNN_DATA_FLOAT)
      return kRefused;
  }
  return out;
}

inline Plan planned(cudnnHandle_t h, const Descriptor& graph, const Descriptor& config,
                    const Choice& choice, Arithmetic how) {
  Plan out{Descriptor(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR), graph, choice};
  out.filters = how == kFiltering;
  out.plan.set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, h)
      .set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config);
  if (!out.plan.finalized()) return Plan{};
  const auto bytes = out.plan.get<int64_t>(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, 1);
  if (bytes.empty() || bytes[0] > kWorkspace) return Plan{};
  out.bytes = bytes[0];
  return out;
}

// The choice that a configuration of cuDNN's heuristics is, and how it computes; no engine if it
// must not be used.
inline Choice chosen(const Descriptor& config, cudnnDataType_t type, Arithmetic& how) {
  const auto engines =
      config.parts(CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_BACKEND_ENGINE_DESCRIPTOR, 1);
  if (engines.empty() || (how = arithmetic(engines[0], type)) == kRefused) return Choice{};
  const auto number = engines[0].get<int64_t>(CUDNN_ATTR_ENGINE_GLOBAL_INDEX, 1);
  if (number.empty()) return Choice{};
  Choice choice{number[0], {}};
  for (const Descriptor& knob :
       config.parts(CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR,
                    CUDNN_KNOB_TYPE_COUNTS)) {
    const auto kind = knob.get<cudnnBackendKnobType_t>(CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, 1);
    const auto value = knob.get<int64_t>(CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, 1);
    if (!kind.empty() && !value.empty()) choice.knobs[static_cast<int64_t>(kind[0])] = value[0];
  }
  return choice;
}

// The plan of a remembered choice; nothing if this cuDNN has it no more.
inline Plan planned(cudnnHandle_t h, const Descriptor& graph, const Choice& choice,
                    cudnnDataType_t type) {
  Descriptor engine(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  engine.set(CUDNN_ATTR_ENGINE_OPERATION_GRAPH, graph)
      .set(CUDNN_ATTR_ENGINE_GLOBAL_INDEX, choice.engine);
  if (!engine.finalized()) return Plan{};
  const Arithmetic how = arithmetic(engine, type);
  if (how == kRefused) return Plan{};
  Descriptor config(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
  config.set(CUDNN_ATTR_ENGINECFG_ENGINE, engine);
  std::vector<Descriptor> knobs;
  for (const auto& [kind, value] : choice.knobs) {
    Descriptor knob(CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR);
    knob.set(CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, static_cast<cudnnBackendKnobType_t>(kind))
        .set(CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, value);
    if (!knob.finalized()) return Plan{};
    knobs.push_back(knob);
  }
  if (!knobs.empty()) config.set(CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, knobs);
  return config.finalized() ? planned(h, graph, config, choice, how) : Plan{};
}

// Configurations in the order in which cuDNN expects them to be fast.
inline std::vector<Descriptor> configurations(const Descriptor& graph,
                                              cudnnBackendHeurMode_t mode, size_t most) {
  Descriptor heuristics(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  heuristics.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph)
      .set(CUDNN_ATTR_ENGINEHEUR_MODE, mode);
  if (!heuristics.finalized()) return {};
  return heuristics.parts(CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, most);
}

// Adds a plan of each engine that cuDNN's heuristics did not name, with its usual knobs.
inline void add_engines(cudnnHandle_t h, const Descriptor& graph, cudnnDataType_t type,
                        std::vector<Plan>& direct, std::vector<Plan>& filters) {
  std::set<int64_t> named;
  for (const std::vector<Plan>* plans : {&direct, &filters})
    for (const Plan& p : *plans) named.insert(p.choice.engine);
  const auto count = graph.get<int64_t>(CUDNN_ATTR_OPERATIONGRAPH_ENGINE_GLOBAL_COUNT, 1);
  for (int64_t engine = 0; !count.empty() && engine < count[0]; ++engine)
    if (named.count(engine) == 0)
      if (Plan plan = planned(h, graph, Choice{engine, {}}, type))
        (plan.filters ? filters : direct).push_back(plan);
}

// The first plans of a graph, in the order in which cuDNN expects them to be fast: at most `most`
// that add products, then at most `filtering` that filter. If plans of a convolution alone may
// filter, all other engines follow: heuristics may name those of tf32 first, which are refused. An
// engine that fuses is compiled at run time.
inline std::vector<Plan> first_plans(cudnnHandle_t h, const Graph& graph, cudnnDataType_t type,
                                     size_t most, size_t filtering = 0) {
  constexpr int kConfigurations = 24;
  const Descriptor made = graph.made(h);
  if (!made) return {};
  std::vector<Plan> out, filters;
  std::set<std::string> tried;
  for (auto mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK}) {
    if (out.size() >= most && filters.size() >= filtering) break;
    for (const Descriptor& config : configurations(made, mode, kConfigurations)) {
      if (tried.size() >= 4 * (most + filtering)) break;
      Arithmetic how = kProducts;
      const Choice choice = chosen(config, type, how);
      std::vector<Plan>& plans = how == kFiltering ? filters : out;
      if (choice.engine < 0 || plans.size() >= (how == kFiltering ? filtering : most) ||
          !tried.insert(Record{0, {choice}}.text()).second)
        continue;
      if (Plan plan = planned(h, made, config, choice, how)) plans.push_back(plan);
    }
  }
  if (filtering > 0 && graph.is_single()) add_engines(h, made, type, out, filters);
  out.insert(out.end(), filters.begin(), filters.end());
  return out;
}

// The fastest way that is known, and plans that are to be timed, by form and graph.
struct Ways {
  std::mutex mutex;  // one thread at a time
  int form = -1;
  std::vector<Plan> plans;
  std::map<std::pair<int, size_t>, std::vector<Plan>> candidates;
};

// What all regions with the same convolution share. It is not freed at exit: plans of cuDNN 9.10 and
// later may end the process when they are destroyed then.
inline std::shared_ptr<Ways> ways_of(const std::string& key) {
  static std::mutex mutex;
  static auto& all = *new std::map<std::string, std::shared_ptr<Ways>>;
  std::lock_guard<std::mutex> lock(mutex);
  std::shared_ptr<Ways>& ways = all[key];
  if (ways == nullptr) ways = std::make_shared<Ways>();
  return ways;
}

// The time that this library may spend on choosing plans. What was not prepared until then takes the
// first plan, and is chosen in another process: what was chosen is kept on disk. Whoever compiles a
// model waits longer than who calls it.
class Patience {
 public:
  Patience() : begin_(std::chrono::steady_clock::now()) {}
  ~Patience() {
    const double time = seconds();
    std::lock_guard<std::mutex> lock(mutex());
    spent() += time;
  }
  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
  }
  // `more`: seconds of one that has not ended. `checks`: the model is being compiled.
  static bool is_left(double more = 0.0, bool checks = false) {
    const double most = from_environment("OPINFO_CUDNN_SECONDS", checks ? kCompiling : kCalling);
    std::lock_guard<std::mutex> lock(mutex());
    return spent() + more < most;
  }

 private:
  static constexpr double kCalling = 10.0, kCompiling = 25.0;

  static double& spent() {
    static double seconds = 0.0;
    return seconds;
  }
  static std::mutex& mutex() {
    static std::mutex m;
    return m;
  }
  std::chrono::steady_clock::time_point begin_;
};

// Before the first kernel of a device is made, all regions prepare their plans, in several threads:
// cuDNN compiles some engines at run time, a tenth of a second each. Nothing else of this library
// runs meanwhile, and no thread is left, as none may allocate memory while a graph is captured. Those
// of which only the batch is unknown do so when one of them is called with a new one.
inline void prepare_together(int device, bool checks, int64_t batch) {
  static std::mutex mutex;
  static std::set<std::tuple<int, bool, int64_t>> done;
  std::lock_guard<std::mutex> lock(mutex);
  if (Capture(stream_of(device)).id() != 0 || !done.insert({device, checks, batch}).second) return;
  std::vector<Function*> functions;
  for (Function* f : Function::all())
    if (batch > 0 ? f->is_batched() : f->is_static() && !(checks && f->is_known(device)))
      functions.push_back(f);
  const size_t count = std::min<size_t>({functions.size(), kThreads,
                                         std::max(1u, std::thread::hardware_concurrency())});
  if (functions.size() < 2 || count < 2) return;
  std::optional<Patience> patience;  // a call with a new batch needs its plans in any case
  if (batch == 0) patience.emplace();
  handle_on(device);  // cuDNN asks for one before threads create theirs
  std::atomic<size_t> next{0};
  std::vector<std::thread> threads;
  const auto work = [&] {
    for (size_t at; (at = next++) < functions.size() &&
                    (!patience || Patience::is_left(patience->seconds(), checks));) {
      try {
        const Current current(device);
        functions[at]->prepare(device, nullptr, batch);
      } catch (const std::exception&) {  // its own call raises it again
      }
    }
  };
  for (size_t k = 0; k < count; ++k) threads.emplace_back(work);
  for (std::thread& t : threads) t.join();
}
static const bool prepares OPINFO_UNUSED = (before_kernels() = prepare_together) != nullptr;

// The device and the library, in words.
inline std::string told_of(int device) {
  return device_words(device) + " cudnn " + std::to_string(cudnnGetVersion());
}

}  // namespace
}  // namespace opinfo_nvidia

