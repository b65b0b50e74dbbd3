#include "stretto/base/cpu.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>

#include "stretto/base/cores.h"
#include "stretto/base/error.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace stretto {
namespace {

#if defined(__x86_64__)
// Clang before 15 does not know "f16c" as a name for __builtin_cpu_supports.
bool has_f16c() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;
}
#endif

Isa detect_isa() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c() &&
                    __builtin_cpu_supports("bmi2");
  const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") &&
                      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
                      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512cd");
  return avx512 ? Isa::kAvx512 : avx2 ? Isa::kAvx2 : Isa::kPortable;
#else
  return kIsas.front();
#endif
}

#if defined(__x86_64__)
// AMX came with Golden Cove and is in servers only.
bool has_amx() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (d & (1u << 24)) != 0;
}

// Those with AVX-512; empty for others. Some hypervisors make up the model number.
std::string intel_server_core(unsigned model) {
  switch (model) {
    case 0x55:
      return "skylake";
    case 0x6a:
    case 0x6c:
      return "sunny_cove";
    case 0x8f:
    case 0xcf:
      return "golden_cove";
    case 0xad:
    case 0xae:
      return "redwood_cove";
    default:
      return has_amx() ? "golden_cove" : "";
  }
}
#endif

// The microarchitecture from the processor's family and model numbers. Sources: AMD's processor
// programming references; Intel's Software Developer's Manual, volume 4, table 2-1.
std::string detect_core() {
#if defined(__x86_64__)
  unsigned a = 0, vendor = 0, c = 0, d = 0, b = 0;
  if (__get_cpuid(0, &a, &vendor, &c, &d) == 0) return "";
  if (__get_cpuid(1, &a, &b, &c, &d) == 0) return "";
  const unsigned base = (a >> 8) & 0xf, family = base + (base == 0xf ? (a >> 20) & 0xff : 0);
  const unsigned model = ((a >> 4) & 0xf) | ((a >> 12) & 0xf0);
  if (vendor == signature_INTEL_ebx && family == 6) return intel_server_core(model);
  if (vendor != signature_AMD_ebx) return "";
  if (family == 0x1a) return "zen5";
  if (family != 0x19) return "";
  const bool zen4 = (model >= 0x10 && model <= 0x1f) || (model >= 0x60 && model <= 0x7f) ||
                    (model >= 0xa0 && model <= 0xaf);
  return zen4 ? "zen4" : "zen3";
#else
  return "";
#endif
}

std::string read_model() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("model name") || line.starts_with("Model")) {
      if (size_t at = line.find(": "); at != std::string::npos) return line.substr(at + 2);
    }
  }
  return "unknown";
}

int64_t cache_bytes(int name, int64_t fallback) {
  const long bytes = sysconf(name);
  return bytes > 0 ? bytes : fallback;
}

CpuInfo read_info() {
  const std::vector<int> cpus = allowed_cpus();
  const int64_t level3 = level3_bytes("/", cpus.front());
  const int physical = physical_cores("/", cpus);
  const double quota = cpu_quota("/");
  return {
      .model = read_model(),
      .core = detect_core(),
      .isa = detect_isa(),
      .logical = static_cast<int>(cpus.size()),
      .physical = physical,
      .quota = quota,
      .cores = usable_cores(physical, quota),
      .l1d_bytes = cache_bytes(_SC_LEVEL1_DCACHE_SIZE, 32 << 10),
      .l2_bytes = cache_bytes(_SC_LEVEL2_CACHE_SIZE, 512 << 10),
      .l3_bytes = level3 > 0 ? level3 : cache_bytes(_SC_LEVEL3_CACHE_SIZE, 0),
  };
}

}  // namespace

std::string_view isa_name(Isa isa) {
  switch (isa) {
    case Isa::kAvx512:
      return "avx512";
    case Isa::kAvx2:
      return "avx2";
    case Isa::kNeon:
      return "neon";
    case Isa::kPortable:
      break;
  }
  return "portable";
}

Isa parse_isa(std::string_view name, std::string_view what) {
  for (Isa isa : {Isa::kPortable, Isa::kAvx2, Isa::kAvx512, Isa::kNeon}) {
    if (name == isa_name(isa)) return isa;
  }
  throw_invalid("{}: expected portable, avx2, avx512 or neon, got '{}'", what, name);
}

Isa parse_own_isa(std::string_view name, std::string_view what) {
  if (name == isa_name(Isa::kPortable)) return kIsas.front();
  for (Isa isa : kIsas) {
    if (name == isa_name(isa)) return isa;
  }
  throw_invalid("{}: expected {}, got '{}'", what, own_isa_choices(), name);
}

std::string_view own_isa_choices() {
#if defined(__aarch64__)
  return "neon or portable";
#else
  return "portable, avx2 or avx512";
#endif
}

const CpuInfo& cpu_info() {
  static const CpuInfo info = read_info();
  return info;
}

namespace {

constexpr const char* kVariable = "STRETTO_ISA";

// What the variable allows at most.
Isa wanted_isa() {
  const char* cap = std::getenv(kVariable);
  return cap == nullptr || *cap == '\0' ? cpu_info().isa : parse_own_isa(cap, kVariable);
}

}  // namespace

#if defined(STRETTO_ONLY_ISA)
// Kernels exist for one instruction set: cmake/StrettoIsas.cmake.
constexpr Isa kOnly = Isa::STRETTO_ONLY_ISA;

Isa usable_isa() {
  const Isa wanted = wanted_isa();
  if (std::min(wanted, cpu_info().isa) != kOnly) {
    throw_unsupported(
        "this build of Stretto runs {} only, not {}: build it with -DSTRETTO_ISAS=all",
        isa_name(kOnly), isa_name(std::min(wanted, cpu_info().isa)));
  }
  return kOnly;
}

std::span<const Isa> usable_isas() {
  usable_isa();  // throws where the one does not run
  return {&kOnly, 1};
}
#else
Isa usable_isa() { return std::min(wanted_isa(), cpu_info().isa); }

std::span<const Isa> usable_isas() {
  const auto after = std::upper_bound(kIsas.begin(), kIsas.end(), usable_isa());
  return {kIsas.begin(), after};
}
#endif

}  // namespace stretto
