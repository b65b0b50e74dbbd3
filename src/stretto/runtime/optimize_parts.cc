#include "stretto/runtime/optimize_parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <random>

#include "stretto/base/error.h"
#include "stretto/ir/interpreter.h"
#include "stretto/ir/operator.h"
#include "stretto/tensor/compare.h"
#include "stretto/tensor/narrow.h"
#include "stretto/tune/cache_file.h"

namespace stretto::runtime {

using nlohmann::json;

namespace {

// What "quick" and "full" mean, in seconds of kernel measurements.
constexpr double kQuickBudget = 10, kFullBudget = 240;

}  // namespace

const std::set<std::string>& fusions() {
  static const std::set<std::string> kFusions{
      "fold-batch-norm",      "fuse-epilogue",    "fuse-attention",
      "fuse-add-layer-norm",  "fuse-elementwise", "recognise-activation",
      "recognise-layer-norm", "squeeze-excite",   "merge-linears"};
  return kFusions;
}

TuningBudget parse_tuning(const std::string& tuning) {
  if (tuning == "off") return {};
  if (tuning == "quick") return {kQuickBudget, false};
  if (tuning == "full") return {kFullBudget, true};
  double seconds = 0;
  const auto [end, error] = std::from_chars(tuning.data(), tuning.data() + tuning.size(), seconds);
  if (error != std::errc{} || end != tuning.data() + tuning.size() || !std::isfinite(seconds) ||
      seconds < 0) {
    throw_invalid("tuning: expected off, quick, full or a number of seconds, got '{}'", tuning);
  }
  return {seconds, seconds >= kFullBudget};
}

kernels::Target make_target(const OptimizeOptions& options) {
  if (options.level == "half" || options.level == "int8") {
    throw_unsupported(
        "level: '{}' is planned and does not exist yet; leave the option out for lossless (fp32 "
        "throughout)",
        options.level);
  }
  if (options.level != "lossless") {
    throw_invalid(
        "level: expected lossless (fp32 throughout), the only level so far (half and int8 are "
        "planned), got '{}'",
        options.level);
  }
  if (options.threads < 0 || options.threads > 1024) {
    throw_invalid("threads: expected 0 (all cores) to 1024, got {}", options.threads);
  }
  return {.isa = usable_isa(),
          .accuracy = kernels::parse_accuracy(options.accuracy),
          .threads = options.threads == 0 ? cpu_info().cores : options.threads};
}

bool is_family(std::string_view name) {
  const auto all = kernels::families();
  return std::any_of(all.begin(), all.end(),
                     [&](const kernels::Family* f) { return f->name == name; });
}

namespace {

// Forced kernels that name a node of the graph; a name that is neither node nor family is an error.
std::map<std::string, std::string> forced_nodes(const OptimizeOptions& options,
                                                const ir::Graph& graph) {
  std::map<std::string, std::string> nodes;
  for (const auto& [name, row] : options.force) {
    if (is_family(name)) continue;
    const bool known =
        std::any_of(graph.nodes.begin(), graph.nodes.end(),
                    [&name = name](const ir::Node& node) { return node.name == name; });
    if (!known) {
      throw_invalid(
          "forced kernels: '{}' is neither an operator family (see `stretto kernels`) nor a "
          "node of the optimised graph (see `stretto inspect`)",
          name);
    }
    nodes[name] = row;
  }
  return nodes;
}

}  // namespace

TuningOptions tuning_options(const OptimizeOptions& options, const TuningBudget& budget,
                             const ir::Graph& graph) {
  TuningOptions how{.budget_s = budget.seconds,
                    .thorough = budget.thorough,
                    .forced_nodes = forced_nodes(options, graph),
                    .cache = tune::tuning_cache_path(options.tuning_cache),
                    .progress = options.progress};
  for (const auto& [name, row] : options.force) {
    if (is_family(name)) how.forced[name] = row;
  }
  return how;
}

namespace {

std::vector<OutputError> errors_against(const std::vector<Tensor>& expected, const Program& program,
                                        const std::vector<Tensor>& inputs) {
  const std::vector<Tensor> got = run_program(program, inputs);
  std::vector<OutputError> errors;
  for (size_t i = 0; i < got.size(); ++i) {
    errors.push_back(compare(program.outputs[i].name, got[i], expected[i]));
  }
  return errors;
}

const OutputError* worst_above(const std::vector<OutputError>& errors, double bound) {
  const OutputError* worst = nullptr;
  for (const OutputError& e : errors) {
    if (e.relative_to_max > bound && (!worst || e.relative_to_max > worst->relative_to_max)) {
      worst = &e;
    }
  }
  return worst;
}

// Some inputs are badly conditioned for a model: rounding alone moves the outputs. The bound is
// then this many times what the plain fp32 reference, operator by operator, loses on them, or what
// inputs beside them change: that reference is one way to round of many, and may be a lucky one.
constexpr double kConditioning = 8;

}  // namespace

// What a rounding of stored values can move: a float16, bfloat16 or quantised value next to a tie
// falls either way. In units of the largest value, twice the step between neighbours.
double storage_error(const ir::Graph& graph) {
  double error = 0;
  for (const ir::Node& node : graph.nodes) {
    if (node.op->name == "QuantizeLinear") error = std::max(error, 2.0 / 127);
    for (ir::ValueId id : node.outputs) {
      if (id == ir::kNone) continue;
      const DType dtype = graph.value(id).dtype;
      if (dtype == DType::kFloat16) error = std::max(error, 0x1p-9);
      if (dtype == DType::kBFloat16) error = std::max(error, 0x1p-6);
      if (!is_narrow(dtype)) continue;
      const double largest = (1 << (narrow_bits(dtype) - 1)) - 1;  // of a signed integer
      error = std::max(error, is_float(dtype) ? 0.25 : 2 / largest);
    }
  }
  return error;
}

namespace {

// A millionth more or less, which fp32 sums lose easily: shows how far that carries in a model
// whose layers enlarge small differences, or which stores rounded values, whose ties fall the other
// way.
std::vector<Tensor> nudged(const std::vector<Tensor>& inputs) {
  std::vector<Tensor> result = inputs;
  for (Tensor& tensor : result) {
    if (tensor.dtype() != DType::kFloat32) continue;
    const Tensor from = tensor;
    tensor = Tensor(DType::kFloat32, from.shape());
    std::minstd_rand signs;
    std::transform(from.values<float>().begin(), from.values<float>().end(),
                   tensor.mutable_values<float>().begin(), [&](float value) {
                     return value * (signs() & 0x10000 ? 1 + 0x1p-20f : 1 - 0x1p-20f);
                   });
  }
  return result;
}

}  // namespace

Verified verified(const ir::Graph& original, const Program& program,
                  const std::vector<Tensor>& inputs, const std::string& file, json& notes) {
  ThreadTeam team(program.target.threads);
  const std::vector<Tensor> expected =
      ir::interpret(original, inputs, {.float64 = true, .team = &team});
  auto errors = errors_against(expected, program, inputs);
  for (const OutputError& e : errors) {
    if (!e.only_nan) continue;
    throw_invalid(
        "{}: output {} is NaN everywhere, in double precision too, so these inputs check nothing: "
        "give inputs that suit the model, or verify=False",
        file, e.output);
  }
  double bound = std::max(allowed_error(program.target.accuracy), storage_error(original));
  if (worst_above(errors, bound) != nullptr) {
    const std::vector<Tensor> rounded =
        ir::interpret(original, inputs, {.float64 = false, .team = &team});
    const std::vector<Tensor> beside =
        ir::interpret(original, nudged(inputs), {.float64 = true, .team = &team});
    double loss = 0;
    for (size_t i = 0; i < rounded.size(); ++i) {
      const double error = compare(rounded[i], expected[i]).relative_to_max;
      if (!std::isfinite(error)) {
        throw_invalid(
            "{}: output {} is not finite in fp32 where double precision is, so these inputs check "
            "nothing: give inputs that suit the model, or verify=False",
            file, program.outputs[i].name);
      }
      loss = std::max(loss, error);
      const double moved = compare(beside[i], expected[i]).relative_to_max;
      if (std::isfinite(moved)) loss = std::max(loss, moved);
    }
    bound = std::max(bound, kConditioning * loss);
    notes.push_back(
        fmt::format("these inputs are badly conditioned: rounding alone is off by {:.1e}, so "
                    "errors up to {:.1e} were allowed",
                    loss, bound));
  }
  if (const auto* worst = worst_above(errors, bound)) {
    throw InternalError(
        fmt::format("{}: output {} is off by {:.1e} of its largest value (allowed {:.0e}); "
                    "`stretto inspect --bisect` "
                    "names the rewrite, accuracy=\"strict\" avoids approximate kernels",
                    file, worst->output, worst->relative_to_max, bound));
  }
  return {expected, std::move(errors), bound};
}

}  // namespace stretto::runtime
