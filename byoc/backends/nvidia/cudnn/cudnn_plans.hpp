// Plans of cuDNN's engines for a graph: which are allowed, and how one is run. It follows
// cudnn_records.hpp.
#include <set>

namespace opinfo_nvidia {
namespace {

constexpr int64_t kWorkspace = int64_t{256} << 20;

struct Plan {
  Descriptor plan, graph;
  Choice choice;
  int64_t bytes = 0;  // of its workspace
  std::shared_ptr<std::mutex> one_at_a_time = std::make_shared<std::mutex>();

  explicit operator bool() const { return static_cast<bool>(plan); }

  // `own`: the tensors that are not operands. cuDNN does not say that two threads may run a plan at
  // once.
  cudnnStatus_t run(cudnnHandle_t h, const Graph& graph, void* const* data, void* const* own,
                    void* room) const {
    std::vector<int64_t> ids;
    std::vector<void*> addresses;
    for (const Bound& b : graph.bound()) {
      ids.push_back(b.id);
      addresses.push_back(b.in(data, own));
    }
    Descriptor pack(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    pack.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, ids)
        .set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, addresses)
        .set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, room)
        .finalize("variant pack");
    std::lock_guard<std::mutex> lock(*one_at_a_time);
    return cudnnBackendExecute(h, plan.raw(), pack.raw());
  }
};

// Whether an engine adds products, and rounds none of them. Others are not used: those with minimal
// filtering, FFT, tf32, rounded inputs, sums in half precision, or sums in an order that changes.
inline bool is_allowed(const Descriptor& engine, cudnnDataType_t type) {
  for (const auto note : engine.get<cudnnBackendNumericalNote_t>(
           CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_NUMERICAL_NOTE_TYPE_COUNT)) {
    const bool halves = note == CUDNN_NUMERICAL_NOTE_TENSOR_CORE && type != CUDNN_DATA_FLOAT;
    if (note != CUDNN_NUMERICAL_NOTE_STRICT_NAN_PROP && !halves) return false;
  }
  return true;
}

inline Plan planned(cudnnHandle_t h, const Descriptor& graph, const Descriptor& config,
                    const Choice& choice) {
  Plan out{Descriptor(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR), graph, choice};
  out.plan.set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, h)
      .set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config);
  if (!out.plan.finalized()) return Plan{};
  const auto bytes = out.plan.get<int64_t>(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, 1);
  if (bytes.empty() || bytes[0] > kWorkspace) return Plan{};
  out.bytes = bytes[0];
  return out;
}

// The choice that a configuration of cuDNN's heuristics is; no engine if it must not be used.
inline Choice chosen(const Descriptor& config, cudnnDataType_t type) {
  const auto engines =
      config.parts(CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_BACKEND_ENGINE_DESCRIPTOR, 1);
  if (engines.empty() || !is_allowed(engines[0], type)) return Choice{};
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
  if (!engine.finalized() || !is_allowed(engine, type)) return Plan{};
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
  return config.finalized() ? planned(h, graph, config, choice) : Plan{};
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
                        std::vector<Plan>& plans) {
  std::set<int64_t> named;
  for (const Plan& p : plans) named.insert(p.choice.engine);
  const auto count = graph.get<int64_t>(CUDNN_ATTR_OPERATIONGRAPH_ENGINE_GLOBAL_COUNT, 1);
  for (int64_t engine = 0; !count.empty() && engine < count[0]; ++engine)
    if (named.count(engine) == 0)
      if (Plan plan = planned(h, graph, Choice{engine, {}}, type)) plans.push_back(plan);
}

// Plans of the engine of a plan in which one knob has another value, at most `most` for each knob.
// Heuristics name few values, and an engine's usual ones are for large images.
inline std::vector<Plan> other_knobs(cudnnHandle_t h, const Plan& plan, cudnnDataType_t type,
                                     size_t most) {
  constexpr int64_t kValues = 64;
  Descriptor engine(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  engine.set(CUDNN_ATTR_ENGINE_OPERATION_GRAPH, plan.graph)
      .set(CUDNN_ATTR_ENGINE_GLOBAL_INDEX, plan.choice.engine);
  if (!engine.finalized()) return {};
  std::vector<Plan> out;
  for (const Descriptor& knob :
       engine.parts(CUDNN_ATTR_ENGINE_KNOB_INFO, CUDNN_BACKEND_KNOB_INFO_DESCRIPTOR,
                    CUDNN_KNOB_TYPE_COUNTS)) {
    const auto kind = knob.get<cudnnBackendKnobType_t>(CUDNN_ATTR_KNOB_INFO_TYPE, 1);
    const auto first = knob.get<int64_t>(CUDNN_ATTR_KNOB_INFO_MINIMUM_VALUE, 1),
               last = knob.get<int64_t>(CUDNN_ATTR_KNOB_INFO_MAXIMUM_VALUE, 1),
               step = knob.get<int64_t>(CUDNN_ATTR_KNOB_INFO_STRIDE, 1);
    if (kind.empty() || first.empty() || last.empty() || step.empty() || step[0] < 1) continue;
    const size_t end = out.size() + most;
    for (int64_t k = 0; k < kValues && out.size() < end; ++k) {
      if (first[0] + k * step[0] > last[0]) break;
      Choice choice = plan.choice;
      const auto [at, added] = choice.knobs.try_emplace(static_cast<int64_t>(kind[0]), 0);
      const int64_t value = first[0] + k * step[0];
      if (!added && at->second == value) continue;
      at->second = value;
      if (Plan other = planned(h, plan.graph, choice, type)) out.push_back(other);
    }
  }
  return out;
}

// At most `most` plans of a graph, in the order in which cuDNN expects them to be fast. With `all`,
// those of all other engines follow if the graph is a convolution of float32 alone: heuristics may
// name engines of tf32 first, which are refused. An engine that fuses is compiled at run time.
inline std::vector<Plan> first_plans(cudnnHandle_t h, const Graph& graph, cudnnDataType_t type,
                                     size_t most, bool all = false) {
  const Descriptor made = graph.made(h);
  if (!made) return {};
  all = all && type == CUDNN_DATA_FLOAT && graph.is_single();
  const size_t configured = all ? 128 : 24;
  std::vector<Plan> out;
  std::set<std::string> tried;
  for (auto mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK}) {
    if (out.size() >= most) break;
    for (const Descriptor& config : configurations(made, mode, configured)) {
      if (out.size() >= most || tried.size() >= 4 * most) break;
      const Choice choice = chosen(config, type);
      if (choice.engine < 0 || !tried.insert(Record{0, {choice}}.text()).second) continue;
      if (Plan plan = planned(h, made, config, choice)) out.push_back(plan);
    }
  }
  if (all) add_engines(h, made, type, out);
  return out;
}

}  // namespace
}  // namespace opinfo_nvidia
