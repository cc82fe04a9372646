// The requests of all call sites for kernels. It follows snapshot.hpp.
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <sstream>
#include <string>
#include <utility>

namespace opinfo_jit {
namespace {

// Requested shapes, for the manager's thread. The index of the site is inverted (~) for a shape
// whose kernel raised an error.
class Queue {
 public:
  bool push(int site, const Key& key) {
    std::unique_lock<std::mutex> lock(mutex_, std::try_to_lock);
    if (!lock.owns_lock() || closed_ || requests_.size() >= limit_) return false;
    requests_.emplace_back(site, key);
    lock.unlock();
    filled_.notify_one();
    return true;
  }
  // Reports a broken kernel: first in the queue and without a limit, because it must not be lost.
  void push_broken(int site, const Key& key) {
    std::lock_guard<std::mutex> lock(mutex_);
    if (closed_) return;
    requests_.emplace_front(~site, key);
    filled_.notify_one();
  }
  // Returns (site, dimensions…), or an empty shape on a timeout or if the queue is closed. The
  // manager calls it when it has finished with the previous request.
  ffi::Shape pop(int64_t milliseconds) {
    std::unique_lock<std::mutex> lock(mutex_);
    taken_.clear();
    filled_.wait_for(lock, std::chrono::milliseconds(milliseconds),
                     [&] { return closed_ || !requests_.empty(); });
    std::vector<int64_t> out;
    if (!requests_.empty()) {
      auto [site, key] = requests_.front();
      taken_.push_back(requests_.front());
      requests_.pop_front();
      out.push_back(site);
      out.insert(out.end(), key.values, key.values + key.size);
    }
    return ffi::Shape(out);
  }
  // Returns JSON: (site, dimensions…) of the requests that are not finished, the next one first.
  std::string waiting() {
    std::ostringstream out;
    const char* comma = "";
    std::lock_guard<std::mutex> lock(mutex_);
    out << "[";
    for (auto* requests : {&taken_, &requests_})
      for (auto& [site, key] : *requests) {
        out << comma << "[" << site;
        for (int k = 0; k < key.size; ++k) out << ", " << key.values[k];
        out << "]";
        comma = ", ";
      }
    return out.str() + "]";
  }
  void open(size_t limit) {
    std::lock_guard<std::mutex> lock(mutex_);
    limit_ = limit;
    closed_ = false;
  }
  void close() {
    std::lock_guard<std::mutex> lock(mutex_);
    closed_ = true;
    requests_.clear();
    taken_.clear();
    filled_.notify_all();
  }

 private:
  size_t limit_ = 0;
  bool closed_ = true;
  std::mutex mutex_;
  std::condition_variable filled_;
  std::deque<std::pair<int, Key>> requests_, taken_;  // `taken_` is the one that is being served
};
// Never freed: in a forked process, destroying the condition variable would wait for a thread that
// the fork did not copy.
Queue& queue = *new Queue;

}  // namespace
}  // namespace opinfo_jit
