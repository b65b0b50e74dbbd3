#include <memory>

#include "stretto/comm/gradient/exchange.h"
#include "stretto/comm/gradient/stages/stages.h"

namespace stretto::comm {
namespace {

// 16 KiB, for which a message takes little longer than for one value. A thousandth of a small
// bucket, such as that of a network's first layers, would leave most of its values waiting for a
// thousand steps.
constexpr int64_t kLeastSent = 2048;

}  // namespace

StartExchange topk_exchange(std::string_view, const GradientGroup& group, const Options& options) {
  const TopKOptions chosen{.density = options.topk_density,
                           .warmup_steps = options.topk_warmup_steps,
                           .least = kLeastSent};
  const int ranks = group.ranks;
  TopK(chosen, ranks, 0);  // checks the options now, not at the first bucket
  auto residuals = std::make_shared<Residuals>();
  const StartExchange plain = plain_exchange("none", group, options);
  return [=](const Bucket& bucket) -> Exchange {
    const int64_t count = bucket.count();
    if (bucket.dtype != DType::kFloat32 || count < kCodedElements) return plain(bucket);
    auto topk = std::make_shared<TopK>(chosen, ranks, count);
    auto* gradient = static_cast<float*>(bucket.values);
    const auto stage = [&bucket, topk, residuals, gradient](int) {
      const WantedCollective wanted =
          topk->begin(gradient, residuals->of(bucket.slices, bucket.loss_scale), bucket.step);
      return std::vector{Operation{.kind = Kind::kAllGather,
                                   .dtype = wanted.dtype,
                                   .count = wanted.count,
                                   .input = wanted.input,
                                   .output = wanted.output,
                                   .name = label(bucket.slices)}};
    };
    return {.stage = stage, .finish = [topk, gradient] { topk->finish(gradient); }};
  };
}

}  // namespace stretto::comm
