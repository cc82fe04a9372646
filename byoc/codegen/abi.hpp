// What generated functions need of TVM's calling convention, over its C ABI: this compiles in a
// fraction of a second, the C++ headers of tvm_ffi take several.
#ifndef OPINFO_ABI
#define OPINFO_ABI
#include <pthread.h>  // <mutex> is a quarter of the time to compile this

#include <cstring>
#include <initializer_list>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace opinfo {
namespace {  // two models in one process share nothing

// An error of a kind that Python knows, to be returned.
[[maybe_unused]] int fail(const char* kind, const std::string& message) {
  TVMFFIErrorSetRaisedFromCStr(kind, message.c_str());
  return -1;
}

// To be thrown: an error of a kind that Python knows.
struct Error : std::runtime_error {
  Error(const char* kind, const std::string& message) : std::runtime_error(message), kind(kind) {}
  const char* kind;
};

// Run what may throw; what TVM's callers get.
template <typename Work>
int guarded(Work work) {
  try {
    work();
    return 0;
  } catch (const Error& e) {
    return fail(e.kind, e.what());
  } catch (const std::exception& e) {
    return fail("InternalError", e.what());
  }
}

[[maybe_unused]] TVMFFIAny integer(int64_t value) {
  TVMFFIAny out{};
  out.type_index = kTVMFFIInt;
  out.v_int64 = value;
  return out;
}

// The tensor of an argument, null if it is none.
[[maybe_unused]] const DLTensor* tensor(const TVMFFIAny& a) {
  if (a.type_index == kTVMFFIDLTensorPtr) return static_cast<const DLTensor*>(a.v_ptr);
  return a.type_index == kTVMFFITensor ? TVMFFITensorGetDLTensorPtr(a.v_obj) : nullptr;
}

[[maybe_unused]] char* data(const DLTensor* t) {
  return static_cast<char*>(t->data) + t->byte_offset;
}

// What a function takes, as TVM_FFI_DLL_EXPORT_TYPED_FUNC tells of its own.
[[maybe_unused]] int metadata(int count, TVMFFIAny* result) {
  std::string args = R"({\"type\":\"None\"})";
  for (int k = 0; k < count; ++k) args += R"(,{\"type\":\"DLTensor*\"})";
  std::string text = R"({"type_schema":"{\"type\":\"ffi.Function\",\"args\":[)" + args + R"(]}"})";
  TVMFFIByteArray bytes{text.data(), text.size()};
  return TVMFFIStringFromByteArray(&bytes, result);
}

template <typename... T>
constexpr int arity(void (*)(T...)) {
  return sizeof...(T);
}

template <typename... T, size_t... K>
int call(const char* symbol, void (*function)(T...), const TVMFFIAny* args, int32_t count,
         std::index_sequence<K...>) {
  if (count != static_cast<int32_t>(sizeof...(T)))
    return fail("TypeError", std::string(symbol) + ": " + std::to_string(count) +
                                 " arguments, expected " + std::to_string(sizeof...(T)));
  const DLTensor* all[] = {tensor(args[K])...};
  for (const DLTensor* t : all)
    if (t == nullptr) return fail("TypeError", std::string(symbol) + ": expected tensors");
  return guarded([&] { function(all[K]...); });
}

// A function of tensors, `void f(const DLTensor* x, …, const DLTensor* out)`, exported by a name.
// It reports an error by `throw opinfo::Error("ValueError", "what is wrong")`.
// How many it takes is checked when the library is built.
#define OPINFO_TYPED(symbol, function)                                                     \
  OPINFO_FUNCTION(symbol) {                                                                \
    return opinfo::call(#symbol, function, args, count,                                    \
                        std::make_index_sequence<opinfo::arity(function)>{});              \
  }                                                                                        \
  OPINFO_FUNCTION(_metadata_##symbol) {                                                    \
    return opinfo::metadata(opinfo::arity(function), result);                              \
  }

// Whether elements lie side by side in the order of the axes.
[[maybe_unused]] bool is_compact(const DLTensor* t) {
  if (t->strides == nullptr) return true;
  for (int k = 0; k < t->ndim; ++k)
    if (t->shape[k] == 0) return true;  // numpy gives strides of 0
  int64_t step = 1;
  for (int k = t->ndim; k-- > 0; step *= t->shape[k])
    if (t->shape[k] != 1 && t->strides[k] != step) return false;
  return true;
}

// The constants that `__init_<symbol>` is called with, kept as long as the library is loaded.
class Constants {
 public:
  Constants() = default;
  Constants(const Constants&) = delete;
  ~Constants() {
    for (TVMFFIObjectHandle o : kept_) TVMFFIObjectDecRef(o);
  }

  // Once, whoever else loads the library.
  int load(const TVMFFIAny* args, TVMFFIAny* result) {
    pthread_mutex_lock(&lock_);
    if (!loaded_) {
      auto* cell = reinterpret_cast<const TVMFFISeqCell*>(
          reinterpret_cast<char*>(args->v_obj) + sizeof(TVMFFIObject));
      auto* values = static_cast<const TVMFFIAny*>(cell->data);
      for (int64_t k = 0; k < cell->size; ++k) TVMFFIObjectIncRef(values[k].v_obj);
      for (int64_t k = 0; k < cell->size; ++k) kept_.push_back(values[k].v_obj);
      loaded_ = true;
    }
    pthread_mutex_unlock(&lock_);
    *result = integer(0);
    return 0;
  }

  size_t size() const { return kept_.size(); }
  const DLTensor* operator[](size_t k) const {
    if (k >= kept_.size())
      throw Error("IndexError", "constant " + std::to_string(k) + " of " +
                                    std::to_string(kept_.size()) + " that were loaded");
    return TVMFFITensorGetDLTensorPtr(kept_[k]);
  }

 private:
  pthread_mutex_t lock_ = PTHREAD_MUTEX_INITIALIZER;
  bool loaded_ = false;
  std::vector<TVMFFIObjectHandle> kept_;
};

// What is called at load time with the constants of all functions, by the name of the first one.
#define OPINFO_CONSTANTS(symbol, constants) \
  OPINFO_FUNCTION(__init_##symbol) { return constants.load(args, result); }

// Call a function of the process by its name: some numbers, then the arguments as they are.
[[maybe_unused]] int forward(const char* name, std::initializer_list<int64_t> first,
                             const TVMFFIAny* args, int32_t count, TVMFFIAny* result) {
  TVMFFIByteArray text{name, std::strlen(name)};
  TVMFFIObjectHandle function = nullptr;
  if (int code = TVMFFIFunctionGetGlobal(&text, &function)) return code;
  if (function == nullptr)
    return fail("RuntimeError", std::string("this process has no function ") + name);
  std::vector<TVMFFIAny> all;
  for (int64_t k : first) all.push_back(integer(k));
  all.insert(all.end(), args, args + count);
  int code = TVMFFIFunctionCall(function, all.data(), static_cast<int32_t>(all.size()), result);
  TVMFFIObjectDecRef(function);
  return code;
}

}  // namespace
}  // namespace opinfo
#endif  // OPINFO_ABI
