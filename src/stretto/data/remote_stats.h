// What datasets behind URLs cost so far.
#pragma once

#include <cstdint>

namespace stretto::data {

// Since the dataset was opened.
struct RemoteStats {
  int64_t fetched = 0, fetched_bytes = 0;  // files, by this process
  int64_t hits = 0;                        // files that were in the cache when they were needed
  int64_t waits = 0;                       // how often a thread waited for a file
  double wait_seconds = 0;                 // of all threads together
  int64_t retries = 0, failures = 0;       // requests that were repeated, files that did not come
  int64_t evicted = 0;
  uint64_t limit_bytes = 0;  // what the cache may take: less than was asked for on a full disk
};

}  // namespace stretto::data
