// Which rank of which job.
#pragma once

#include <cstdint>

namespace stretto::comm {

// All ranks of a job have the same size and epoch. A job that starts again over the same store
// takes another epoch, so that frames of the old job are dropped.
struct Membership {
  int rank = 0;
  int size = 1;
  uint32_t epoch = 0;
};

}  // namespace stretto::comm
