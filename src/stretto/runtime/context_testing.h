// What tests of contexts share.
#pragma once

#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "stretto/stretto.h"

namespace stretto::runtime {

inline Tensor of_int64s(Shape shape, std::vector<int64_t> values) {
  return Tensor::of<int64_t>(std::move(shape), std::span<const int64_t>(values));
}

// A model with a cache, for one new place behind as many as `past` says.
inline Model optimized(const std::string& bytes, Shape past = {1, 2, 4, 3},
                       const std::map<std::string, ShapeRange>& ranges = {}) {
  OptimizeOptions options{
      .threads = 2, .tuning = "off", .tuning_cache = "none", .verify = false, .profile = false};
  options.ranges = ranges;
  options.inputs.emplace("inputs_embeds", Tensor(DType::kFloat32, {1, 1, 6}));
  options.inputs.emplace("attention_mask", Tensor(DType::kInt64, {1, 5}));
  options.inputs.emplace("position_ids", Tensor(DType::kInt64, {1, 1}));
  options.inputs.emplace("past_key_values.0.key", Tensor(DType::kFloat32, std::move(past)));
  return optimize(std::as_bytes(std::span(bytes)), "m.onnx", "", options);
}

// Numbers that differ, whole so that sums are exact.
inline Tensor step(int64_t batch, int64_t places, int seed) {
  Tensor x(DType::kFloat32, {batch, places, 6});
  int i = seed * 31;
  for (float& v : x.mutable_values<float>()) v = static_cast<float>(i++ * 7 % 23);
  return x;
}

inline std::vector<float> values(const Tensor& tensor) {
  const auto v = tensor.values<float>();
  return {v.begin(), v.end()};
}

}  // namespace stretto::runtime
