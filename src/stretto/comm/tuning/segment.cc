#include "stretto/comm/tuning/segment.h"

#include <algorithm>
#include <limits>

#include "stretto/base/error.h"

namespace stretto::comm {
namespace {

constexpr double kMiB = 1024.0 * 1024.0;

std::vector<double> bytes_before(std::span<const Gradient> gradients) {
  std::vector<double> sums = {0};
  for (const Gradient& g : gradients) sums.push_back(sums.back() + static_cast<double>(g.bytes));
  return sums;
}

void check_order(std::span<const Gradient> gradients) {
  if (gradients.empty()) throw_invalid("segments: expected at least one gradient");
  for (size_t i = 1; i < gradients.size(); ++i)
    if (gradients[i].ready_s < gradients[i - 1].ready_s)
      throw_invalid("segments: {} is ready at {} s, before {} at {} s", gradients[i].name,
                    gradients[i].ready_s, gradients[i - 1].name, gradients[i - 1].ready_s);
}

}  // namespace

Split evaluate(std::span<const Gradient> gradients, const LinkCost& link, std::vector<int> ends) {
  const std::vector<double> sums = bytes_before(gradients);
  Split split{.ends = std::move(ends)};
  int begin = 0;
  for (const int end : split.ends) {
    split.finish_s = std::max(split.finish_s, gradients[end - 1].ready_s) + link.alpha_s +
                     link.beta_s_per_byte * (sums[end] - sums[begin]);
    begin = end;
  }
  split.tail_s = split.finish_s - gradients.back().ready_s;
  return split;
}

std::vector<Split> best_splits(std::span<const Gradient> gradients, const LinkCost& link,
                               int candidates, int max_segments) {
  check_order(gradients);
  const int n = static_cast<int>(gradients.size());
  const int most = std::min(n, std::max(1, max_segments));
  const std::vector<double> sums = bytes_before(gradients);

  // finish[i]: the earliest end of sending the first i gradients in exactly `count` segments. An
  // earlier end is never worse for later segments, so dynamic programming applies.
  constexpr double kNever = std::numeric_limits<double>::infinity();
  std::vector<double> finish(n + 1, kNever);
  finish[0] = 0;
  std::vector<std::vector<int>> last_begin(most + 1, std::vector<int>(n + 1));
  std::vector<Split> splits;
  for (int count = 1; count <= most; ++count) {
    std::vector<double> next(n + 1, kNever);
    for (int end = count; end <= n; ++end) {
      const double ready = gradients[end - 1].ready_s;
      for (int begin = count - 1; begin < end; ++begin) {
        const double at = std::max(finish[begin], ready) + link.alpha_s +
                          link.beta_s_per_byte * (sums[end] - sums[begin]);
        if (at < next[end]) {
          next[end] = at;
          last_begin[count][end] = begin;
        }
      }
    }
    finish = std::move(next);
    std::vector<int> ends;
    for (int end = n, c = count; c > 0; end = last_begin[c][end], --c) ends.push_back(end);
    std::reverse(ends.begin(), ends.end());
    splits.push_back(evaluate(gradients, link, std::move(ends)));
  }
  std::stable_sort(splits.begin(), splits.end(),
                   [](const Split& a, const Split& b) { return a.finish_s < b.finish_s; });
  if (static_cast<int>(splits.size()) > candidates) splits.resize(std::max(1, candidates));
  return splits;
}

LinkCost fit_link(std::span<const Transfer> transfers) {
  if (transfers.empty()) return {};
  double bytes = 0, seconds = 0;
  for (const Transfer& t : transfers) {
    bytes += t.bytes;
    seconds += t.seconds;
  }
  const double count = static_cast<double>(transfers.size());
  const double mean_bytes = bytes / count, mean_seconds = seconds / count;
  double variance = 0, covariance = 0;
  for (const Transfer& t : transfers) {
    variance += (t.bytes - mean_bytes) * (t.bytes - mean_bytes);
    covariance += (t.bytes - mean_bytes) * (t.seconds - mean_seconds);
  }
  // If one of the two would be negative, it is zero and the other is fitted alone.
  const double beta = variance > 0 ? std::max(0.0, covariance / variance) : 0;
  const double alpha = mean_seconds - beta * mean_bytes;
  if (alpha >= 0) return {alpha, beta};
  return {0, bytes > 0 ? seconds / bytes : 0};
}

Split ddp_split(std::span<const Gradient> gradients, const LinkCost& link, double first_cap_mib,
                double cap_mib) {
  std::vector<int> ends;
  double held = 0;
  for (int i = 0; i < static_cast<int>(gradients.size()); ++i) {
    held += static_cast<double>(gradients[i].bytes);
    if (held < (ends.empty() ? first_cap_mib : cap_mib) * kMiB) continue;
    ends.push_back(i + 1);
    held = 0;
  }
  if (ends.empty() || ends.back() != static_cast<int>(gradients.size()))
    ends.push_back(static_cast<int>(gradients.size()));
  return evaluate(gradients, link, std::move(ends));
}

BucketPlan plan_ddp_buckets(std::span<const Gradient> gradients, const LinkCost& link) {
  check_order(gradients);
  constexpr double kCaps[] = {0.25, 0.5, 1, 1.5, 2, 3, 4, 6, 8, 12, 16, 25, 32, 50, 64, 100, 200};
  BucketPlan best{.split = ddp_split(gradients, link, 1, 25)};
  for (const double first : {1.0, 0.25, 0.5, 2.0, 4.0, 8.0, 16.0})
    for (const double cap : kCaps) {
      Split split = ddp_split(gradients, link, first, cap);
      if (split.finish_s < best.split.finish_s) best = {first, cap, std::move(split)};
    }
  return best;
}

std::string describe(const BucketPlan& plan, std::span<const Gradient> gradients,
                     const LinkCost& link) {
  std::string text;
  if (plan.first_cap_mib != 1)
    text += fmt::format("torch.distributed._DEFAULT_FIRST_BUCKET_BYTES = {:.0f}\n",
                        plan.first_cap_mib * kMiB);
  text += fmt::format("DistributedDataParallel(model, bucket_cap_mb={:g})\n", plan.cap_mib);
  const std::vector<double> sums = bytes_before(gradients);
  int begin = 0;
  for (size_t i = 0; i < plan.split.ends.size(); ++i) {
    const int end = plan.split.ends[i];
    text += fmt::format("bucket {}: {:.2f} MiB, {} gradients up to {}, ready at {:.1f} ms\n", i,
                        (sums[end] - sums[begin]) / kMiB, end - begin, gradients[end - 1].name,
                        gradients[end - 1].ready_s * 1e3);
    begin = end;
  }
  const Split usual = ddp_split(gradients, link, 1, 25);
  text += fmt::format("expected after backward: {:.2f} ms; with the default caps {:.2f} ms\n",
                      plan.split.tail_s * 1e3, usual.tail_s * 1e3);
  return text;
}

}  // namespace stretto::comm
