// What the fuzzer and the corpus test do with any bytes given as an ONNX model: import, rewrite and
// compile them, and run once what comes out. For tests.
#pragma once

#include <optional>

#include "stretto/import/onnx/import.h"
#include "stretto/ir/not_straight.h"
#include "stretto/runtime/load_and_run.h"

namespace stretto::runtime {

// Models above the limits are imported only: nothing is wrong with them.
inline Outcome optimize_and_run(std::span<const std::byte> bytes, const RunLimits& limits = {}) {
  const OptimizeOptions options{
      .threads = 1, .tuning = "off", .tuning_cache = "none", .verify = false, .profile = false};
  try {
    try {
      const ImportedModel imported = onnx::import_onnx_bytes(bytes, "model.onnx");
      double sum = 0;
      for (const ir::Value& value : imported.graph.values) {
        sum += static_cast<double>(element_count(*value.shape)) *
               static_cast<double>(dtype_bytes(value.dtype));
      }
      if (sum > static_cast<double>(limits.memory_bytes) ||
          ir::flops(imported.graph) > limits.flops) {
        return Outcome::kTooLarge;
      }
    } catch (const ir::NotStraight&) {
      std::optional<Model> model;
      const Outcome outcome = within_limits([&] {
        model.emplace(optimize(bytes, "model.onnx", "", options));
        return Outcome::kRan;
      });
      return model ? run_once(*model, limits) : outcome;
    }
    return run_once(optimize(bytes, "model.onnx", "", options), limits);
  } catch (const FormatError&) {
  } catch (const Unsupported&) {
  } catch (const InvalidArgument&) {
  }
  return Outcome::kRefused;
}

}  // namespace stretto::runtime
