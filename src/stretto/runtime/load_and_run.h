// What the fuzzer and the test of its corpus do with the bytes of an artefact: load them and run
// once what loads. For tests.
#pragma once

#include <algorithm>
#include <memory>
#include <span>
#include <vector>

#include "stretto/base/clock.h"
#include "stretto/base/error.h"
#include "stretto/base/interrupt.h"
#include "stretto/base/memory.h"
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

// While it lives, tensors of this process get no more than `bytes` together.
class LittleMemory {
 public:
  explicit LittleMemory(int64_t bytes) : held_(total_memory_bytes() - bytes) { take_memory(held_); }
  ~LittleMemory() { return_memory(held_); }
  LittleMemory(const LittleMemory&) = delete;
  LittleMemory& operator=(const LittleMemory&) = delete;

 private:
  const int64_t held_;
};

// For models that run in stages, which say only while they run how long they take and how much they
// hold. `work` returns the outcome.
template <typename Work>
Outcome within_limits(Work&& work) {
  struct OutOfTime {};
  const LittleMemory little(64 << 20);
  const double end = now_s() + 1;
  const InterruptScope scope([end] {
    if (now_s() > end) throw OutOfTime();
  });
  try {
    return work();
  } catch (const OutOfTime&) {
    return Outcome::kTooLarge;
  }
}

// The same for inputs of any kind; of what is no tensor there is nothing, or a few words.
inline AnyValue varied_value(TensorSpec spec) {
  for (int64_t& extent : spec.shape) extent = std::max<int64_t>(extent, 0);
  if (spec.other.empty()) return varied_input(spec);
  if (spec.other == "sequence") return Sequence{};
  if (spec.other == "optional") return {};
  Strings strings{spec.shape.empty() ? Shape{3} : spec.shape, {}};
  for (int64_t i = 0; i < element_count(strings.shape); ++i) {
    strings.values.push_back(i % 3 == 0 ? "a" : i % 3 == 1 ? "The b" : "\xc3\xa9\xff");
  }
  return strings;
}

inline Outcome run_staged_once(const Model& model) {
  return within_limits([&] {
    Session session(model, std::min(model.threads(), 2));
    std::vector<AnyValue> inputs;
    for (const TensorSpec& spec : model.inputs()) inputs.push_back(varied_value(spec));
    session.run_values(inputs);
    return Outcome::kRan;
  });
}

inline Outcome run_once(const Model& model, const RunLimits& limits) {
  if (model.staged()) return run_staged_once(model);
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
