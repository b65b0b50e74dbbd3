// A name for a constant by which two programs of one model know that they mean the same numbers.
#pragma once

#include <string>

#include "stretto/tensor/tensor.h"

namespace stretto {

// Type, shape, and the values of a small tensor or the address of a large one. Equal names of
// tensors that are alive mean equal values; a large tensor and its copy have different names. The
// text may hold any byte.
std::string identity(const Tensor& tensor);

}  // namespace stretto
