// NumPy's .npz archives: a zip of .npy files, one per name.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "stretto/tensor/tensor.h"

namespace stretto::cli {

// Every array of numpy.savez or numpy.savez_compressed, by name. Throws FormatError naming the file
// and the array.
std::map<std::string, Tensor> read_npz(const std::string& path);

// Not compressed, as numpy.savez does; written under a temporary name and renamed. Throws
// FormatError.
void write_npz(const std::string& path, const std::vector<std::pair<std::string, Tensor>>& tensors);

// One tensor from a .npy file.
Tensor read_npy(const std::string& path);

}  // namespace stretto::cli
