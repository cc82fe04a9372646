// What the functions of a model and a runtime tell each other.
#include <cstddef>

// DLPack's code and bits of an element type, and whether the runtime gets its numbers clamped to
// 2^24.
struct ElementType {
  int code, bits;
  bool clamped = false;
};

// A region: the number of its model, and the element types of its inputs and results.
struct Region {
  const char* name;
  size_t model;
  int inputs, results;
  const ElementType* types;
};

// The runtime's library, the number of models, and the names of the inputs and results of the one
// that has most.
struct Models {
  const char* library;
  size_t count;
  const char* const* inputs;
  const char* const* results;
};
