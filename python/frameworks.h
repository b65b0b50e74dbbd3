// What is known of NumPy and PyTorch: names that are looked up once, and how new arrays are made.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include "stretto/tensor/tensor.h"

namespace stretto::python {

enum class Framework : uint8_t { kNone, kNumpy, kTorch };

// DLPack's table of C functions (dlpack.h, version 1.3), as far as it is used here.
struct DlTensor {
  void* data;
  int32_t device_type, device_id, ndim;
  nanobind::dlpack::dtype dtype;
  int64_t* shape;
  int64_t* strides;
  uint64_t byte_offset;
};
struct DlManaged {
  uint32_t major, minor;
  void* context;
  void (*deleter)(DlManaged*);
  uint64_t flags;
  DlTensor tensor;
};
struct DlExchange {
  uint32_t major, minor;
  DlExchange* older;
  int (*allocate)(DlTensor* prototype, DlManaged** out, void* context,
                  void (*set_error)(void* context, const char* kind, const char* message));
  int (*managed_from_object)(void* object, DlManaged** out);
  int (*object_from_managed)(DlManaged* tensor, void** object);
  int (*tensor_from_object)(void* object, DlTensor* out);
  int (*work_stream)(int32_t device_type, int32_t device_id, void** stream);
};

constexpr int32_t kDlpackCpu = 1;

// The objects live as long as the interpreter: nothing is given back.
struct NumpyNames {
  PyObject *array, *empty, *dense;
  PyObject* type(DType dtype);  // numpy.dtype

  NumpyNames();

 private:
  PyObject* types_[64] = {};
};
NumpyNames& numpy();

struct TorchNames {
  PyObject *tensor, *parameter, *module, *gradients_on;
  PyObject *requires_grad, *is_neg, *contiguous;
  PyObject* increment_version = nullptr;  // null before PyTorch 2.1
  const DlExchange* exchange = nullptr;   // null before PyTorch 2.10

  TorchNames();
};
// Null as long as nobody has imported PyTorch: then no value is a tensor of it.
TorchNames* torch();

// Tells PyTorch that the values of a tensor have changed, as its own functions do: gradients that
// need the values of before are then an error instead of wrong.
void mark_written(nanobind::handle tensor);

// A new array of a framework with undefined values, and where they are.
struct NewArray {
  nanobind::object object;
  void* data = nullptr;
};
NewArray new_array(Framework framework, DType dtype, const Shape& shape);

// An array of the framework with the tensor's values, in numpy_type() where the framework lacks its
// type.
nanobind::object framework_array(Framework framework, const Tensor& tensor);
bool has_type(Framework framework, DType dtype);

}  // namespace stretto::python
