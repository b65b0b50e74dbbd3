#include "stretto/data/order.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <unordered_map>

#include "stretto/base/error.h"
#include "stretto/base/philox.h"

namespace stretto::data {
namespace {

// First words of Philox counters. SampleRandom's are below 2^26 with the same keys.
constexpr uint32_t kPermutationDraw = 0xF0000000, kWeightedDraw = 0xF1000000;
// Streams of permutations; those of windows and sources follow the last.
constexpr uint32_t kOrderStream = 0, kPeriodStream = 1, kWindowStream = 2, kSourceStream = 3;

constexpr int64_t kLongestEpoch = int64_t{1} << 40;

std::array<uint32_t, 2> key_of(uint64_t seed) {
  return {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)};
}
uint32_t low(uint64_t x) { return static_cast<uint32_t>(x); }
uint32_t high(uint64_t x) { return static_cast<uint32_t>(x >> 32); }

// The finaliser of SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number
// generators"): every bit of the result depends on every bit of x.
uint64_t mixed_bits(uint64_t x) {
  x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9;
  x = (x ^ x >> 27) * 0x94D049BB133111EB;
  return x ^ x >> 31;
}

// The sample at a place of one pass through `size` samples in blocks.
int64_t blocks_at(uint64_t seed, uint64_t pass, const Permutation& blocks, int64_t size,
                  int64_t block, int64_t window, int64_t place) {
  const int64_t count = (size + block - 1) / block;
  const int64_t missing = count * block - size;  // of the last block of the dataset
  const auto shorter = static_cast<int64_t>(blocks.where_is(static_cast<uint64_t>(count - 1)));
  // Where the k-th block of the order begins, and which one a place is in.
  const auto begin_of = [&](int64_t k) { return k * block - (k > shorter ? missing : 0); };
  const auto at = [&](int64_t p) {
    return p < begin_of(shorter + 1) ? p / block : (p + missing) / block;
  };
  const int64_t group = at(place) / window;
  const int64_t begin = begin_of(group * window);
  const int64_t end = begin_of(std::min(count, (group + 1) * window));
  const Permutation inside(seed ^ mixed_bits(static_cast<uint64_t>(group)), pass,
                           static_cast<uint64_t>(end - begin), kWindowStream);
  const int64_t p = begin + static_cast<int64_t>(inside(static_cast<uint64_t>(place - begin)));
  const int64_t k = at(p);
  return static_cast<int64_t>(blocks(static_cast<uint64_t>(k))) * block + (p - begin_of(k));
}

int64_t permuted_size(OrderKind kind, int64_t size, int64_t block) {
  return kind == OrderKind::kBlocks ? (size + block - 1) / block : size;
}

// Parts of kMixPeriod in the proportion of the weights, by the largest remainders.
std::vector<int64_t> shares_of(std::span<const double> weights) {
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  std::vector<int64_t> shares;
  std::vector<std::pair<double, size_t>> remainders;
  int64_t left = kMixPeriod;
  for (const double w : weights) {
    const double exact = w / sum * static_cast<double>(kMixPeriod);
    shares.push_back(static_cast<int64_t>(exact));
    remainders.emplace_back(-(exact - std::floor(exact)), remainders.size());
    left -= shares.back();
  }
  std::sort(remainders.begin(), remainders.end());
  for (size_t i = 0; left > 0; i = (i + 1) % remainders.size()) {
    if (weights[remainders[i].second] == 0) continue;
    ++shares[remainders[i].second];
    --left;
  }
  return shares;
}

void check_mixture(const OrderOptions& o, int64_t size) {
  if (o.source_sizes.size() != o.source_weights.size()) {
    throw_invalid("order: {} sources, but {} weights for them", o.source_sizes.size(),
                  o.source_weights.size());
  }
  if (o.source_sizes.empty()) return;
  if (o.kind == OrderKind::kWeighted) {
    throw_invalid("order: weights of samples and weights of sources cannot be used together");
  }
  int64_t sum = 0;
  for (size_t i = 0; i < o.source_sizes.size(); ++i) {
    const int64_t n = o.source_sizes[i];
    if (n < 1 || n > size - sum) {
      throw_invalid("order: source {} has {} samples, of {} that are left of the dataset", i, n,
                    size - sum);
    }
    sum += n;
  }
  if (sum != size) throw_invalid("order: sources of {} samples in a dataset of {}", sum, size);
  cumulative_weights(o.source_weights);  // checks them
  const std::vector<int64_t> shares = shares_of(o.source_weights);
  for (size_t i = 0; i < shares.size(); ++i) {
    if (shares[i] == 0 && o.source_weights[i] > 0) {
      throw_invalid(
          "order: weight {} of source {} is less than one sample in {}: expected more, or "
          "0 to leave it out",
          o.source_weights[i], i, kMixPeriod);
    }
  }
}

}  // namespace

Permutation::Permutation(uint64_t seed, uint64_t epoch, uint64_t size, uint32_t stream)
    : size_(size) {
  STRETTO_CHECK(size >= 1 && size <= uint64_t{1} << 62, "a permutation of {}", size);
  // Networks of fewer bits have too few round functions to reach all permutations.
  half_bits_ = std::max(4, (static_cast<int>(std::bit_width(size - 1)) + 1) / 2);
  for (uint32_t i = 0; i < kRounds; i += 2) {
    const auto words =
        philox({kPermutationDraw + i, stream, low(epoch), high(epoch)}, key_of(seed));
    keys_[i] = uint64_t{words[0]} << 32 | words[1];
    keys_[i + 1] = uint64_t{words[2]} << 32 | words[3];
  }
}

uint64_t Permutation::round(uint64_t half, int key) const {
  return mixed_bits(half + keys_[static_cast<size_t>(key)]) >> (64 - half_bits_);
}

uint64_t Permutation::operator()(uint64_t index) const {
  const uint64_t mask = (uint64_t{1} << half_bits_) - 1;
  do {
    uint64_t left = index >> half_bits_, right = index & mask;
    for (int i = 0; i < kRounds; ++i) {
      const uint64_t next = left ^ round(right, i);
      left = right;
      right = next;
    }
    index = left << half_bits_ | right;
  } while (index >= size_);
  return index;
}

uint64_t Permutation::where_is(uint64_t value) const {
  const uint64_t mask = (uint64_t{1} << half_bits_) - 1;
  do {
    uint64_t left = value >> half_bits_, right = value & mask;
    for (int i = kRounds - 1; i >= 0; --i) {
      const uint64_t before = right ^ round(left, i);
      right = left;
      left = before;
    }
    value = left << half_bits_ | right;
  } while (value >= size_);
  return value;
}

std::shared_ptr<const std::vector<double>> cumulative_weights(std::span<const double> weights) {
  auto sums = std::make_shared<std::vector<double>>();
  sums->reserve(weights.size());
  double sum = 0;
  for (const double w : weights) {
    if (!(w >= 0 && std::isfinite(w))) {
      throw_invalid("order: weight {} is {}: expected a number of at least 0", sums->size(), w);
    }
    sum += w;
    sums->push_back(sum);
  }
  if (!(sum > 0 && std::isfinite(sum))) {
    throw_invalid("order: the weights sum up to {}: expected more than 0", sum);
  }
  return sums;
}

std::vector<double> class_balanced_weights(std::span<const int64_t> labels) {
  std::unordered_map<int64_t, int64_t> counts;
  for (const int64_t label : labels) ++counts[label];
  std::vector<double> weights;
  weights.reserve(labels.size());
  for (const int64_t label : labels) {
    weights.push_back(label == -1 ? 0 : 1 / static_cast<double>(counts[label]));
  }
  return weights;
}

void check_order(const OrderOptions& o, int64_t size) {
  if (size < 1) throw_invalid("order: the dataset has no samples");
  if (o.epoch_size < 0 || o.epoch_size > kLongestEpoch) {
    throw_invalid("order: an epoch of {} samples, expected 1 to {}, or 0 for all", o.epoch_size,
                  kLongestEpoch);
  }
  check_mixture(o, size);
  if (o.kind == OrderKind::kBlocks && (o.block < 1 || o.window < 1)) {
    throw_invalid("order: blocks of {} in windows of {}: expected at least 1", o.block, o.window);
  }
  if (o.kind != OrderKind::kWeighted) {
    if (o.epoch_size > 0 && o.source_sizes.empty()) {
      throw_invalid(
          "order: the size of an epoch ({}) can be chosen for weighted samples and mixed "
          "sources only",
          o.epoch_size);
    }
    return;
  }
  if (o.cumulative == nullptr || static_cast<int64_t>(o.cumulative->size()) != size) {
    throw_invalid("order: {} weights for {} samples",
                  o.cumulative == nullptr ? 0 : o.cumulative->size(), size);
  }
  const std::vector<double>& sums = *o.cumulative;
  for (size_t i = 0; i < sums.size(); ++i) {
    if (!(sums[i] >= (i == 0 ? 0 : sums[i - 1]) && std::isfinite(sums[i]))) {
      throw_invalid(
          "order: the sum of weights up to sample {} is {}, less than the one before or "
          "no number",
          i, sums[i]);
    }
  }
  if (!(sums.back() > 0)) throw_invalid("order: all weights are 0");
}

uint64_t hash_of(const OrderOptions& o, int64_t size) {
  uint64_t hash = 0;
  const auto add = [&](uint64_t x) { hash = mixed_bits(hash + mixed_bits(x + 1)); };
  const auto add_weights = [&](const std::vector<double>& weights) {
    add(weights.size());
    for (const double w : weights) add(std::bit_cast<uint64_t>(w));
  };
  add(static_cast<uint64_t>(o.kind));
  add(static_cast<uint64_t>(size));
  add(static_cast<uint64_t>(o.epoch_size > 0 ? o.epoch_size : size));
  const bool blocks = o.kind == OrderKind::kBlocks;
  add(static_cast<uint64_t>(blocks ? std::min(o.block, size) : 0));
  add(static_cast<uint64_t>(blocks ? std::min(o.window, size) : 0));
  if (o.kind == OrderKind::kWeighted) add_weights(*o.cumulative);
  for (const int64_t n : o.source_sizes) add(static_cast<uint64_t>(n));
  add_weights(o.source_weights);
  return std::max<uint64_t>(1, hash);
}

Order::Order(const OrderOptions& o, int64_t size, int64_t epoch)
    : kind_(o.kind),
      seed_(o.seed),
      epoch_(static_cast<uint64_t>(epoch)),
      size_(size),
      places_(o.epoch_size > 0 ? o.epoch_size : size),
      block_(std::min(o.block, size)),
      window_(std::min(o.window, size)),
      repeats_(o.kind == OrderKind::kWeighted || !o.source_sizes.empty()),
      cumulative_(o.cumulative) {
  STRETTO_CHECK(size > 0, "an order of {} samples", size);
  if (!o.source_sizes.empty()) {
    const std::vector<int64_t> shares = shares_of(o.source_weights);
    Source source;
    for (size_t i = 0; i < shares.size(); ++i) {
      source.size = o.source_sizes[i];
      source.slots = shares[i];
      sources_.push_back(source);
      source.begin += source.size;
      source.first_slot += source.slots;
    }
  } else if (kind_ == OrderKind::kShuffled || kind_ == OrderKind::kBlocks) {
    permutation_.emplace(seed_, epoch_, static_cast<uint64_t>(permuted_size(kind_, size_, block_)),
                         kOrderStream);
  }
}

int64_t Order::operator()(int64_t place) const {
  STRETTO_CHECK(place >= 0 && place < places_, "place {} of {}", place, places_);
  if (!sources_.empty()) return mixed(place);
  switch (kind_) {
    case OrderKind::kSequential:
      return place;
    case OrderKind::kShuffled:
      return static_cast<int64_t>((*permutation_)(static_cast<uint64_t>(place)));
    case OrderKind::kBlocks:
      return blocks_at(seed_, epoch_, *permutation_, size_, block_, window_, place);
    case OrderKind::kWeighted:
      break;
  }
  return weighted(place);
}

int64_t Order::weighted(int64_t place) const {
  const auto p = static_cast<uint64_t>(place);
  // 24 bits of the epoch stand in the first word: its upper 8 tell who draws.
  const auto words = philox({kWeightedDraw | (low(epoch_) & 0xFFFFFF), low(p), high(p),
                             static_cast<uint32_t>(epoch_ >> 24)},
                            key_of(seed_));
  const double unit = static_cast<double>(uint64_t{words[0] >> 5} << 26 | words[1] >> 6) * 0x1p-53;
  const std::vector<double>& sums = *cumulative_;
  const double drawn = unit * sums.back();
  auto found = std::upper_bound(sums.begin(), sums.end(), drawn);
  // Rounded up to the whole sum: the last sample whose weight is not 0.
  if (found == sums.end()) found = std::lower_bound(sums.begin(), sums.end(), sums.back());
  return found - sums.begin();
}

int64_t Order::mixed(int64_t place) const {
  // Counted through all epochs, so that no period is cut at the end of one.
  const uint64_t all = epoch_ * static_cast<uint64_t>(places_) + static_cast<uint64_t>(place);
  const uint64_t period = all / kMixPeriod;
  const Permutation slots(seed_, period, kMixPeriod, kPeriodStream);
  const auto slot = static_cast<int64_t>(slots(all % kMixPeriod));
  const auto after = std::upper_bound(
      sources_.begin(), sources_.end(), slot,
      [](int64_t s, const Source& source) { return s < source.first_slot + source.slots; });
  const Source& source = *after;
  const uint64_t taken = period * static_cast<uint64_t>(source.slots) +
                         static_cast<uint64_t>(slot - source.first_slot);
  const uint64_t pass = taken / static_cast<uint64_t>(source.size);
  const auto inside = static_cast<int64_t>(taken % static_cast<uint64_t>(source.size));
  if (kind_ == OrderKind::kSequential) return source.begin + inside;
  const auto number = static_cast<uint32_t>(after - sources_.begin());
  const int64_t block = std::min(block_, source.size);
  const Permutation permutation(seed_, pass,
                                static_cast<uint64_t>(permuted_size(kind_, source.size, block)),
                                kSourceStream + number);
  if (kind_ == OrderKind::kShuffled) {
    return source.begin + static_cast<int64_t>(permutation(static_cast<uint64_t>(inside)));
  }
  const uint64_t seed = seed_ ^ mixed_bits(~uint64_t{number});
  return source.begin + blocks_at(seed, pass, permutation, source.size, block, window_, inside);
}

int64_t batches_of(int64_t places, const Cut& cut, int64_t first_place) {
  const int64_t all = cut.global(), left = std::max<int64_t>(0, places - first_place);
  return cut.last == Last::kDrop ? left / all : left / all + (left % all != 0);
}

int64_t place_of(int64_t places, const Cut& cut, int64_t begin, int64_t j) {
  const int64_t place = begin + cut.begin() + j;
  if (place < places) return place;
  return cut.last == Last::kWrap ? place % places : -1;
}

}  // namespace stretto::data
