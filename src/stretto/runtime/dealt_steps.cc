#include "stretto/runtime/dealt_steps.h"

#include <algorithm>

namespace stretto::runtime {
namespace {

// Rates of a fast core. Only the order of magnitude counts: a step that takes twice as long is cut
// into units twice as long.
constexpr double kFlopsPerLane = 10e9, kBytesPerSecond = 10e9;

// Units take at least so long, because the end of one is a place where nothing is read ahead; long
// shares are cut further, because the last unit is waited for.
constexpr double kShortUnit = 100e-6, kLongUnit = 500e-6;
constexpr int kFewUnits = 4, kMostUnits = 16;

// Kernels with more phases than that have one for each step of a sequence.
constexpr int kFewPhases = 16;

double share_seconds(const Instruction& in, const kernels::Target& target) {
  double bytes = 2 * static_cast<double>(in.copy_bytes), flops = 0;
  if (in.family != nullptr) {
    const kernels::Signature signature = in.family->signature(in.problem.data());
    for (const auto* list : {&signature.inputs, &signature.constants, &signature.outputs}) {
      for (const kernels::TensorInfo& info : *list) {
        bytes += static_cast<double>(element_count(info.shape)) *
                 static_cast<double>(dtype_bytes(info.dtype));
      }
    }
    flops = in.family->flops(in.problem.data());
  }
  return std::max(flops / (kFlopsPerLane * target.lanes()), bytes / kBytesPerSecond) /
         target.threads;
}

int units_of(double seconds) {
  const int few = std::min(kFewUnits, static_cast<int>(seconds / kShortUnit));
  const int many = static_cast<int>(std::min<double>(kMostUnits, seconds / kLongUnit));
  return std::max({1, few, many});
}

}  // namespace

std::vector<DealtStep> deal(const Program& program) {
  std::vector<DealtStep> steps;
  for (int i = 0; i < static_cast<int>(program.instructions.size()); ++i) {
    const Instruction& in = program.instructions[i];
    if (in.interpreted != nullptr) {
      steps.push_back({.instruction = i, .units = 0});
      continue;
    }
    const int phases = in.family ? in.family->phases(in.row, in.problem.data()) : 1;
    const double seconds = share_seconds(in, program.target) / (phases > kFewPhases ? phases : 1);
    const int units = program.target.threads == 1 ? 1 : units_of(seconds);
    for (int phase = 0; phase < phases; ++phase) steps.push_back({i, phase, units});
  }
  return steps;
}

std::vector<int> units_of(const std::vector<DealtStep>& steps) {
  std::vector<int> units;
  for (const DealtStep& step : steps) units.push_back(step.units);
  return units;
}

}  // namespace stretto::runtime
