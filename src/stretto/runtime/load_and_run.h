// What the fuzzer and the test of its corpus do with the bytes of an artefact: load them and run
// once what loads. For tests.
#pragma once

#include <algorithm>
#include <memory>
#include <span>
#include <vector>

#include "stretto/base/error.h"
#include "stretto/runtime/model_state.h"

namespace stretto::runtime {

enum class Outcome { kRefused, kTooLarge, kRan };

// A model that loads but would take longer or more memory than this is not run: nothing is wrong
// with it.
struct RunLimits {
  double flops = 2e7;
  int64_t memory_bytes = 16 << 20;
};

// Small numbers around zero for floats; for integers also such as no table has.
inline Tensor varied_input(const TensorSpec& spec) {
  Tensor tensor(spec.dtype, spec.shape);
  auto* bytes = static_cast<unsigned char*>(tensor.mutable_data());
  if (spec.dtype == DType::kFloat32) {
    auto values = tensor.mutable_values<float>();
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 17) / 4 - 2;
  } else if (spec.dtype == DType::kBool) {
    for (size_t i = 0; i < tensor.bytes(); ++i) bytes[i] = i % 3 == 0;
  } else {
    for (size_t i = 0; i < tensor.bytes(); ++i) bytes[i] = i % 29 == 28 ? 0xf7 : i % 8 == 0;
  }
  return tensor;
}

inline Outcome run_once(const Model& model, const RunLimits& limits) {
  int64_t bytes = model.memory_bytes();
  for (const auto* list : {&model.inputs(), &model.outputs()}) {
    for (const TensorSpec& spec : *list) {
      bytes += element_count(spec.shape) * static_cast<int64_t>(dtype_bytes(spec.dtype));
    }
  }
  if (bytes > limits.memory_bytes || ir::flops(*model.state().graph) > limits.flops) {
    return Outcome::kTooLarge;
  }
  Session session(model, std::min(model.threads(), 2));
  std::vector<Tensor> inputs;
  for (const TensorSpec& spec : model.inputs()) inputs.push_back(varied_input(spec));
  session.run(inputs);
  return Outcome::kRan;
}

inline Outcome load_and_run(std::span<const std::byte> file, const RunLimits& limits = {}) {
  // Aligned as a mapped file is; a vector would not be.
  const auto memory = allocate(file.size());
  std::copy(file.begin(), file.end(), memory.get());
  try {
    return run_once(load_bytes({memory.get(), file.size()}, memory, "artefact"), limits);
  } catch (const FormatError&) {
  } catch (const Unsupported&) {
  } catch (const InvalidArgument&) {  // an operand's value that only running shows, as an index
  }
  return Outcome::kRefused;
}

}  // namespace stretto::runtime
