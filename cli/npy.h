// NumPy's .npy format, versions 1 to 3 (numpy.lib.format): the tensors people keep in files.
#pragma once

#include <span>
#include <string>

#include "stretto/tensor/tensor.h"

namespace stretto::cli {

// Little-endian numbers and bools of any shape; Fortran order is turned into row-major. Throws
// FormatError naming `file` for anything truncated or of another type.
Tensor parse_npy(std::span<const std::byte> bytes, const std::string& file);

// The bytes of a version 1 file.
std::string npy_bytes(const Tensor& tensor);

}  // namespace stretto::cli
