// stretto doctor: what this computer has, and what looks wrong.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "checks.h"
#include "environment.h"
#include "machine.h"
#include "stretto/base/cpu.h"
#include "stretto/stretto.h"
#include "table.h"
#include "verbs.h"

namespace stretto::cli {
namespace {

using nlohmann::json;

std::string usable_isa_text() {
  try {
    return std::string(isa_name(usable_isa()));
  } catch (const InvalidArgument&) {
    return "none";
  }
}

std::vector<std::pair<std::string, std::string>> set_variables() {
  std::vector<std::pair<std::string, std::string>> set;
  for (const Variable& variable : environment_variables()) {
    if (const char* value = std::getenv(variable.name.c_str())) {
      set.emplace_back(variable.name, variable.name == "STRETTO_SECRET" ? "(set)" : value);
    }
  }
  return set;
}

json machine_json(const Machine& machine) {
  const CpuInfo& cpu = cpu_info();
  json interfaces = json::array(), rdma = json::array(), packages = json::array();
  for (const NetworkInterface& i : machine.interfaces) {
    interfaces.push_back(
        {{"name", i.name}, {"up", i.up}, {"mtu", i.mtu}, {"megabits_per_s", i.megabits_per_s}});
  }
  for (const RdmaPort& p : machine.rdma) {
    rdma.push_back({{"device", p.device},
                    {"port", p.port},
                    {"state", p.state},
                    {"link_layer", p.link_layer},
                    {"rate", p.rate}});
  }
  for (const Package& p : machine.packages) {
    packages.push_back(
        {{"name", p.name}, {"version", p.version.empty() ? json() : json(p.version)}});
  }
  const TuningCacheFile& cache = machine.tuning_cache;
  json peaks = json::object();
  for (size_t i = 0; i < kIsas.size() && machine.rates.peaks[i] > 0; ++i) {
    peaks[std::string(isa_name(kIsas[i]))] = machine.rates.peaks[i];
  }
  json environment = json::object();
  for (const auto& [name, value] : set_variables()) environment[name] = value;
  return {
      {"version", version()},
      {"processor",
       {{"model", cpu.model},
        {"core", cpu.core},
        {"isa", isa_name(cpu.isa)},
        {"usable_isa", usable_isa_text()},
        {"governor", machine.governor},
        {"virtual_machine", machine.virtual_machine},
        {"steal", machine.steal},
        {"load", machine.load},
        {"peak_flops_per_s", peaks}}},
      {"cores",
       {{"logical", cpu.logical},
        {"physical", cpu.physical},
        {"quota", cpu.quota},
        {"threads", cpu.cores}}},
      {"caches",
       {{"l1d_bytes", cpu.l1d_bytes}, {"l2_bytes", cpu.l2_bytes}, {"l3_bytes", cpu.l3_bytes}}},
      {"memory",
       {{"bytes", machine.memory_bytes},
        {"available_bytes", machine.available_bytes},
        {"limit_bytes", machine.memory_limit_bytes},
        {"shared_bytes", machine.shared_bytes},
        {"read_bytes_per_s",
         {{"one_core", machine.rates.memory.one}, {"together", machine.rates.memory.together}}}}},
      {"limits", {{"open_files", machine.open_files}, {"locked_bytes", machine.locked_bytes}}},
      {"network", {{"interfaces", interfaces}, {"rdma", rdma}}},
      {"tuning_cache",
       {{"path", cache.path},
        {"exists", cache.exists},
        {"writable", cache.writable},
        {"bytes", cache.bytes},
        {"entries", cache.entries}}},
      {"python", {{"path", machine.python}, {"packages", packages}}},
      {"environment", environment}};
}

std::string network_text(const Machine& machine) {
  std::string text;
  for (const NetworkInterface& i : machine.interfaces) {
    text += fmt::format("{}{} {}, MTU {}", text.empty() ? "" : "\n", i.name, i.up ? "up" : "not up",
                        i.mtu);
    if (i.megabits_per_s > 0) text += fmt::format(", {} Mbit/s", i.megabits_per_s);
  }
  for (const RdmaPort& p : machine.rdma) {
    text += fmt::format("{}RDMA {}:{} {}, {}, {}", text.empty() ? "" : "\n", p.device, p.port,
                        p.state, p.link_layer, p.rate);
  }
  return text.empty() ? "none but this host's own" : text;
}

std::string packages_text(const Machine& machine) {
  std::string installed, missing;
  for (const Package& p : machine.packages) {
    std::string& list = p.version.empty() ? missing : installed;
    list += (list.empty() ? "" : ", ") + p.name + (p.version.empty() ? "" : " " + p.version);
  }
  return (installed.empty() ? "none" : installed) +
         (missing.empty() ? "" : "\nnot installed: " + missing);
}

std::string tuning_cache_text(const TuningCacheFile& file) {
  if (file.path.empty()) return "none";
  if (!file.exists) return file.path + ", not there yet";
  return fmt::format("{}, {} choice{}, {} KiB", file.path, file.entries,
                     file.entries == 1 ? "" : "s", (file.bytes + 1023) / 1024);
}

void print_machine(const Machine& machine) {
  const auto size = [](int64_t bytes) {
    const auto number = static_cast<double>(bytes);
    if (bytes >= int64_t{10} << 30) return fmt::format("{:.1f} GiB", number / (1 << 30));
    return bytes >= 1 << 20 ? mebibytes(number) : fmt::format("{} KiB", bytes >> 10);
  };
  const CpuInfo& cpu = cpu_info();
  std::string processor =
      cpu.model + (cpu.core.empty() ? "" : ", " + cpu.core) + ", " + std::string(isa_name(cpu.isa));
  if (!machine.virtual_machine.empty()) {
    processor += "\nin a virtual machine (" + machine.virtual_machine + ")";
  }
  if (!machine.governor.empty()) processor += "\nfrequency governor: " + machine.governor;
  std::string peaks;
  for (size_t i = 0; i < kIsas.size() && machine.rates.peaks[i] > 0; ++i) {
    peaks += fmt::format("{}{:.0f} GFLOP/s with {}", peaks.empty() ? "" : ", ",
                         machine.rates.peaks[i] * 1e-9, isa_name(kIsas[i]));
  }
  processor += "\none core computes " + peaks;
  std::string memory = fmt::format("{} ({} free), /dev/shm {} free", size(machine.memory_bytes),
                                   size(machine.available_bytes), size(machine.shared_bytes));
  if (machine.memory_limit_bytes > 0) memory += ", limit " + size(machine.memory_limit_bytes);
  memory += fmt::format("\none core reads {:.0f} GB/s", machine.rates.memory.one * 1e-9);
  if (cpu.cores > 1) {
    memory += fmt::format(", all together {:.0f} GB/s", machine.rates.memory.together * 1e-9);
  }
  std::string variables;
  for (const auto& [name, value] : set_variables()) {
    variables += (variables.empty() ? "" : "\n") + name + "=" + value;
  }
  const std::pair<std::string, std::string> rows[] = {
      {"Stretto", std::string(version())},
      {"processor", processor},
      {"cores",
       fmt::format("{} physical, {} logical, {}: {} thread{} by default", cpu.physical, cpu.logical,
                   cpu.quota > 0 ? fmt::format("quota {:.2g}", cpu.quota) : "no quota", cpu.cores,
                   cpu.cores == 1 ? "" : "s")},
      {"caches", fmt::format("L1d {}, L2 {} per core; L3 {}", size(cpu.l1d_bytes),
                             size(cpu.l2_bytes), size(cpu.l3_bytes))},
      {"memory", memory},
      {"network", network_text(machine)},
      {"Python", machine.python},
      {"packages", packages_text(machine)},
      {"tuning cache", tuning_cache_text(machine.tuning_cache)},
      {"variables", variables.empty() ? "none is set" : variables}};
  for (const auto& [name, text] : rows) {
    std::string left = name;
    for (size_t at = 0; at <= text.size();) {
      const size_t end = std::min(text.find('\n', at), text.size());
      fmt::print("{:<14}{}\n", left, text.substr(at, end - at));
      left.clear();
      at = end + 1;
    }
  }
}

int run_doctor(const Context& context) {
  const Machine machine = look_at_machine(context.python);
  const std::vector<Finding> findings = check_machine(machine);
  const bool stopped =
      std::any_of(findings.begin(), findings.end(), [](const Finding& f) { return f.stops_work; });
  if (context.talk->json) {
    json result = machine_json(machine);
    result["findings"] = json::array();
    for (const Finding& f : findings) {
      result["findings"].push_back({{"check", f.check},
                                    {"stops_work", f.stops_work},
                                    {"problem", f.problem},
                                    {"fix", f.fix}});
    }
    print_json(result);
    return stopped ? kFailed : kOk;
  }
  print_machine(machine);
  if (findings.empty()) fmt::print("\nNothing looks wrong.\n");
  for (const Finding& f : findings) {
    fmt::print("\n{}: {}\n  fix: {}\n", f.stops_work ? "Wrong" : "Look at this", f.problem, f.fix);
  }
  return stopped ? kFailed : kOk;
}

}  // namespace

std::function<int()> set_up_doctor(Command&, const Context& context) {
  return [context] { return run_doctor(context); };
}

}  // namespace stretto::cli
