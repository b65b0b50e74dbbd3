// Computes where to cut the gradients of a backward pass into segments. Each segment is sent when
// its last gradient is ready; a link takes alpha seconds per segment and beta seconds per byte, and
// sends one segment after the other. Few segments leave a long tail after backward; many pay alpha
// often. The shortest tail is found exactly, by dynamic programming over measured times.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace stretto::comm {

// A gradient; gradients are given in the order in which they become ready.
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

// Times of the given segments.
Split evaluate(std::span<const Gradient> gradients, const LinkCost& link, std::vector<int> ends);

// The best splits with different numbers of segments, up to max_segments, best first, to be tried
// on real steps. Of equal ones those with fewer segments come first. Throws InvalidArgument when
// there is no gradient or ready times go backwards.
std::vector<Split> best_splits(std::span<const Gradient> gradients, const LinkCost& link,
                               int candidates = 3, int max_segments = 64);

// Fits alpha and beta, neither negative, to measured transfers of single segments by least squares.
struct Transfer {
  double bytes = 0, seconds = 0;
};
LinkCost fit_link(std::span<const Transfer> transfers);

// The caps in MiB that give DDP's own buckets the shortest tail. DDP closes a bucket when it holds
// that many bytes; the first cap is for the first bucket only.
struct BucketPlan {
  double first_cap_mib = 1, cap_mib = 25;
  Split split;
};
Split ddp_split(std::span<const Gradient> gradients, const LinkCost& link, double first_cap_mib,
                double cap_mib);
BucketPlan plan_ddp_buckets(std::span<const Gradient> gradients, const LinkCost& link);

// The plan as text: the arguments for DDP, a line per bucket, and the tail with DDP's default caps.
std::string describe(const BucketPlan& plan, std::span<const Gradient> gradients,
                     const LinkCost& link);

}  // namespace stretto::comm
