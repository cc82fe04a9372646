// Constants that are part of the library, as the tensors with which TVM would call a function that
// takes constants. TVM would keep them in a stream, from which it copies them when it loads them.
// Each library compiles this, so it needs no header of C++.
#ifndef OPINFO_EMBEDDED
#define OPINFO_EMBEDDED
#include <tvm/ffi/c_api.h>

namespace opinfo_embedded {
namespace {

struct Constant {
  uint64_t offset;  // in bytes
  DLDataType type;
  int32_t rank;
};

// A tensor that refers to the data, which live as long as the library.
[[maybe_unused]] int tensor(const Constant& c, const int64_t* extents, char* data, TVMFFIAny* out) {
  auto* managed = new DLManagedTensor();
  DLTensor& t = managed->dl_tensor;
  t.data = data + c.offset;
  t.device = {kDLCPU, 0};
  t.ndim = c.rank;
  t.dtype = c.type;
  t.shape = const_cast<int64_t*>(extents);
  managed->deleter = [](DLManagedTensor* self) { delete self; };
  TVMFFIObjectHandle object = nullptr;
  if (int code = TVMFFITensorFromDLPack(managed, 0, 0, &object)) return code;
  out->type_index = kTVMFFITensor;
  out->v_obj = static_cast<TVMFFIObject*>(object);
  return 0;
}

// Call `receive`, which the code may lack, with an array of all constants; `extents` has those of
// all in order.
template <int32_t count, typename Receive>
int pass(const Constant (&constants)[count], const int64_t* extents, char* data, void* self,
         TVMFFIAny* result, Receive receive) {
  if (receive == nullptr) {  // whoever builds the library looks for it
    result->type_index = kTVMFFIInt;
    return 0;
  }
  TVMFFIByteArray name{"ffi.Array", 9};
  TVMFFIObjectHandle make = nullptr;
  if (int code = TVMFFIFunctionGetGlobal(&name, &make)) return code;
  auto* all = new TVMFFIAny[count]();
  int code = 0;
  for (int32_t k = 0; k < count && code == 0; extents += constants[k++].rank)
    code = tensor(constants[k], extents, data, &all[k]);
  TVMFFIAny array{};
  if (code == 0) code = TVMFFIFunctionCall(make, all, count, &array);
  for (int32_t k = 0; k < count; ++k)
    if (all[k].v_obj != nullptr) TVMFFIObjectDecRef(all[k].v_obj);
  delete[] all;
  TVMFFIObjectDecRef(make);
  if (code != 0) return code;
  code = receive(self, &array, 1, result);
  TVMFFIObjectDecRef(array.v_obj);
  return code;
}

}  // namespace
}  // namespace opinfo_embedded
#endif  // OPINFO_EMBEDDED
