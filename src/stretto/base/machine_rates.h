// How fast this machine computes and reads memory. All estimates of kernels use these rates;
// docs/design/tuning.md says why memory has two.
#pragma once

#include <array>
#include <string>

#include "stretto/base/cpu.h"

namespace stretto {

// Bytes per second that are read as a stream from beyond the cores' own caches, as the weights of a
// model are.
struct MemoryRate {
  double one = 0;       // by one core while the others rest
  double together = 0;  // by all cores that Stretto uses, at most eight

  bool operator==(const MemoryRate&) const = default;
};

struct MachineRates {
  MemoryRate memory;
  // Of one core and each of kIsas: fp32 multiply-adds x 2 per second, of a loop that uses registers
  // only. 0 for those that this processor lacks.
  std::array<double, kIsas.size()> peaks{};

  bool operator==(const MachineRates&) const = default;
};

// Measured by the first five processes on a machine, in a quarter of a second each, of which the
// fastest counts, because other work can only slow a measurement down. They are kept in
// machine_rates_file(), so that later processes compile the same model in the same way. Constant
// within a process. Thread-safe. A file that cannot be read or written is no error.
MachineRates machine_rates();

// While one lives, machine_rates() of this thread does not measure memory: without the file it
// gives a typical rate. For loading a model, whose kernels are chosen already.
class WithoutMeasuring {
 public:
  WithoutMeasuring();
  ~WithoutMeasuring();
  WithoutMeasuring(const WithoutMeasuring&) = delete;
  WithoutMeasuring& operator=(const WithoutMeasuring&) = delete;
};

// Measures again and keeps what is faster by more than a tenth. machine_rates() of this process do
// not change.
MachineRates refresh_machine_rates();

// machine-rates.tsv in cache_directory(); docs/formats/machine-rates.md.
std::string machine_rates_file();

// The peak of one core with `isa`, or with the best one that this processor has.
double peak_flops(Isa isa);

// What each of `threads` cores gets of a stream that all read at once while they compute with it.
double stream_bytes_per_second(int threads);

// Bytes per second that one core reads and writes while it moves tensors between the outer caches
// and back. Typical, not measured: each byte written is read first and written back later.
inline double move_bytes_per_second() { return 16e9; }

}  // namespace stretto
