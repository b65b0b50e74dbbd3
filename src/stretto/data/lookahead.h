// Which files an order of samples needs next: what is fetched ahead, and what is evicted last.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "stretto/data/dataset.h"
#include "stretto/data/order.h"

namespace stretto::data {

// Of one loader. Safe for all threads. It looks through the places ahead once each, up to the end
// of the next epoch or of its memory, so that it costs less than a microsecond for a sample.
class Lookahead {
 public:
  struct Plan {
    int64_t places = 0;  // of every epoch
    std::function<std::shared_ptr<const Order>(int64_t epoch)> order;
    std::function<Cut(int64_t epoch)> cut;
    bool masks = false;  // label maps that are files of their own are needed too
    int64_t begin = 0;   // which sample of the order is the dataset's first; it may be a part
  };
  Lookahead(Dataset dataset, Plan plan);

  // The places before are not needed any more. A jump to another place than the next ones makes it
  // look again from there.
  void move_to(int64_t epoch, int64_t place);

  struct Next {
    int64_t file = 0;  // as of Dataset::remote_file()
    int64_t use = 0;   // when
  };
  // The next file that this rank needs and that was not asked for yet, or nothing; then `more` says
  // whether it has to be called again, as it looks at a few thousand places at once.
  std::optional<Next> next(bool& more);
  // It is to be asked for again.
  void put_back(const Next& next);

  // All files that some rank needs, as far as it looks. `use` is the time until then: 0 where it is
  // needed now.
  std::vector<Next> uses();

 private:
  // Time counts in ticks of a few places. An entry for each file of each tick.
  struct Entry {
    int64_t file, tick;
    int64_t later;  // number of the file's next entry; -1: none yet
    bool mine;
  };
  static constexpr int64_t kTicks = 4096;          // of an epoch
  static constexpr size_t kMostEntries = 1 << 20;  // 32 MB
  static constexpr int64_t kPiece = 4096;          // places that are looked through at once
  // With the lock. Looks at the next places; false: it has looked far enough.
  bool look();
  void add(int64_t sample, int64_t tick, bool mine);
  void add_file(int64_t file, int64_t tick, bool mine);
  bool needed_before(int64_t file, int64_t number) const;
  void clear(int64_t at);

  const Dataset dataset_;
  const Plan plan_;
  const int64_t tick_places_;
  std::mutex mutex_;
  int64_t begin_ = 0, end_ = 0;  // places, counted on through the epochs: where it is, and looked
  int64_t start_ = 0;            // where it began to look: batches are counted from there
  int64_t base_ = 0;             // number of entries_[0]
  int64_t asked_ = 0;            // number of the entry that next() looks at
  std::deque<Entry> entries_;
  std::vector<int64_t> first_, last_;  // per file: numbers of its entries; -1: none
  std::shared_ptr<const Order> order_;
  Cut cut_;
  int64_t order_epoch_ = -1;
};

}  // namespace stretto::data
