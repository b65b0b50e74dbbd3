#include "stretto/runtime/report.h"
#include "stretto/base/machine_rates.h"

#include <sys/utsname.h>

#include <algorithm>
#include <map>

#include "stretto/base/interrupt.h"

namespace stretto::runtime {

using nlohmann::json;

json machine_json(const kernels::Target& target) {
  const CpuInfo& cpu = cpu_info();
  utsname system{};
  uname(&system);
  return {{"cpu", cpu.model},
          {"core", cpu.core},
          {"isa", isa_name(target.isa)},
          {"isa_of_machine", isa_name(cpu.isa)},
          {"cores", cpu.cores},
          {"logical_cpus", cpu.logical},
          {"physical_cores", cpu.physical},
          {"cpu_quota", cpu.quota > 0 ? json(cpu.quota) : json(nullptr)},
          {"l1d_bytes", cpu.l1d_bytes},
          {"l2_bytes", cpu.l2_bytes},
          {"l3_bytes", cpu.l3_bytes},
          {"peak_gflops_per_core", peak_flops(target.isa) * 1e-9},
          {"os", fmt::format("{} {}", system.sysname, system.release)}};
}

json other_work_json(const OtherWork& work) {
  return {{"seconds", work.seconds},
          {"cores", work.cores},
          {"steal", work.steal},
          {"remark", describe(work)}};
}

json options_json(const OptimizeOptions& options, const kernels::Target& target) {
  return {{"level", options.level},     {"accuracy", kernels::accuracy_name(target.accuracy)},
          {"threads", target.threads},  {"tuning", options.tuning},
          {"disable", options.disable}, {"force", options.force}};
}

json inputs_json(const ir::Graph& graph, const std::vector<SampleInput>& samples) {
  json list = json::array();
  for (size_t i = 0; i < samples.size(); ++i) {
    json input{{"name", graph.value(graph.inputs[i]).name},
               {"source", samples[i].made_up ? "made up" : "user"}};
    if (samples[i].made_up) input["seed"] = kSampleSeed;
    list.push_back(std::move(input));
  }
  return list;
}

json latency_json(const Latency& latency) {
  return {{"median_ms", latency.median_ms},
          {"p95_ms", latency.p95_ms},
          {"first_ms", latency.first_ms},
          {"runs", latency.runs}};
}

json operators_json(const Compiled& compiled, const std::vector<double>& ms) {
  const Program& program = compiled.program;
  const double peak = peak_flops(program.target.isa) * program.target.threads;
  json list = json::array();
  for (size_t i = 0; i < program.instructions.size(); ++i) {
    check_interrupt();
    const Instruction& in = program.instructions[i];
    const Explanation& why = compiled.explanations[i];
    json entry{{"node", in.node}, {"op", in.op}};
    if (in.family != nullptr) {
      entry["family"] = in.family->name;
      entry["kernel"] = in.family->row_name(in.row);
      entry["problem"] = why.problem;
    } else {
      entry["kernel"] = in.interpreted ? "reference" : "copy";
    }
    entry["why"] = why.selection.why;
    if (i < ms.size()) {
      entry["ms"] = ms[i];
      if (why.flops > 0 && ms[i] > 0) {
        entry["gflops"] = why.flops / ms[i] * 1e-6;
        entry["fraction_of_peak"] = why.flops / (ms[i] * 1e-3) / peak;
      }
    }
    json alternatives = json::array();
    for (const Alternative& a : why.selection.alternatives) {
      json alternative{{"kernel", a.kernel}};
      alternative["ms"] = a.seconds > 0 ? json(a.seconds * 1e3) : json(nullptr);
      alternative["reason"] = a.reason.empty() ? json(nullptr) : json(a.reason);
      alternatives.push_back(std::move(alternative));
    }
    entry["alternatives"] = std::move(alternatives);
    list.push_back(std::move(entry));
  }
  return list;
}

json operator_sums_json(const Program& program, const std::vector<double>& ms) {
  std::map<std::string, std::pair<double, int>> sums;
  for (size_t i = 0; i < program.instructions.size() && i < ms.size(); ++i) {
    auto& [sum, count] = sums[program.instructions[i].op];
    sum += ms[i];
    ++count;
  }
  std::vector<std::pair<std::string, std::pair<double, int>>> order(sums.begin(), sums.end());
  std::sort(order.begin(), order.end(),
            [](const auto& a, const auto& b) { return a.second.first > b.second.first; });
  json list = json::array();
  for (const auto& [op, sum] : order) {
    list.push_back({{"op", op}, {"ms", sum.first}, {"count", sum.second}});
  }
  return list;
}

json passes_json(const std::vector<passes::Fired>& fired) {
  json list = json::array();
  for (const passes::Fired& f : fired) {
    check_interrupt();
    list.push_back({{"pass", f.pass}, {"rule", f.rule}, {"node", f.node}});
  }
  return list;
}

json preprocess_json(const Model::State& model, bool timed) {
  const Pictures& pictures = *model.pictures;
  const TensorSpec& made = model.program->inputs[pictures.index];
  return {{"steps", pictures.text},
          {"input", made.name},
          {"dtype", dtype_name(made.dtype)},
          {"shape", made.shape},
          {"picture", kTimedPicture},
          {"ms", timed ? json(time_preprocess(pictures, made.dtype)) : json(nullptr)}};
}

json errors_json(const std::vector<OutputError>& errors, double bound) {
  json list = json::array();
  for (const OutputError& e : errors) {
    list.push_back({{"output", e.output},
                    {"relative_to_max", e.relative_to_max},
                    {"bound", bound},
                    {"max_abs", e.max_abs}});
  }
  return list;
}

}  // namespace stretto::runtime
