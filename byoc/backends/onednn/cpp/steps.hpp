
// A primitive with its arguments, and what follows it. It follows tensors.hpp.
namespace opinfo_onednn {
namespace {

// What follows the main primitive.
struct Post {
  struct Item {
    bool binary;
    algorithm how;
    float alpha, beta;
    View other;
  };
  std::vector<Item> items;
  std::vector<std::string> implementations;  // for the main primitive, the best one first

  // The operands in other axes; false if the function has none for one of them.
  template <typename Turn>
  bool turned(Turn turn, Post* out) const {
    *out = *this;
    for (Item& i : out->items)
      if (i.binary && !turn(i.other, &i.other)) return false;
    return true;
  }
  dnnl::primitive_attr attributes(size_t from, size_t to) const {
    dnnl::post_ops ops;
    for (size_t k = from; k < to; ++k) {
      const Item& i = items[k];
      if (i.binary)
        ops.append_binary(i.how, i.other.desc());
      else
        ops.append_eltwise(i.how, i.alpha, i.beta);
    }
    dnnl::primitive_attr a;
    a.set_post_ops(ops);
    a.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    return a;
  }
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

// A primitive with its arguments: constants in place, tensors by number.
class Step {
 public:
  // `from` to `to`: the items of `post` that the primitive does too.
  Step(const dnnl::primitive& primitive, const dnnl::primitive_desc_base& pd, const Post& post,
       size_t from, size_t to)
      : implementation_(pd.impl_info_str()),
        primitive_(primitive),
        scratch_(pd.scratchpad_desc()) {
    for (size_t k = from; k < to; ++k)
      if (post.items[k].binary)
        add(DNNL_ARG_ATTR_MULTIPLE_POST_OP(static_cast<int>(k - from)) | DNNL_ARG_SRC_1,
            post.items[k].other);
  }

  // What no primitive does; `run` returns whether its sums are finite.
  Step(const std::string& implementation, std::function<bool(void* const*)> run)
      : implementation_(implementation), run_(std::move(run)) {}

  // A constant that is computed from one of the model's.
  Step& fixed(int arg, const memory& m) {
    fixed_.push_back({arg, m});
    return *this;
  }

  Step& add(int arg, const View& v) { return add(arg, v, v.desc()); }

  Step& add(int arg, const View& v, const memory::desc& wanted) {
    if (v.from < 0) {
      fixed_.push_back({arg, constants()[~v.from]->as(v.desc(), wanted)});
    } else if (v.desc() == wanted) {
      given_.push_back({arg, v.from, wanted});
    } else {
      memory a(v.desc(), cpu(), nullptr), b(wanted, cpu(), nullptr);
      const dnnl::reorder::primitive_desc pd(a, b);
      implementation_ = std::string("reorder ") + pd.impl_info_str() + " " + implementation_;
      turned_.push_back({arg, v.from, v.desc(), wanted, dnnl::reorder(pd)});
    }
    return *this;
  }

  // As oneDNN names it, after those that turn its operands.
  const std::string& implementation() const { return implementation_; }

  // False if the result is not the region's, since sums are not finite.
  bool operator()(void* const* data) const {
    if (run_) return run_(data);
    std::unique_ptr<Arguments> a = free_->take();
    if (!a) a = arguments();
    for (size_t k = 0; k < given_.size(); ++k) a->own[k].set_data_handle(data[given_[k].from]);
    for (size_t k = 0; k < turned_.size(); ++k) {
      memory from(turned_[k].desc, cpu(), data[turned_[k].from]);
      turned_[k].reorder.execute(here(), from, a->own[given_.size() + k]);
    }
    if (scratch_.get_size() > 0) a->own.back().set_data_handle(room<0>(scratch_.get_size()));
    dnnl::error::wrap_c_api(dnnl_primitive_execute(primitive_.get(), here().get(),
                                                   static_cast<int>(a->all.size()), a->all.data()),
                            "could not execute a primitive");
    here().wait();
    free_->give(std::move(a));
    return true;
  }

 private:
  struct Fixed {
    int arg;
    memory data;
  };
  struct Given {
    int arg, from;
    memory::desc desc;
  };
  struct Turned {
    int arg, from;
    memory::desc desc, wanted;
    dnnl::reorder reorder;
  };
  // Memory objects of one call at a time: what is given, what is turned, the scratchpad.
  struct Arguments {
    std::vector<memory> own;
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
    auto own = [&](int arg, memory m) {
      a->own.push_back(m);
      a->all.push_back({arg, m.get()});
    };
    for (const Given& g : given_) own(g.arg, memory(g.desc, cpu(), nullptr));
    for (const Turned& t : turned_) own(t.arg, memory(t.wanted, cpu()));
    if (scratch_.get_size() > 0) own(DNNL_ARG_SCRATCHPAD, memory(scratch_, cpu(), nullptr));
    for (const Fixed& f : fixed_) a->all.push_back({f.arg, f.data.get()});
    return a;
  }

  std::string implementation_;
  std::function<bool(void* const*)> run_;
  dnnl::primitive primitive_;
  memory::desc scratch_;
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
    size_ += (like.desc().get_size() + 63) / 64 * 64;
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
