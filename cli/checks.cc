#include "checks.h"

#include <fmt/format.h>

#include <cstdlib>

#include "engine_options.h"
#include "environment.h"
#include "stretto/base/cpu.h"
#include "stretto/base/other_work.h"
#include "table.h"

namespace stretto::cli {
namespace {

constexpr double kBusy = 0.5;  // runnable threads per core
constexpr int64_t kLittleMemory = int64_t{1} << 30;
// A container has 64 MiB by default; ranks of one host exchange buckets of tens of MiB there.
constexpr int64_t kLittleShared = int64_t{256} << 20;
constexpr int64_t kFewFiles = 1024;
constexpr int64_t kLittleLocked = int64_t{64} << 20;

using Findings = std::vector<Finding>;

std::string mib(int64_t bytes) { return mebibytes(static_cast<double>(bytes)); }

void instruction_set(const Machine&, Findings& found) {
  try {
    const Isa best = cpu_info().isa, usable = usable_isa();
    if (usable < best) {
      found.push_back({.problem = fmt::format("STRETTO_ISA limits this {} processor to {}",
                                              isa_name(best), isa_name(usable)),
                       .fix = "unset STRETTO_ISA, unless you compare instruction sets"});
    }
#ifdef __x86_64__
    if (best == Isa::kPortable) {
      found.push_back({.problem = "this processor has no AVX2, so kernels use SSE2 only",
                       .fix = "expect models to run several times slower than with AVX2"});
    }
#endif
  } catch (const std::exception& e) {
    found.push_back({.stops_work = true,
                     .problem = e.what(),
                     .fix = fmt::format("set STRETTO_ISA to {}, or unset it", own_isa_choices())});
  }
}

void cores(const Machine& machine, Findings& found) {
  const CpuInfo& cpu = cpu_info();
  if (cpu.quota > 0 && cpu.quota < 1) {
    found.push_back({.problem = fmt::format("the container may use {:.2f} of a core", cpu.quota),
                     .fix = "raise its limit (docker run --cpus, or resources.limits.cpu)"});
  }
  if (machine.load > kBusy * cpu.logical) {
    found.push_back(
        {.problem = fmt::format("other programs keep {:.1f} threads busy on {} cores, so measured "
                                "times are noisy",
                                machine.load, cpu.cores),
         .fix = "end them before you optimise or measure"});
  }
  if (machine.steal > kHighSteal) {
    found.push_back(
        {.problem = fmt::format("the hypervisor gave {:.0f} % of the time to other "
                                "virtual machines",
                                100 * machine.steal),
         .fix = "use an instance with dedicated cores, or optimise with --tuning full"});
  }
  // The pstate drivers raise the frequency under this governor too.
  if (machine.governor == "powersave" &&
      machine.frequency_driver.find("pstate") == std::string::npos) {
    found.push_back({.problem = "the frequency governor is powersave: cores stay slow",
                     .fix = "sudo cpupower frequency-set -g performance"});
  }
}

void memory(const Machine& machine, Findings& found) {
  if (machine.available_bytes > 0 && machine.available_bytes < kLittleMemory) {
    found.push_back({.problem = "only " + mib(machine.available_bytes) + " of memory is free",
                     .fix = "end other programs: optimising takes several times a model's size"});
  }
  if (machine.shared_bytes < kLittleShared) {
    found.push_back({.problem = "/dev/shm has only " + mib(machine.shared_bytes) +
                                " left for ranks of this host",
                     .fix = "docker run --shm-size=1g, or STRETTO_TRANSPORTS=tcp"});
  }
}

void limits(const Machine& machine, Findings& found) {
  if (machine.open_files >= 0 && machine.open_files < kFewFiles) {
    found.push_back({.problem = fmt::format("a process may open only {} files and connections",
                                            machine.open_files),
                     .fix = "ulimit -n 4096"});
  }
}

void rdma(const Machine& machine, Findings& found) {
  for (const RdmaPort& port : machine.rdma) {
    if (port.state == "ACTIVE") continue;
    found.push_back(
        {.problem = fmt::format("RDMA port {}:{} is {}", port.device, port.port,
                                port.state.empty() ? "in an unknown state" : port.state),
         .fix = "check its cable and subnet manager, or leave it out of STRETTO_RDMA"});
  }
  if (!machine.rdma.empty() && machine.locked_bytes >= 0 && machine.locked_bytes < kLittleLocked) {
    found.push_back({.problem = "a process may lock only " + mib(machine.locked_bytes) +
                                " of memory, too little for RDMA",
                     .fix = "ulimit -l unlimited"});
  }
}

void tuning_cache(const Machine& machine, Findings& found) {
  const TuningCacheFile& file = machine.tuning_cache;
  if (file.path.empty()) return;
  if (!file.problem.empty()) {
    found.push_back({.problem = "the tuning cache cannot be used: " + file.problem,
                     .fix = "nothing, if it may be set aside; or restore " + file.path});
  }
  if (!file.writable) {
    found.push_back({.problem = file.path + " cannot be written: what tuning finds is not kept",
                     .fix = "make it writable, or set STRETTO_CACHE_DIR to a folder that is"});
  }
}

void python(const Machine& machine, Findings& found) {
  if (machine.python_problem.empty()) return;
  found.push_back({.problem = fmt::format("{} runs no peers and no ranks: {}", machine.python,
                                          machine.python_problem),
                   .fix = "install the stretto package there, or point STRETTO_PYTHON to a Python "
                          "that has it"});
}

void variables(const Machine&, Findings& found) {
  for (const UnknownVariable& variable : unknown_variables()) {
    found.push_back({.problem = "Stretto does not read " + variable.name,
                     .fix = variable.meant.empty()
                                ? "unset it; 'stretto help environment' lists what is read"
                                : fmt::format("did you mean {}?", variable.meant)});
  }
  if (const std::string refusal = engine_refusal(); !refusal.empty()) {
    found.push_back({.stops_work = true,
                     .problem = fmt::format("training does not start: {}", refusal),
                     .fix = "correct the variable, or unset it"});
  }
}

struct Check {
  const char* name;
  void (*run)(const Machine& machine, Findings& found);
};

constexpr Check kChecks[] = {
    {"instruction-set", instruction_set},
    {"cores", cores},
    {"memory", memory},
    {"limits", limits},
    {"rdma", rdma},
    {"tuning-cache", tuning_cache},
    {"python", python},
    {"environment", variables},
};

}  // namespace

std::vector<Finding> check_machine(const Machine& machine) {
  Findings found;
  for (const Check& check : kChecks) {
    const size_t before = found.size();
    check.run(machine, found);
    for (size_t i = before; i < found.size(); ++i) found[i].check = check.name;
  }
  return found;
}

}  // namespace stretto::cli
