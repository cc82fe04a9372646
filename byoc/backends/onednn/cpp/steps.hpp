
// A primitive with its arguments, and what follows it. It follows tensors.hpp.
namespace opinfo_onednn {
namespace {

// What follows the main primitive.
struct Post {
  struct Item {
    bool binary;
    Algorithm how;
    float alpha, beta;
    View other;
  };
  std::vector<Item> items;
  std::vector<std::string> implementations;  // for the main primitive, the best one first

  // The operands in other axes; false if the function has none for one of them.
  bool turned(Called<bool(const View&, View*)> turn, Post* out) const {
    *out = *this;
    for (Item& i : out->items)
      if (i.binary && !turn(i.other, &i.other)) return false;
    return true;
  }
};

// What a primitive does besides: some items of what follows it. Its scratchpad is the caller's.
class Attributes {
 public:
  Attributes(const Post& post, size_t from, size_t to) {
    dnnl_post_ops_t ops = nullptr;
    check(dnnl_post_ops_create(&ops), kFailure);
    const Object kept = owned<dnnl_post_ops_t, dnnl_post_ops_destroy>(ops);
    for (size_t k = from; k < to; ++k) {
      const Post::Item& i = post.items[k];
      check(i.binary ? dnnl_post_ops_append_binary(ops, i.how, i.other.desc().get())
                     : dnnl_post_ops_append_eltwise(ops, i.how, i.alpha, i.beta),
            "could not append a post-op");
    }
    dnnl_primitive_attr_t made = nullptr;
    check(dnnl_primitive_attr_create(&made), kFailure);
    object_ = owned<dnnl_primitive_attr_t, dnnl_primitive_attr_destroy>(made);
    check(dnnl_primitive_attr_set_post_ops(made, ops), kFailure);
    check(dnnl_primitive_attr_set_scratchpad_mode(made, dnnl_scratchpad_mode_user), kFailure);
  }

  // Scales or zero points of an argument, by a mask of the axes along which they differ.
  void set(bool zero, int arg, int mask) {
    check(zero ? dnnl_primitive_attr_set_zero_points_mask(get(), arg, mask)
               : dnnl_primitive_attr_set_scales_mask(get(), arg, mask),
          kFailure);
  }

  dnnl_primitive_attr_t get() const { return static_cast<dnnl_primitive_attr_t>(object_.get()); }

 private:
  static constexpr const char* kFailure = "could not set the attributes of a primitive";
  Object object_;
};

// The number of the first tensor that a kernel has for itself, after those of a call.
constexpr int kOwn = 64, kMostOwn = 6;

// Memory of a thread that lives until its next use for the same purpose.
template <int purpose>
char* room(size_t bytes) {
  struct Release {
    void operator()(void* p) const { std::free(p); }
  };
  static thread_local std::unique_ptr<void, Release> memory;
  static thread_local size_t size = 0;
  if (size < bytes) {
    size = (bytes + 4095) / 4096 * 4096;
    memory.reset(std::aligned_alloc(4096, size));
  }
  return static_cast<char*>(memory.get());
}

// What no primitive does.
struct Work {
  virtual ~Work() = default;
  // Whether its sums are finite.
  virtual bool run(void* const* data) const = 0;
};

// A primitive with its arguments: constants in place, tensors by number.
class Step {
 public:
  // `from` to `to`: the items of `post` that the primitive does too.
  Step(const Description& pd, const Post& post, size_t from, size_t to)
      : implementation_(pd.implementation()), primitive_(pd), scratch_(pd.scratchpad()),
        scratch_bytes_(scratch_.bytes()) {
    for (size_t k = from; k < to; ++k)
      if (post.items[k].binary)
        add(DNNL_ARG_ATTR_MULTIPLE_POST_OP(static_cast<int>(k - from)) | DNNL_ARG_SRC_1,
            post.items[k].other);
  }

  Step(const std::string& implementation, std::shared_ptr<const Work> work)
      : implementation_(implementation), work_(std::move(work)) {}

  // A constant that is computed from one of the model's.
  Step& fixed(int arg, const Memory& m) {
    fixed_.push_back({arg, m});
    return *this;
  }

  Step& add(int arg, const View& v) { return add(arg, v, v.desc()); }

  Step& add(int arg, const View& v, const MemoryDesc& wanted) {
    if (v.from < 0) {
      fixed_.push_back({arg, constants()[~v.from]->as(v.desc(), wanted)});
    } else if (v.desc() == wanted) {
      given_.push_back({arg, v.from, wanted});
    } else {
      const Reorder turn(v.desc(), wanted);
      implementation_ = std::string("reorder ") + turn.implementation() + " " + implementation_;
      turned_.push_back({arg, v.from, v.desc(), wanted, turn});
    }
    return *this;
  }

  // As oneDNN names it, after those that turn its operands.
  const std::string& implementation() const { return implementation_; }

  // False if the result is not the region's, since sums are not finite.
  bool operator()(void* const* data) const {
    if (work_) return work_->run(data);
    std::unique_ptr<Arguments> a = free_->take();
    if (!a) a = arguments();
    Arguments& now = *a;
    const Memory* own = now.own.data();
    const Given* given = given_.data();
    for (size_t k = given_.size(); k > 0; --k, ++own, ++given) own->set_data(data[given->from]);
    for (const Turned& t : turned_) t.turn.execute(Memory(t.desc, data[t.from]), *own++);
    if (scratch_bytes_ > 0) own->set_data(room<0>(scratch_bytes_));
    primitive_.execute(now.all.data(), now.all.size());
    wait();
    free_->give(std::move(a));
    return true;
  }

 private:
  struct Fixed {
    int arg;
    Memory data;
  };
  struct Given {
    int arg, from;
    MemoryDesc desc;
  };
  struct Turned {
    int arg, from;
    MemoryDesc desc, wanted;
    Reorder turn;
  };
  // Memory objects of one call at a time: what is given, what is turned, the scratchpad.
  struct Arguments {
    std::vector<Memory> own;
    std::vector<dnnl_exec_arg_t> all;
  };
  class Free {
   public:
    std::unique_ptr<Arguments> take() {
      std::lock_guard<std::mutex> lock(mutex_);
      if (all_.empty()) return nullptr;
      auto last = std::move(all_.back());
      all_.pop_back();
      return last;
    }
    void give(std::unique_ptr<Arguments> a) {
      std::lock_guard<std::mutex> lock(mutex_);
      all_.push_back(std::move(a));
    }

   private:
    std::mutex mutex_;
    std::vector<std::unique_ptr<Arguments>> all_;
  };

  std::unique_ptr<Arguments> arguments() const {
    auto a = std::make_unique<Arguments>();
    const auto own = [&](int arg, const Memory& m) {
      a->own.push_back(m);
      a->all.push_back({arg, m.get()});
    };
    for (const Given& g : given_) own(g.arg, Memory(g.desc, nullptr));
    for (const Turned& t : turned_) own(t.arg, Memory(t.wanted));
    if (scratch_bytes_ > 0) own(DNNL_ARG_SCRATCHPAD, Memory(scratch_, nullptr));
    for (const Fixed& f : fixed_) a->all.push_back({f.arg, f.data.get()});
    return a;
  }

  std::string implementation_;
  std::shared_ptr<const Work> work_;
  Primitive primitive_;
  MemoryDesc scratch_;
  size_t scratch_bytes_ = 0;
  std::vector<Fixed> fixed_;
  std::vector<Given> given_;
  std::vector<Turned> turned_;
  std::unique_ptr<Free> free_ = std::make_unique<Free>();
};

// What a region does, step by step, with tensors of its own between the steps.
class Kernel {
 public:
  void push_back(Step step) { steps_.push_back(std::move(step)); }
  const std::vector<Step>& steps() const { return steps_; }

  // A tensor between two steps.
  View own(View like) {
    like.from = kOwn + static_cast<int>(offsets_.size());
    if (like.from >= kOwn + kMostOwn) OPINFO_THROW(ValueError) << "too many tensors in between";
    offsets_.push_back(size_);
    size_ += (like.desc().bytes() + 63) / 64 * 64;
    return like;
  }

  // `data` has kOwn + kMostOwn pointers, those of the call's tensors first. False if a step's sums
  // are not finite: the region's results are those of its usual form then.
  bool operator()(void** data) const {
    if (size_ > 0) {
      char* mine = room<1>(size_);
      for (size_t k = 0; k < offsets_.size(); ++k) data[kOwn + k] = mine + offsets_[k];
    }
    for (const Step& step : steps_)
      if (!step(data)) return false;
    return true;
  }

 private:
  std::vector<Step> steps_;
  std::vector<size_t> offsets_;
  size_t size_ = 0;
};

}  // namespace
}  // namespace opinfo_onednn
