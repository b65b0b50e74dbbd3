// The end of a job that has failed. A rank that finds a failure, or hears of one, notifies every
// other rank once. When all others have answered or are gone, all ranks have the same least verdict
// and raise the same error.
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
  bool hear(int rank, Verdict verdict);

  // Sends this rank's verdict to all ranks that are connected and have not got it. Also for links
  // that have formed since: a job may fail while it starts.
  void notify_ranks();

  // Sets error() when every rank that is still connected has answered, or takes too long. True when
  // this call has set it.
  bool settle();

  // How long a poll may sleep until settle() has to be called again.
  double wait_s() const;

 private:
  Links& links_;
  const Membership membership_;
  const double patience_s_;
  std::optional<Verdict> verdict_;
  std::exception_ptr error_;
  std::vector<bool> has_spoken_;   // by rank: its verdict has arrived
  std::vector<bool> is_notified_;  // by rank: this rank's verdict has been sent to it
  double settle_until_s_ = 0;
};

}  // namespace stretto::comm
