// Each picture operator, with its standard parameters and always taken, and normalise(), on
// 224x224.
#include <benchmark/benchmark.h>

#include "stretto/media/operators/normalise.h"

namespace stretto::media::operators {
namespace {

constexpr int64_t kSide = 224;

std::vector<uint8_t> gradients() {
  std::vector<uint8_t> rgb;
  for (int64_t i = 0; i < 3 * kSide * kSide; ++i) rgb.push_back(static_cast<uint8_t>(i * 7 % 251));
  return rgb;
}

void picture_operator(benchmark::State& state) {
  const Operator& op = table()[static_cast<size_t>(state.range(0))];
  state.SetLabel(std::string(op.name));
  Operators operators = parse_operators(op.name);
  for (size_t i = 0; i < op.parameters.size(); ++i) {
    if (op.parameters[i].name == "chance") operators[0].parameters[i] = 1;
  }
  const std::vector<uint8_t> source = gradients();
  std::vector<uint8_t> rgb;
  Work work;
  uint64_t sample = 0;
  for (auto _ : state) {
    rgb = source;  // about 5 us
    apply(operators, {1, 0, sample++}, {rgb.data(), kSide, kSide}, work);
    benchmark::DoNotOptimize(rgb.data());
  }
}
BENCHMARK(picture_operator)->DenseRange(0, static_cast<int64_t>(table().size()) - 1);

void normalise_bytes(benchmark::State& state, DType dtype, bool planar) {
  std::vector<uint8_t> rgb = gradients();
  std::vector<float> out(rgb.size());
  Target target = planar ? planar_target(out.data(), dtype, kSide, kSide)
                         : interleaved_target(out.data(), dtype, kSide);
  target.mean = {0.485f, 0.456f, 0.406f};
  target.std = {0.229f, 0.224f, 0.225f};
  Work work;
  for (auto _ : state) {
    normalise({rgb.data(), kSide, kSide}, target, {}, work, usable_isa());
    benchmark::DoNotOptimize(out.data());
  }
}
BENCHMARK_CAPTURE(normalise_bytes, float32_nchw, DType::kFloat32, true);
BENCHMARK_CAPTURE(normalise_bytes, float32_nhwc, DType::kFloat32, false);
BENCHMARK_CAPTURE(normalise_bytes, float16_nchw, DType::kFloat16, true);
BENCHMARK_CAPTURE(normalise_bytes, uint8_nchw, DType::kUInt8, true);

}  // namespace
}  // namespace stretto::media::operators
