// A name for a constant by which two programs of one model know that they mean the same numbers.
#pragma once

#include <string>

#include "stretto/tensor/tensor.h"

namespace stretto {

// Type, shape, and the address of a large tensor or the XXH3-128 of a small one's values. Equal
// names of tensors that are alive mean equal values; a large tensor and its copy have different
// names.
std::string identity(const Tensor& tensor);

// Type, number of elements, and the XXH3-128 of all values.
std::string content_name(const Tensor& tensor);

}  // namespace stretto
