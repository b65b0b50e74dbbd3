#include "stretto/comm/gradient/residual_store.h"

#include <algorithm>
#include <cmath>

#include "stretto/base/error.h"

namespace stretto::comm {
namespace {

int64_t elements_of(std::span<const ParameterRange> layout) {
  int64_t total = 0;
  for (const ParameterRange& range : layout) total += range.count;
  return total;
}

bool overlap(std::span<const ParameterRange> a, std::span<const ParameterRange> b) {
  for (const ParameterRange& x : a)
    for (const ParameterRange& y : b)
      if (x.parameter == y.parameter &&
          std::max(x.begin, y.begin) < std::min(x.begin + x.count, y.begin + y.count))
        return true;
  return false;
}

}  // namespace

float* ResidualStore::residuals(std::span<const ParameterRange> layout) {
  for (const auto& bucket : buckets_) {
    if (!std::ranges::equal(bucket->layout, layout)) continue;
    rescale(*bucket);
    return bucket->values.data();
  }
  auto fresh = std::make_unique<Bucket>();
  fresh->layout.assign(layout.begin(), layout.end());
  fresh->values.resize(static_cast<size_t>(elements_of(layout)));
  fresh->loss_scale = loss_scale_;
  take_over(*fresh);
  buckets_.push_back(std::move(fresh));
  return buckets_.back()->values.data();
}

// Moves the elements that are shared; an older bucket keeps the ranges that are left.
void ResidualStore::take_over(Bucket& to) {
  std::vector<std::unique_ptr<Bucket>> kept;
  for (auto& from : buckets_) {
    if (!overlap(from->layout, to.layout)) {  // it may be in use, so its memory must not move
      kept.push_back(std::move(from));
      continue;
    }
    rescale(*from);
    Bucket rest{.loss_scale = loss_scale_};
    int64_t from_at = 0;
    for (const ParameterRange& old : from->layout) {
      std::vector<bool> taken(static_cast<size_t>(old.count));
      int64_t to_at = 0;
      for (const ParameterRange& range : to.layout) {
        const int64_t begin = std::max(range.begin, old.begin);
        const int64_t end = std::min(range.begin + range.count, old.begin + old.count);
        if (range.parameter == old.parameter && begin < end) {
          std::copy_n(from->values.begin() + from_at + begin - old.begin, end - begin,
                      to.values.begin() + to_at + begin - range.begin);
          std::fill(taken.begin() + begin - old.begin, taken.begin() + end - old.begin, true);
        }
        to_at += range.count;
      }
      for (int64_t begin = 0, end; begin < old.count; begin = end) {
        end = begin;
        while (end < old.count && taken[end] == taken[begin]) ++end;
        if (taken[begin]) continue;
        rest.layout.push_back({old.parameter, old.begin + begin, end - begin});
        rest.values.insert(rest.values.end(), from->values.begin() + from_at + begin,
                           from->values.begin() + from_at + end);
      }
      from_at += old.count;
    }
    if (!rest.layout.empty()) kept.push_back(std::make_unique<Bucket>(std::move(rest)));
  }
  buckets_ = std::move(kept);
}

void ResidualStore::rescale(Bucket& bucket) const {
  if (bucket.loss_scale == loss_scale_) return;
  const float factor = static_cast<float>(loss_scale_ / bucket.loss_scale);
  for (float& value : bucket.values) {
    value *= factor;
    if (!std::isfinite(value)) value = 0;  // so that it cannot make later gradients non-finite
  }
  bucket.loss_scale = loss_scale_;
}

void ResidualStore::set_loss_scale(double scale) {
  if (!(scale > 0) || !std::isfinite(scale))
    throw_invalid("loss scale: expected a positive number, got {}", scale);
  loss_scale_ = scale;
}

void ResidualStore::clear() { buckets_.clear(); }

int64_t ResidualStore::elements() const {
  int64_t total = 0;
  for (const auto& bucket : buckets_) total += static_cast<int64_t>(bucket->values.size());
  return total;
}

}  // namespace stretto::comm
