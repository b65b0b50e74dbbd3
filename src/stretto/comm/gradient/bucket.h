// A gradient bucket, described by what it holds.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "stretto/comm/gradient/residual_store.h"
#include "stretto/tensor/dtype.h"

namespace stretto::comm {

// Part of a parameter's gradient.
struct GradientSlice {
  std::string parameter;  // its name, the same in every step and on every rank
  int64_t begin = 0;      // first element, within the parameter
  int64_t count = 0;
  int64_t rows = 0, columns = 0;  // shape of the whole parameter as a matrix; 0: it is not one

  bool is_matrix() const {
    return begin == 0 && rows > 1 && columns > 1 && rows * columns == count;
  }
};

// Slices lie one after another in `values`, which belong to the caller and are replaced by the
// average over ranks. All ranks submit buckets of the same slices in the same order.
struct Bucket {
  std::vector<GradientSlice> slices;
  DType dtype = DType::kFloat32;
  void* values = nullptr;
  int64_t step = 0;       // number of the backward pass, the same on every rank
  double loss_scale = 1;  // by which a loss scaler has multiplied the gradients
  double timeout_s = 0;   // of each of its operations, as Operation::timeout_s

  int64_t count() const;
};

// Residuals by the names of parameters.
class Residuals {
 public:
  // The residuals of the slices, one after another, for this loss scale; see ResidualStore.
  float* of(const std::vector<GradientSlice>& slices, double loss_scale);

 private:
  ResidualStore store_;
  std::unordered_map<std::string, uint64_t> numbers_;
};

}  // namespace stretto::comm
