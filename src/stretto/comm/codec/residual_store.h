// Error-feedback residuals, kept by parameter instead of by bucket: DDP rebuilds its buckets after
// the first step and engines cut them differently from step to step, and what was not sent yet must
// follow the values it belongs to.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace stretto::comm {

// Elements [begin, begin + count) of a parameter.
struct ParameterRange {
  uint64_t parameter = 0;  // any name that is the same in every step
  int64_t begin = 0, count = 0;

  bool operator==(const ParameterRange&) const = default;
};

// Not thread-safe.
class ResidualStore {
 public:
  // The residuals of `layout`, one after another, zero where there were none; valid until the next
  // call with another layout that shares elements with it. The same layout gives the same memory;
  // a new one takes over the elements it shares with older ones, which are forgotten.
  float* residuals(std::span<const ParameterRange> layout);

  // Gradients are about to be multiplied by `scale` (a loss scaler's): residuals that were left
  // with another scale are converted, when they are next asked for. Throws InvalidArgument unless
  // scale is positive and finite.
  void set_loss_scale(double scale);

  void clear();
  int64_t elements() const;  // stored, over all layouts

 private:
  struct Bucket {
    std::vector<ParameterRange> layout;
    std::vector<float> values;
    double loss_scale = 1;
  };
  void take_over(Bucket& to);
  void rescale(Bucket& bucket) const;

  std::vector<std::unique_ptr<Bucket>> buckets_;
  double loss_scale_ = 1;
};

}  // namespace stretto::comm
