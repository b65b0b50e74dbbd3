// What the processor can do, and how far Stretto may use it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace stretto {

// Instruction sets that kernels are built for, weakest first. `portable` assumes nothing beyond the
// architecture's baseline (SSE2 on x86-64, NEON on Arm).
enum class Isa : uint8_t { kPortable, kAvx2, kAvx512 };

std::string_view isa_name(Isa isa);  // "portable", "avx2", "avx512"
// Throws InvalidArgument naming `what` was to be parsed, and the choices.
Isa parse_isa(std::string_view name, std::string_view what = "isa");

// fp32 lanes of one vector: also the channel block of the blocked layout on that ISA.
constexpr int isa_lanes(Isa isa) { return isa == Isa::kAvx512 ? 16 : isa == Isa::kAvx2 ? 8 : 4; }

struct CpuInfo {
  std::string model;             // as the operating system names it
  std::string core;              // microarchitecture, "zen4"; empty for those without a name here
  Isa isa = Isa::kPortable;      // the best one this processor has
  int logical = 1;               // CPUs that this process may run on, hyper-threads included
  int physical = 1;              // cores that those belong to
  double quota = 0;              // CPUs' worth of time its control group allows; 0: no limit
  int cores = 1;                 // threads to use by default: physical, or the quota rounded up
  int64_t l1d_bytes = 32 << 10;  // per core
  int64_t l2_bytes = 512 << 10;  // per core
  int64_t l3_bytes = 0;          // shared; 0 if unknown
};

// Read once from the operating system and the processor; thread-safe.
const CpuInfo& cpu_info();

// cpu_info().isa, capped by the environment variable STRETTO_ISA when set. Reads the variable at
// every call. Throws InvalidArgument naming the variable for a name
// that is unknown.
Isa usable_isa();

// fp32 multiply-adds x 2 of one core per second with this ISA, measured once per process and ISA
// in a few milliseconds (register-only FMA loop). Thread-safe.
double peak_flops(Isa isa);

}  // namespace stretto
