// Constants that are part of the library, as the tensors with which TVM would call a function that
// takes constants. TVM would keep them in a stream, from which it copies them when it loads them.
#ifndef OPINFO_EMBEDDED
#define OPINFO_EMBEDDED
#include <tvm/ffi/c_api.h>

#include <cstddef>
#include <vector>

namespace opinfo_embedded {
namespace {

struct Constant {
  size_t offset;  // in bytes
  DLDataType type;
  std::vector<int64_t> shape;
};

// A tensor that refers to the data, which live as long as the library.
[[maybe_unused]] int tensor(const Constant& c, char* data, TVMFFIAny* out) {
  auto* managed = new DLManagedTensor();
  DLTensor& t = managed->dl_tensor;
  t.data = data + c.offset;
  t.device = {kDLCPU, 0};
  t.ndim = static_cast<int32_t>(c.shape.size());
  t.dtype = c.type;
  t.shape = const_cast<int64_t*>(c.shape.data());
  managed->deleter = [](DLManagedTensor* self) { delete self; };
  TVMFFIObjectHandle object = nullptr;
  if (int code = TVMFFITensorFromDLPack(managed, 0, 0, &object)) return code;
  out->type_index = kTVMFFITensor;
  out->v_obj = static_cast<TVMFFIObject*>(object);
  return 0;
}

// Call `receive`, which the code may lack, with an array of all constants.
template <typename Receive>
int pass(const std::vector<Constant>& constants, char* data, void* self, TVMFFIAny* result,
         Receive receive) {
  if (receive == nullptr) {  // whoever builds the library looks for it
    result->type_index = kTVMFFIInt;
    return 0;
  }
  TVMFFIByteArray name{"ffi.Array", 9};
  TVMFFIObjectHandle make = nullptr;
  if (int code = TVMFFIFunctionGetGlobal(&name, &make)) return code;
  std::vector<TVMFFIAny> all(constants.size(), TVMFFIAny{});
  int code = 0;
  for (size_t k = 0; k < all.size() && code == 0; ++k) code = tensor(constants[k], data, &all[k]);
  TVMFFIAny array{};
  if (code == 0) code = TVMFFIFunctionCall(make, all.data(), static_cast<int32_t>(all.size()), &array);
  for (TVMFFIAny& a : all)
    if (a.v_obj != nullptr) TVMFFIObjectDecRef(a.v_obj);
  TVMFFIObjectDecRef(make);
  if (code != 0) return code;
  code = receive(self, &array, 1, result);
  TVMFFIObjectDecRef(array.v_obj);
  return code;
}

}  // namespace
}  // namespace opinfo_embedded
#endif  // OPINFO_EMBEDDED
