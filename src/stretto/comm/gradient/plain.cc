#include <memory>

#include "stretto/comm/codec/codec.h"
#include "stretto/comm/gradient/exchange.h"

namespace stretto::comm {

StartExchange plain_exchange(std::string_view name, const GradientGroup&, const Options&) {
  const Codec* codec = &find_codec(name);
  auto residuals = std::make_shared<Residuals>();
  return [codec, residuals](const Bucket& bucket) -> Exchange {
    const int64_t count = bucket.count();
    const bool coded = bucket.dtype == DType::kFloat32 && count >= kCodedElements;
    Operation operation = average(static_cast<float*>(bucket.values), count,
                                  coded ? codec->name : "none", label(bucket.slices));
    operation.dtype = bucket.dtype;
    if (coded && codec->feedback)
      operation.residual = residuals->of(bucket.slices, bucket.loss_scale);
    return {.stage = [operation](int) { return std::vector{operation}; }, .finish = [] {}};
  };
}

}  // namespace stretto::comm
