// Which sample is where, by arithmetic: the order of an epoch is a function of seed and epoch, and
// is never written down. Any number of threads and ranks asks for any place of it.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace stretto::data {

// A permutation of [0, size): a Feistel network of six rounds on the bits of the index (Patarin,
// "Security of random Feistel schemes with 5 or more rounds"), walked until the result is below
// `size` (Black and Rogaway, "Ciphers with arbitrary finite domains"). 1 <= size <= 2^62.
class Permutation {
 public:
  // Others for each `stream` of one seed and epoch.
  Permutation(uint64_t seed, uint64_t epoch, uint64_t size, uint32_t stream = 0);
  uint64_t operator()(uint64_t index) const;  // 0 <= index < size
  uint64_t where_is(uint64_t value) const;    // the index that gives `value`

 private:
  static constexpr int kRounds = 6;
  uint64_t round(uint64_t half, int key) const;
  uint64_t size_;
  int half_bits_ = 0;
  std::array<uint64_t, kRounds> keys_{};
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
  // For stores where neighbours are cheap. The dataset is cut into blocks of `block` neighbours,
  // the last of which may be shorter. The blocks are permuted, and the samples of each `window`
  // blocks that follow each other in this order are permuted among themselves: each sample comes
  // once, and every `window` * `block` places touch `window` blocks only.
  kBlocks,
  kWeighted,  // drawn with replacement, with the chance of each by its weight
};

// Places in which each source of a mixture has its share exactly, to the nearest sample.
inline constexpr int64_t kMixPeriod = 4096;

struct OrderOptions {
  OrderKind kind = OrderKind::kShuffled;
  uint64_t seed = 0;
  int64_t block = 4096, window = 4;  // kBlocks
  // kWeighted: cumulative_weights(), one for each sample.
  std::shared_ptr<const std::vector<double>> cumulative;
  // Several sources that follow each other in the dataset, mixed by weight: sizes and weights. In
  // every kMixPeriod places, counted on through the epochs, each source has its share exactly, at
  // random places. Each goes through its samples by `kind`, which is not kWeighted, from epoch to
  // epoch, and begins again in another order when it is through. Empty: one source.
  std::vector<int64_t> source_sizes;
  std::vector<double> source_weights;
  int64_t epoch_size = 0;  // of kWeighted and of mixtures; 0: as many as there are samples
};

// Sums of weights from the first to each. Throws InvalidArgument naming the first weight that is
// negative or no number, and if all are 0.
std::shared_ptr<const std::vector<double>> cumulative_weights(std::span<const double> weights);

// Weights with which kWeighted draws every label that occurs equally often: 1 / how often it does.
// Samples without a label (-1) get 0.
std::vector<double> class_balanced_weights(std::span<const int64_t> labels);

// Throws InvalidArgument naming the option that makes no sense for so many samples. Reads all of
// `cumulative`.
void check_order(const OrderOptions& options, int64_t size);

// A number of all that the order of a dataset of this size depends on but the seed; never 0.
uint64_t hash_of(const OrderOptions& options, int64_t size);

// The samples of one epoch in their order. A few hundred bytes, whatever the dataset is; a place
// takes less than a microsecond. Safe for all threads. The options are those that check_order()
// lets through.
class Order {
 public:
  Order(const OrderOptions& options, int64_t size, int64_t epoch);
  int64_t size() const { return places_; }  // places in the epoch
  int64_t operator()(int64_t place) const;  // the sample there
  // Whether a sample may be at several places of an epoch: then its random crop belongs to the
  // place, else to the sample.
  bool repeats() const { return repeats_; }

 private:
  struct Source {
    int64_t begin = 0, size = 0;        // in the dataset
    int64_t slots = 0, first_slot = 0;  // of kMixPeriod
  };
  int64_t weighted(int64_t place) const;
  int64_t mixed(int64_t place) const;

  OrderKind kind_;
  uint64_t seed_, epoch_;
  int64_t size_, places_, block_, window_;
  bool repeats_ = false;
  std::shared_ptr<const std::vector<double>> cumulative_;
  std::vector<Source> sources_;
  std::optional<Permutation> permutation_;  // of samples or, for kBlocks, of blocks
};

// How an epoch is cut: batch b of all ranks is places [b * global(), (b + 1) * global()), and rank
// r has the r-th `batch` of them, or those from the `first` on. All ranks have the same number of
// batches.
struct Cut {
  int64_t batch = 1;  // of this rank
  int64_t rank = 0, world = 1;
  Last last = Last::kDrop;
  int64_t all = 0;    // samples of all ranks together; 0: they have equally many
  int64_t first = 0;  // of `all`: where this rank's begin

  int64_t global() const { return all > 0 ? all : batch * world; }
  int64_t begin() const { return all > 0 ? first : rank * batch; }
  bool operator==(const Cut&) const = default;
};
// Batches from `first_place` on.
int64_t batches_of(int64_t places, const Cut& cut, int64_t first_place = 0);
// The place of sample `j` of this rank's batch that begins at global place `begin`; -1: padding.
int64_t place_of(int64_t places, const Cut& cut, int64_t begin, int64_t j);

// Where a loader is: enough to go on anywhere, on any number of ranks whose batches together are as
// large.
struct Position {
  uint64_t seed = 0;
  int64_t epoch = 0;
  int64_t place = 0;   // of the first sample that no rank was given yet, in the epoch
  uint64_t order = 0;  // hash_of() the order; 0: not known, and not checked
};

}  // namespace stretto::data
