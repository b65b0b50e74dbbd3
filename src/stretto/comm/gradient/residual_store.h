// Keeps residuals by parameter and not by bucket. DDP rebuilds its buckets after the first step,
// and the engine cuts them differently from step to step, but a residual must stay with its values.
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
  // The residuals of `layout`, one after another, zero where there are none. The memory belongs to
  // the store and is valid until a call with another layout that shares elements. The same layout
  // gives the same memory; another takes over the elements that it shares with older ones.
  float* residuals(std::span<const ParameterRange> layout);

  // The loss scale of the gradients to come. Residuals of another scale are converted when they are
  // asked for. Throws InvalidArgument unless `scale` is positive and finite.
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
