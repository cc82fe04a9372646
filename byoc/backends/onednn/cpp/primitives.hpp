
// Objects of oneDNN by its C API. Its C++ API is templates over that, which take seconds to compile.
// It follows common/regions.hpp.
#include <oneapi/dnnl/dnnl.h>
#include <oneapi/dnnl/dnnl_debug.h>

#include <string>
#include <vector>

#define OPINFO_CALLED __attribute__((noinline, unused))
// What each call of a region runs: at the level of this file, GCC inlines nothing else.
#define OPINFO_EACH_CALL inline __attribute__((always_inline))

namespace opinfo_onednn {
namespace {  // two models in one process share nothing

using Dims = std::vector<int64_t>;
using Type = dnnl_data_type_t;
using Algorithm = dnnl_alg_kind_t;

// What the library says it cannot do.
struct Refused : std::runtime_error {
  using std::runtime_error::runtime_error;
};

[[noreturn]] OPINFO_CALLED void refuse(const char* failure) { throw Refused(failure); }

OPINFO_EACH_CALL void check(dnnl_status_t status, const char* failure) {
  if (status != dnnl_success) refuse(failure);
}

// A function that is called before its caller returns. Whoever takes one is compiled once for all.
template <typename Signature>
class Called;

template <typename Result, typename... Args>
class Called<Result(Args...)> {
 public:
  template <typename Function>
  Called(const Function& function)
      : function_(&function), call_([](const void* f, Args... args) -> Result {
          return (*static_cast<const Function*>(f))(args...);
        }) {}
  Result operator()(Args... args) const { return call_(function_, args...); }

 private:
  const void* function_;
  Result (*call_)(const void*, Args...);
};

// An object of the library, which copies share.
using Object = std::shared_ptr<void>;

template <typename Handle, dnnl_status_t (*destroy)(Handle)>
Object owned(Handle made) {
  return Object(static_cast<void*>(made), +[](void* o) { destroy(static_cast<Handle>(o)); });
}

inline dnnl_engine_t cpu() {
  static const Object engine = [] {
    dnnl_engine_t made = nullptr;
    check(dnnl_engine_create(&made, dnnl_cpu, 0), "could not create an engine");
    return owned<dnnl_engine_t, dnnl_engine_destroy>(made);
  }();
  return static_cast<dnnl_engine_t>(engine.get());
}

inline dnnl_stream_t here() {
  static thread_local const Object stream = [] {
    dnnl_stream_t made = nullptr;
    check(dnnl_stream_create(&made, cpu(), dnnl_stream_default_flags), "could not create a stream");
    return owned<dnnl_stream_t, dnnl_stream_destroy>(made);
  }();
  return static_cast<dnnl_stream_t>(stream.get());
}

// The type, the extents and the layout of a tensor.
class MemoryDesc {
 public:
  MemoryDesc() = default;
  explicit MemoryDesc(dnnl_memory_desc_t made)
      : object_(owned<dnnl_memory_desc_t, dnnl_memory_desc_destroy>(made)) {}

  static MemoryDesc copy_of(const_dnnl_memory_desc_t other) {
    if (other == nullptr) return MemoryDesc();
    dnnl_memory_desc_t made = nullptr;
    check(dnnl_memory_desc_clone(&made, other), "could not clone a memory descriptor");
    return MemoryDesc(made);
  }

  const_dnnl_memory_desc_t get() const { return static_cast<dnnl_memory_desc_t>(object_.get()); }
  size_t bytes() const { return object_ ? dnnl_memory_desc_get_size(get()) : 0; }
  bool operator==(const MemoryDesc& o) const { return dnnl_memory_desc_equal(get(), o.get()) != 0; }
  bool operator!=(const MemoryDesc& o) const { return !(*this == o); }

 private:
  Object object_;
};

// A tensor with memory of its own, unless an address or null is given.
class Memory {
 public:
  explicit Memory(const MemoryDesc& desc, void* data = DNNL_MEMORY_ALLOCATE) {
    dnnl_memory_t made = nullptr;
    check(dnnl_memory_create(&made, desc.get(), cpu(), data), "could not create a memory object");
    object_ = owned<dnnl_memory_t, dnnl_memory_destroy>(made);
  }

  OPINFO_EACH_CALL dnnl_memory_t get() const { return static_cast<dnnl_memory_t>(object_.get()); }

  MemoryDesc desc() const {
    const_dnnl_memory_desc_t own = nullptr;
    check(dnnl_memory_get_memory_desc(get(), &own), "could not get the descriptor of memory");
    return MemoryDesc::copy_of(own);
  }

  void* data() const {
    void* data = nullptr;
    check(dnnl_memory_get_data_handle(get(), &data), "could not get the address of memory");
    return data;
  }

  OPINFO_EACH_CALL void set_data(void* data) const {
    check(dnnl_memory_set_data_handle(get(), data), "could not set the address of memory");
  }

 private:
  Object object_;
};

// A primitive before it is made: its implementation, and what it wants of its operands.
class Description {
 public:
  Description() = default;
  explicit Description(dnnl_primitive_desc_t made)
      : object_(owned<dnnl_primitive_desc_t, dnnl_primitive_desc_destroy>(made)) {}

  explicit operator bool() const { return object_ != nullptr; }
  dnnl_primitive_desc_t get() const { return static_cast<dnnl_primitive_desc_t>(object_.get()); }

  const char* implementation() const {
    const char* name = nullptr;
    check(dnnl_primitive_desc_query(get(), dnnl_query_impl_info_str, 0, &name),
          "could not name an implementation");
    return name;
  }

  bool is_convolution() const {
    dnnl_primitive_kind_t kind = dnnl_undefined_primitive;
    check(dnnl_primitive_desc_query(get(), dnnl_query_primitive_kind, 0, &kind),
          "could not name the kind of a primitive");
    return kind == dnnl_convolution;
  }

  // Go to the next implementation; false if there is none.
  bool next() const { return dnnl_primitive_desc_next_impl(get()) == dnnl_success; }

  MemoryDesc operand(dnnl_query_t which) const {
    return MemoryDesc::copy_of(dnnl_primitive_desc_query_md(get(), which, 0));
  }
  MemoryDesc src() const { return operand(dnnl_query_src_md); }
  MemoryDesc weights() const { return operand(dnnl_query_weights_md); }
  MemoryDesc scratchpad() const { return operand(dnnl_query_scratchpad_md); }

 private:
  Object object_;
};

// A description by the function of the library that writes one, for the CPU.
template <typename Create, typename... Args>
Description described(Create create, Args... args) {
  dnnl_primitive_desc_t made = nullptr;
  check(create(&made, cpu(), args...), "could not create a primitive descriptor");
  return Description(made);
}

class Primitive {
 public:
  Primitive() = default;
  explicit Primitive(const Description& description) {
    dnnl_primitive_t made = nullptr;
    check(dnnl_primitive_create(&made, description.get()), "could not create a primitive");
    object_ = owned<dnnl_primitive_t, dnnl_primitive_destroy>(made);
  }

  OPINFO_EACH_CALL void execute(const dnnl_exec_arg_t* args, size_t count) const {
    check(dnnl_primitive_execute(static_cast<dnnl_primitive_t>(object_.get()), here(),
                                 static_cast<int>(count), args),
          "could not execute a primitive");
  }

 private:
  Object object_;
};

OPINFO_EACH_CALL void wait() { check(dnnl_stream_wait(here()), "could not wait for a stream"); }

// Copies elements to another layout or type.
class Reorder {
 public:
  Reorder(const MemoryDesc& from, const MemoryDesc& to) : description_(of(from, to, nullptr)),
                                                          primitive_(description_) {}

  static Description of(const MemoryDesc& from, const MemoryDesc& to,
                        const_dnnl_primitive_attr_t attributes) {
    dnnl_primitive_desc_t made = nullptr;
    check(dnnl_reorder_primitive_desc_create(&made, from.get(), cpu(), to.get(), cpu(), attributes),
          "could not create a primitive descriptor for a reorder primitive");
    return Description(made);
  }

  const char* implementation() const { return description_.implementation(); }

  void execute(const Memory& from, const Memory& to) const {
    const dnnl_exec_arg_t args[] = {{DNNL_ARG_FROM, from.get()}, {DNNL_ARG_TO, to.get()}};
    primitive_.execute(args, 2);
  }

 private:
  Description description_;
  Primitive primitive_;
};

OPINFO_CALLED void reorder(const Memory& from, const Memory& to) {
  Reorder(from.desc(), to.desc()).execute(from, to);
  wait();
}

}  // namespace
}  // namespace opinfo_onednn
