// What the convolutions of a library share: ways to compute them, and the time to choose plans. It
// follows cudnn_plans.hpp.
#include <atomic>
#include <chrono>
#include <optional>
#include <thread>

namespace opinfo_nvidia {
namespace {

constexpr size_t kThreads = 16;

// The fastest way that is known, and plans that are to be timed, by form.
struct Ways {
  std::mutex mutex;  // one thread at a time
  int form = -1;
  Plan plan;
  std::map<int, std::vector<Plan>> candidates;
};

// What all regions with the same convolution share on a device: a plan runs on the device of its
// handle only. It is not freed at exit: plans of cuDNN 9.10 and later may end the process when they
// are destroyed then.
inline std::shared_ptr<Ways> ways_of(int device, const std::string& key) {
  static std::mutex mutex;
  static auto& all = *new std::map<std::pair<int, std::string>, std::shared_ptr<Ways>>;
  std::lock_guard<std::mutex> lock(mutex);
  std::shared_ptr<Ways>& ways = all[{device, key}];
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

