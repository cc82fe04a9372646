// A convolution and what follows it, as plans of cuDNN and kernels of our own. It follows
// conv_choice.hpp.
namespace opinfo_nvidia {
namespace {

class Convolution : public Kernel {
 public:
  Convolution(const Context& c, const Conv& v)
      : v_(v), name_(c.name), device_(c.device), graphs_(v_, name_, std::min(c.alignment, 16)),
        runner_(v_, graphs_, device_, c.alignment), choice_(v_, graphs_, runner_, name_, device_) {
    if (c.known != nullptr) {
      *c.known = choice_.is_known();
      return;
    }
    ways_ = ways_of(device_, choice_.key());
    std::unique_lock<std::mutex> lock(ways_->mutex, std::defer_lock);
    if (c.data != nullptr)
      lock.lock();
    else if (!lock.try_lock())
      return;  // another thread prepares the same
    if (ways_->form < 0) choice_.find(c, *ways_);
    if (c.data != nullptr) way_ = runner_.way(ways_->form, ways_->plan);
  }

  void operator()(void* const* data, cudaStream_t stream) const override {
    cudnnHandle_t h = handle_on(device_);
    check(cudnnSetStream(h, stream), "cudnnSetStream");
    const std::shared_ptr<const Way> way = std::atomic_load(&way_);
    const cudnnStatus_t status = launched(h, *way, data, stream);
    if (status != CUDNN_STATUS_SUCCESS) recover(h, *way, data, stream, status);
  }

 private:
  cudnnStatus_t launched(cudnnHandle_t h, const Way& way, void* const* data,
                         cudaStream_t stream) const {
    void* room = workspace(device_, stream, runner_.room(way));
    return runner_.run(h, way, data, static_cast<char*>(room), stream);
  }

  // cuDNN refused to run the chosen way: this call and later ones take the first that it runs.
  void recover(cudnnHandle_t h, const Way& failed, void* const* data, cudaStream_t stream,
               cudnnStatus_t status) const {
    std::lock_guard<std::mutex> lock(ways_->mutex);
    for (int form = kShared; form < kForms; ++form) {
      for (const std::shared_ptr<const Way>& other : others(h, form)) {
        if (other->record().text() == failed.record().text() ||
            launched(h, *other, data, stream) != CUDNN_STATUS_SUCCESS)
          continue;
        std::fprintf(stderr, "opinfo: %s: cuDNN does not run the engine that was chosen (%s); "
                     "another one is taken\n", name_, cudnnGetErrorString(status));
        ways_->form = other->form;
        ways_->plan = other->plan;
        Records::all().put(choice_.key(), other->record());
        std::atomic_store(&way_, other);
        return;
      }
    }
    check(status, name_);
  }

  static constexpr int kShared = -1;

  // Ways of a form; of `kShared`, what a region with the same convolution has taken meanwhile.
  std::vector<std::shared_ptr<const Way>> others(cudnnHandle_t h, int form) const {
    if (form == kShared) return {runner_.way(ways_->form, ways_->plan)};
    return choice_.some(h, form);
  }

  Conv v_;
  const char* name_;
  int device_;
  ConvGraphs graphs_;
  ConvRunner runner_;
  ConvChoice choice_;
  std::shared_ptr<Ways> ways_;
  mutable std::shared_ptr<const Way> way_;
};

// Without the data of a call, it is only prepared.
OPINFO_UNUSED std::unique_ptr<Kernel> convolution(const Context& c, const Conv& v) {
  return std::make_unique<Convolution>(c, v);
}

}  // namespace
}  // namespace opinfo_nvidia

using namespace opinfo_nvidia;
