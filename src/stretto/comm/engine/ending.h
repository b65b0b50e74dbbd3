// The end of a job that has failed. A rank that finds a failure, or hears of one, sends its verdict
// to every rank to which it has a link. Where ranks are connected to some others only, verdicts
// spread in rounds: a round ends when every connected rank has sent its own. After
// Links::rounds_to_reach_all() rounds all ranks have the same least verdict and raise the same
// error.
//
// Not thread-safe: the caller holds the engine's lock.
#pragma once

#include <exception>
#include <optional>
#include <vector>

#include "stretto/comm/link/links.h"
#include "stretto/comm/link/verdict.h"

namespace stretto::comm {

class Ending {
 public:
  Ending(Links& links, Membership membership, const Options& options);

  // True from the first verdict on: no operation goes on.
  bool has_begun() const { return verdict_.has_value(); }
  // What every operation fails with; null until the ranks have agreed.
  const std::exception_ptr& error() const { return error_; }

  // Takes this rank's own verdict, or one that another rank has sent. True when it is the first:
  // the caller stops all operations.
  bool begin(Verdict verdict);
  bool hear(int rank, int round, Verdict verdict);

  // Sends verdicts, also over links that stand since, because a job may fail while ranks connect.
  // Sets error() when every rank that is still connected has answered, or takes too long. True when
  // this call has set it.
  bool settle();

  // How long a poll may sleep until settle() has to be called again.
  double wait_s() const;

 private:
  void notify_ranks();
  bool round_is_over() const;

  Links& links_;
  const Membership membership_;
  const double patience_s_;
  std::optional<Verdict> verdict_;
  std::exception_ptr error_;
  int round_ = 1;
  int64_t saying_ = 1;  // changes with what this rank has to say: the round or the verdict
  std::vector<int> heard_round_;  // by rank: the last round of which its verdict has arrived
  std::vector<int64_t> said_;     // by rank: what this rank has sent to it last
  double settle_until_s_ = 0;
};

}  // namespace stretto::comm
