// Users' shares and limits in a simulation, and the limits of queues: what each user has had, and
// how many chips run for whom. The arithmetic is that of whole numbers, so that every machine
// computes the same.
#pragma once

#include <cstdint>
#include <vector>

#include "stretto/cluster/simulate/shapes.h"
#include "stretto/cluster/site.h"
#include "stretto/cluster/trace/trace.h"

namespace stretto::cluster {

// Slurm looks at what users had so often (PriorityCalcPeriod), and what they had counts half after
// seven days (PriorityDecayHalfLife): each time a part of 1/2909 of it is forgotten.
constexpr int64_t kSharePeriod_ms = 300'000, kShareDecay = 2909;

// What a job costs its user: thousandths of chips, and a thousandth of a chip for each core, as the
// billing weights of accounting.conf say.
int64_t cost_of(const Need& need);

class UserShares {
 public:
  UserShares(const Site& site, const Trace& trace);

  // Whether users matter: jobs of different users are then no longer alike.
  bool counts_users() const { return counts_users_; }

  // What the user had by now, against the share: who has less is first. 0 where no user matters.
  double used(int user, int64_t now_ms);

  // Whether so many chips more are within the limits of the user and the queue.
  bool allows(const Shape& shape) const;

  void start(const Shape& shape, int64_t now_ms) { change(shape, now_ms, 1); }
  void end(const Shape& shape, int64_t now_ms) { change(shape, now_ms, -1); }

 private:
  struct Account {
    int64_t share = 100;
    int64_t most_milli = 0, running_milli = 0;  // thousandths of chips; most 0: no limit
    int64_t rate = 0;                           // what the running jobs cost: see cost_of()
    int64_t used = 0;                           // that times milliseconds
    int64_t counted_ms = 0;                     // until when
  };

  void count(Account& account, int64_t now_ms);
  void change(const Shape& shape, int64_t now_ms, int sign);

  bool counts_users_ = false;
  std::vector<Account> users_, queues_;  // by indices of the trace, and of the site
};

}  // namespace stretto::cluster
