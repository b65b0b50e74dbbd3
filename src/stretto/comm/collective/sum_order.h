// Appends the steps that add what all ranks or hosts contribute, in the problem's order
// (schedule.h).
#pragma once

#include <vector>

#include "stretto/comm/collective/builder.h"

namespace stretto::comm {

// by_host[h]: one source for every rank of host h, in rank order, or one with the host's sum. The
// first step waits for `waits`, and `to` is written by the last one, whose index is returned.
int32_t sum_hosts(Builder& b, const std::vector<std::vector<Source>>& by_host, Place to,
                  int64_t count, Waits waits);

// The same of one place for every rank.
int32_t sum_ranks(Builder& b, const std::vector<Place>& of_rank, Place to, int64_t count,
                  Waits waits);

}  // namespace stretto::comm
