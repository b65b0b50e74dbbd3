// How fast this machine's memory is. All estimates of kernels use these rates;
// docs/design/tuning.md says why there are two kinds.
#pragma once

#include <string>

namespace stretto {

// Bytes per second that are read as a stream from beyond the cores' own caches, as the weights of a
// model are.
struct MemoryRate {
  double one = 0;       // by one core while the others rest
  double together = 0;  // by all cores that Stretto uses, at most eight

  bool operator==(const MemoryRate&) const = default;
};

// Measured by the first five processes on a machine, in a quarter of a second each, of which the
// fastest counts, because other work can only slow a measurement down. It is kept in
// memory_rate_file(), so that later processes compile the same model in the same way. Constant
// within a process. Thread-safe. A file that cannot be read or written is no error.
MemoryRate memory_rate();

// While one lives, memory_rate() of this thread does not measure: without the file it gives a
// typical rate. For loading a model, whose kernels are chosen already.
class WithoutMeasuring {
 public:
  WithoutMeasuring();
  ~WithoutMeasuring();
  WithoutMeasuring(const WithoutMeasuring&) = delete;
  WithoutMeasuring& operator=(const WithoutMeasuring&) = delete;
};

// Measures again and keeps what is faster by more than a tenth. memory_rate() of this process does
// not change.
MemoryRate refresh_memory_rate();

// memory-rate.tsv in cache_directory(); docs/formats/memory-rate.md.
std::string memory_rate_file();

// What each of `threads` cores gets of a stream that all read at once.
double stream_bytes_per_second(int threads);

// Bytes per second that one core reads and writes while it moves tensors between the outer caches
// and back. Typical, not measured: each byte written is read first and written back later.
inline double move_bytes_per_second() { return 16e9; }

}  // namespace stretto
