// Load a library that `opinfo compile` or `Compiled.export` wrote, and call its model.
//
//     ./run MODEL.so FUNCTION INPUT.bin N,C,H,W OUTPUT.bin
//
// INPUT.bin holds float32 numbers in row-major order; OUTPUT.bin gets the numbers of the first
// result. The process needs libtvm_runtime.so and libtvm_ffi.so, and no Python.

#include <tvm/ffi/container/array.h>
#include <tvm/ffi/container/shape.h>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/extra/module.h>
#include <tvm/ffi/function.h>

#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <new>
#include <sstream>
#include <stdexcept>
#include <string>
#include <system_error>
#include <vector>

namespace ffi = tvm::ffi;

namespace {

constexpr std::size_t kAlignment = 64;  // Compiled code reads whole vectors.
constexpr int kPooledAllocator = 2;     // AllocatorType::kPooled of TVM's runtime.

// Memory for a tensor, by the interface that ffi::Tensor::FromNDAlloc expects.
struct AlignedMemory {
  void AllocData(DLTensor* tensor) {
    std::size_t bytes = ffi::GetDataSize(*tensor);
    std::size_t rounded = (bytes + kAlignment - 1) / kAlignment * kAlignment;
    tensor->data = std::aligned_alloc(kAlignment, rounded ? rounded : kAlignment);
    if (tensor->data == nullptr) throw std::bad_alloc();
  }
  void FreeData(DLTensor* tensor) { std::free(tensor->data); }
};

ffi::Shape ParseShape(const std::string& text) {
  std::vector<int64_t> extents;
  std::istringstream words(text);
  for (std::string word; std::getline(words, word, ',');) {
    int64_t extent = -1;
    const char* end = word.data() + word.size();
    auto [last, error] = std::from_chars(word.data(), end, extent);
    if (error != std::errc() || last != end || extent < 0) {
      throw std::runtime_error("shape " + text + ": expected extents such as 1,3,224,224");
    }
    extents.push_back(extent);
  }
  return ffi::Shape(extents.begin(), extents.end());
}

ffi::Tensor ReadTensor(const std::string& path, const ffi::Shape& shape) {
  ffi::Tensor tensor = ffi::Tensor::FromNDAlloc(AlignedMemory(), shape,
                                                DLDataType{kDLFloat, 32, 1}, DLDevice{kDLCPU, 0});
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  auto expected = static_cast<std::streamoff>(ffi::GetDataSize(tensor));
  if (!file) throw std::runtime_error(path + ": cannot be read");
  if (file.tellg() != expected) {
    throw std::runtime_error(path + ": expected " + std::to_string(expected) + " bytes, got " +
                             std::to_string(file.tellg()));
  }
  file.seekg(0).read(static_cast<char*>(tensor.data_ptr()), expected);
  return tensor;
}

// A model returns a tensor, or a tuple of them as an array.
ffi::Tensor FirstResult(const ffi::Any& result) {
  if (auto tensor = result.as<ffi::Tensor>()) return *tensor;
  return result.cast<ffi::Array<ffi::Any>>()[0].cast<ffi::Tensor>();
}

void Run(char** arguments) {
  // dlopen looks for a name without a slash in the system's folders only.
  std::string path = std::filesystem::absolute(arguments[1]).string();
  ffi::Module library = ffi::Module::LoadFromFile(path);

  // A virtual machine holds the constants and the memory of one caller: one for each thread.
  ffi::Module machine = library->GetFunction("vm_load_executable").value()().cast<ffi::Module>();
  machine->GetFunction("vm_initialization")
      .value()(static_cast<int>(kDLCPU), 0, kPooledAllocator);

  ffi::Optional<ffi::Function> function = machine->GetFunction(arguments[2]);
  if (!function.has_value()) {
    throw std::runtime_error(std::string("the model has no function ") + arguments[2]);
  }
  ffi::Tensor input = ReadTensor(arguments[3], ParseShape(arguments[4]));
  ffi::Tensor output = FirstResult(function.value()(input));

  std::ofstream file(arguments[5], std::ios::binary);
  file.write(static_cast<const char*>(output.data_ptr()),
             static_cast<std::streamsize>(ffi::GetDataSize(output)));
  if (!file.flush()) throw std::runtime_error(std::string(arguments[5]) + ": cannot be written");
  std::cout << "output shape";
  for (int64_t extent : output.shape()) std::cout << " " << extent;
  std::cout << "\n";
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 6) {
    std::cerr << "usage: run MODEL.so FUNCTION INPUT.bin N,C,H,W OUTPUT.bin\n";
    return 2;
  }
  try {
    Run(arguments);
  } catch (const ffi::Error& error) {  // Raised in TVM or in the library.
    std::cerr << error.kind() << ": " << error.message() << "\n";
    return 1;
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
}
