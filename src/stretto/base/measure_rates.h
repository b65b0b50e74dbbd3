// One measurement of each rate of the machine, for machine_rates.cc alone, which keeps them.
#pragma once

#include "stretto/base/cpu.h"
#include "stretto/base/machine_rates.h"

namespace stretto {

inline constexpr int kMostMemoryThreads = 8;

MemoryRate measure_memory();   // a quarter of a second, with at most so many threads together
double measure_peak(Isa isa);  // of an ISA that this processor has; half a millisecond

}  // namespace stretto
