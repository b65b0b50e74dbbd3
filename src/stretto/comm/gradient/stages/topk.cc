#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>

#include "stretto/base/error.h"
#include "stretto/comm/gradient/stages/stages.h"

namespace stretto::comm {
namespace {

// Orders values by magnitude; inf and NaN are greatest, so they are always sent.
uint32_t magnitude(float value) { return std::bit_cast<uint32_t>(value) & 0x7fffffffu; }

}  // namespace

TopK::TopK(TopKOptions options, int ranks, int64_t count)
    : options_(options), ranks_(ranks), count_(count) {
  if (!(options.density > 0) || options.density > 1)
    throw_invalid("topk: expected a density in (0, 1], got {}", options.density);
  if (count > INT32_MAX)
    throw_unsupported("topk: indices have 32 bits, the tensor has {} elements", count);
  if (options.momentum != 0) velocity_.resize(static_cast<size_t>(count));
}

double TopK::density(int64_t step) const {
  if (step >= options_.warmup_steps) return options_.density;
  const int64_t stage = 4 * step / options_.warmup_steps;
  return std::max(options_.density, std::pow(0.25, static_cast<double>(stage + 1)));
}

// Fills sent_ with the `chosen` greatest values, ascending by index; of equal ones the first. The
// residual includes the gradient already, except values that are not finite.
void TopK::select(const float* gradient, const float* residual, int64_t chosen) {
  // A histogram over exponent and leading bits shows which values are among the greatest; only
  // those in the bin where the count is reached have to be sorted.
  constexpr int kShift = 19;
  std::array<int64_t, (0x7fffffffu >> kShift) + 1> bins{};
  const auto value = [&](int64_t i) {
    return std::isfinite(gradient[i]) ? residual[i] : gradient[i];
  };
  for (int64_t i = 0; i < count_; ++i) ++bins[magnitude(value(i)) >> kShift];
  size_t bin = bins.size() - 1;
  int64_t above = 0;
  while (above + bins[bin] < chosen) above += bins[bin--];

  boundary_.clear();
  for (int64_t i = 0; i < count_; ++i)
    if (magnitude(value(i)) >> kShift == bin) boundary_.push_back(i);
  const auto greater = [&](int64_t a, int64_t b) {
    const uint32_t x = magnitude(value(a)), y = magnitude(value(b));
    return x != y ? x > y : a < b;
  };
  const auto wanted = boundary_.begin() + (chosen - above);
  if (wanted != boundary_.end())
    std::nth_element(boundary_.begin(), wanted, boundary_.end(), greater);
  boundary_.erase(wanted, boundary_.end());
  std::sort(boundary_.begin(), boundary_.end());

  sent_.resize(static_cast<size_t>(2 * chosen));
  auto next = boundary_.begin();
  int64_t taken = 0;
  for (int64_t i = 0; i < count_; ++i) {
    const bool inside = next != boundary_.end() && *next == i;
    if (inside) ++next;
    if (!inside && magnitude(value(i)) >> kShift <= bin) continue;
    sent_[taken] = static_cast<int32_t>(i);
    sent_[chosen + taken] = std::bit_cast<int32_t>(value(i));
    ++taken;
  }
}

WantedCollective TopK::begin(const float* gradient, float* residual, int64_t step) {
  for (int64_t i = 0; i < count_; ++i) {
    if (!std::isfinite(gradient[i])) continue;
    float update = gradient[i];
    if (!velocity_.empty()) update = velocity_[i] = options_.momentum * velocity_[i] + update;
    const float sum = residual[i] + update;
    if (std::isfinite(sum)) residual[i] = sum;
  }
  const auto share =
      static_cast<int64_t>(std::llround(density(step) * static_cast<double>(count_)));
  const int64_t wanted = std::max(share, std::min(options_.least, count_ / 8));
  const int64_t chosen = std::clamp<int64_t>(wanted, std::min<int64_t>(1, count_), count_);
  select(gradient, residual, chosen);
  for (int64_t i = 0; i < chosen; ++i) {
    const int32_t index = sent_[i];
    if (!std::isfinite(gradient[index])) continue;
    residual[index] = 0;
    if (!velocity_.empty()) velocity_[index] = 0;
  }
  received_.resize(sent_.size() * static_cast<size_t>(ranks_));
  return {.kind = Collective::kAllGather,
          .dtype = DType::kInt32,
          .count = 2 * chosen,
          .input = sent_.data(),
          .output = received_.data()};
}

void TopK::finish(float* gradient) {
  std::fill_n(gradient, count_, 0.0f);
  const size_t chosen = sent_.size() / 2;
  for (int rank = 0; rank < ranks_; ++rank) {
    const int32_t* block = received_.data() + static_cast<size_t>(rank) * sent_.size();
    for (size_t i = 0; i < chosen; ++i) {
      const int32_t index = block[i];
      if (index < 0 || index >= count_)
        throw FormatError("topk message", -1, "an index beyond the tensor");
      gradient[index] += std::bit_cast<float>(block[chosen + i]);
    }
  }
  for (int64_t i = 0; i < count_; ++i) gradient[i] /= static_cast<float>(ranks_);
}

}  // namespace stretto::comm
