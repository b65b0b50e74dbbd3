// What the processor can do, and how far Stretto may use it.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace stretto {

// Instruction sets that kernels are built for, on any architecture. `portable` is the baseline of
// x86-64 (SSE2), and what an architecture without kernels of its own gets; `neon` is the baseline
// of 64-bit Arm (AdvSIMD).
enum class Isa : uint8_t { kPortable, kAvx2, kAvx512, kNeon };

// Those of the architecture that this is compiled for, weakest first. Only these compare by `<`.
#if defined(__aarch64__)
inline constexpr std::array kIsas{Isa::kNeon};
#else
inline constexpr std::array kIsas{Isa::kPortable, Isa::kAvx2, Isa::kAvx512};
#endif

std::string_view isa_name(Isa isa);  // "portable", "avx2", "avx512", "neon"
// Of any architecture, for files that another machine may have written. Throws InvalidArgument
// naming `what` was to be parsed, and the choices.
Isa parse_isa(std::string_view name, std::string_view what = "isa");
// One of kIsas, for what a user asks of this machine. "portable" is the weakest of them, whatever
// its name. Throws as parse_isa.
Isa parse_own_isa(std::string_view name, std::string_view what = "isa");
std::string_view own_isa_choices();  // for people: "portable, avx2 or avx512"

// fp32 lanes of one vector: also the channel block of the blocked layout on that ISA.
constexpr int isa_lanes(Isa isa) { return isa == Isa::kAvx512 ? 16 : isa == Isa::kAvx2 ? 8 : 4; }

struct CpuInfo {
  std::string model;             // as the operating system names it
  std::string core;              // microarchitecture, "zen4"; empty for those without a name here
  Isa isa = kIsas.front();       // the best one this processor has
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
// every call. Throws InvalidArgument naming the variable for a name that is not of this
// architecture.
Isa usable_isa();

// Those of kIsas that kernels may run with here, weakest first: up to usable_isa(), and nothing
// else in a build for one instruction set.
std::span<const Isa> usable_isas();

}  // namespace stretto
