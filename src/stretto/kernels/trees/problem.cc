#include "stretto/kernels/trees/problem.h"

#include <fmt/format.h>

namespace stretto::kernels {
namespace {

std::string model_key(const TreesProblem& p) {
  static constexpr std::string_view kSums[] = {"average", "sum", "least", "most"};
  return fmt::format("{} trees of {} nodes, {} entries, depth {} {} {} {}{}{}{}", p.trees, p.nodes,
                     p.entries, p.depth, dtype_name(p.dtype), kSums[static_cast<int>(p.sum)],
                     p.targets, p.equal ? " equal" : "", p.missing ? " missing" : "",
                     p.single ? " single" : "");
}

}  // namespace

std::string problem_key(const TreesProblem& p) {
  return fmt::format("trees {}x{} {} {}", p.rows, p.features, model_key(p), target_text(p.target));
}

Signature problem_signature(const TreesProblem& p) {
  const auto ints = [](std::string_view name, Shape shape) {
    return TensorInfo{.name = name, .dtype = DType::kInt32, .shape = std::move(shape)};
  };
  return {
      .inputs = {{.name = "x", .dtype = p.dtype, .shape = {p.rows, p.features}}},
      .constants = {{.name = "splits", .dtype = p.dtype, .shape = {p.nodes}},
                    ints("links", {p.nodes, 2}),
                    ints("roots", {p.trees}),
                    ints("ends", {p.nodes}),
                    ints("targets", {p.entries}),
                    {.name = "weights", .dtype = p.dtype, .shape = {p.entries}}},
      .outputs = {{.name = "y", .dtype = p.dtype, .shape = {p.rows, p.targets}}},
  };
}

// A comparison per step, and as many additions as a leaf has entries.
double problem_flops(const TreesProblem& p) {
  const double steps = static_cast<double>(p.trees) * static_cast<double>(p.depth + 1);
  return static_cast<double>(p.rows) * steps * 2;
}

std::string weights_key(TreesProblem p) { return fmt::format("{} {}", p.features, model_key(p)); }

}  // namespace stretto::kernels
