// Where to cut the gradients of a backward pass: each segment is sent when its last gradient is
// ready, over a link that takes alpha seconds per segment and beta per byte, one after another. Few
// cuts leave the link idle at first and a long tail after backward; many pay alpha each time. The
// shortest tail is found exactly, by dynamic programming over measured times.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace stretto::comm {

// A gradient, in the order in which they get ready.
struct Gradient {
  std::string name;
  int64_t bytes = 0;   // as sent
  double ready_s = 0;  // since the beginning of backward; not less than the one before
};

struct LinkCost {
  double alpha_s = 0;  // per segment, however small
  double beta_s_per_byte = 0;
};

struct Split {
  std::vector<int> ends;  // gradients [ends[i - 1], ends[i]) form segment i; the last is all
  double finish_s = 0;    // when the last segment has arrived
  double tail_s = 0;      // of it, after the last gradient was ready
};

// What a given cut costs.
Split evaluate(std::span<const Gradient> gradients, const LinkCost& link, std::vector<int> ends);

// The best cuts with different numbers of segments, at most max_segments, best first: candidates to
// be tried on real steps. Among equals, fewer segments come first. At least one gradient; throws
// InvalidArgument when ready times go backwards.
std::vector<Split> best_splits(std::span<const Gradient> gradients, const LinkCost& link,
                               int candidates = 3, int max_segments = 64);

// alpha and beta from measured (bytes, seconds) of single segments, by least squares; not negative.
struct Transfer {
  double bytes = 0, seconds = 0;
};
LinkCost fit_link(std::span<const Transfer> transfers);

// For stock DDP, whose buckets are closed as soon as they hold a cap's bytes: the caps in MiB with
// which its tail is shortest. The first cap holds for the first bucket only.
struct BucketPlan {
  double first_cap_mib = 1, cap_mib = 25;
  Split split;
};
Split ddp_split(std::span<const Gradient> gradients, const LinkCost& link, double first_cap_mib,
                double cap_mib);
BucketPlan plan_ddp_buckets(std::span<const Gradient> gradients, const LinkCost& link);

// The plan as text: the arguments for DDP, then a line per bucket, and what default caps would
// give.
std::string describe(const BucketPlan& plan, std::span<const Gradient> gradients,
                     const LinkCost& link);

}  // namespace stretto::comm
