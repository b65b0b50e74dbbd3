#include "stretto/base/error.h"
#include "stretto/comm/gradient/exchange.h"

namespace stretto::comm {
namespace {

constexpr GradientCodec kGradientCodecs[] = {
    // The rows of codecs().
    {"none", plain_exchange},
    {"fp16", plain_exchange},
    {"bf16", plain_exchange},
    {"int8", plain_exchange},
    // Those that need several operations, or the names and shapes of parameters.
    {"topk", topk_exchange},
    {"powersgd", powersgd_exchange},
    {"mixed", mixed_exchange},
};

}  // namespace

std::span<const GradientCodec> gradient_codecs() { return kGradientCodecs; }

const GradientCodec& find_gradient_codec(std::string_view name) {
  std::string names;
  for (const GradientCodec& codec : kGradientCodecs) {
    if (codec.name == name) return codec;
    names += names.empty() ? "" : ", ";
    names += codec.name;
  }
  throw_invalid("codec: expected one of {}, got '{}' (set it with codec= or STRETTO_CODEC)", names,
                name);
}

int64_t Bucket::count() const {
  int64_t total = 0;
  for (const GradientSlice& slice : slices) total += slice.count;
  return total;
}

float* Residuals::of(const std::vector<GradientSlice>& slices, double loss_scale) {
  std::vector<ParameterRange> layout;
  for (const GradientSlice& slice : slices) {
    const uint64_t number = numbers_.try_emplace(slice.parameter, numbers_.size()).first->second;
    layout.push_back({.parameter = number, .begin = slice.begin, .count = slice.count});
  }
  store_.set_loss_scale(loss_scale);
  return store_.residuals(layout);
}

Operation average(float* values, int64_t count, std::string_view codec, std::string_view name) {
  return {.kind = Kind::kAllReduce,
          .dtype = DType::kFloat32,
          .reduction = ReduceOp::kAverage,
          .count = count,
          .input = values,
          .output = values,
          .codec = std::string(codec),
          .name = std::string(name),
          .scanned = true};
}

std::string label(std::span<const GradientSlice> slices) {
  if (slices.empty()) return "no gradients";
  if (slices.size() == 1) return slices[0].parameter;
  return fmt::format("{} .. {} ({} gradients)", slices.front().parameter, slices.back().parameter,
                     slices.size());
}

}  // namespace stretto::comm
