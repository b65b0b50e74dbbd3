// Which sample is where, by arithmetic: the order of an epoch is a function of seed and epoch, and
// is never written down. Any number of threads and ranks asks for any place of it.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace stretto::data {

// A permutation of [0, size): a Feistel network of four rounds on the bits of the index, walked
// until the result is below `size` (Black and Rogaway, "Ciphers with arbitrary finite domains").
class Permutation {
 public:
  Permutation(uint64_t seed, uint64_t epoch, uint64_t size);
  uint64_t operator()(uint64_t index) const;  // 0 <= index < size

 private:
  uint64_t size_;
  int half_bits_ = 0;
  std::array<uint64_t, 4> keys_{};
};

// What happens to the samples that do not fill the last batch of all ranks.
enum class Last : uint8_t {
  kDrop,  // they are left out of this epoch
  kPad,   // the batch is filled up, and says which samples are real
  kWrap,  // the batch is filled up with samples from the beginning of the epoch
};

enum class OrderKind : uint8_t {
  kSequential,
  kShuffled,  // a permutation of all samples
  kBlocks,    // blocks of neighbours in random order, samples shuffled among `window` blocks
  kWeighted,  // drawn with replacement, with the chance of each by its weight
};

struct OrderOptions {
  OrderKind kind = OrderKind::kShuffled;
  uint64_t seed = 0;
  int64_t block = 4096, window = 4;  // kBlocks
  std::shared_ptr<const std::vector<double>>
      cumulative;  // kWeighted: sums of weights, size() of them
  // Several sources that follow each other in the dataset, mixed by weight: sizes and weights. In
  // every `kMixPeriod` places each source has its share exactly. Empty: one source.
  std::vector<int64_t> source_sizes;
  std::vector<double> source_weights;
  int64_t epoch_size = 0;  // of kWeighted and of mixtures; 0: as many as there are samples
};

// The samples of one epoch in their order.
class Order {
 public:
  Order(const OrderOptions& options, int64_t size, int64_t epoch);
  int64_t size() const;                     // places in the epoch
  int64_t operator()(int64_t place) const;  // the sample there
};

// How an epoch is cut: batch b of all ranks is places [b * world * batch, (b + 1) * world * batch),
// and rank r has the r-th `batch` of them. All ranks have the same number of batches.
struct Cut {
  int64_t batch = 1;  // per rank
  int64_t rank = 0, world = 1;
  Last last = Last::kDrop;
};
int64_t batches_of(int64_t places, const Cut& cut, int64_t first_place = 0);
// The place of sample `j` of this rank's batch that begins at global place `begin`; -1: padding.
int64_t place_of(int64_t places, const Cut& cut, int64_t begin, int64_t j);

// Where a loader is: enough to go on anywhere, on any number of ranks whose batches together are as
// large.
struct Position {
  uint64_t seed = 0;
  int64_t epoch = 0;
  int64_t place = 0;  // of the first sample that no rank was given yet, in the epoch
};

}  // namespace stretto::data
