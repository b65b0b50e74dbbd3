#include "stretto/runtime/siblings.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>

#include "stretto/base/clock.h"
#include "stretto/base/log.h"
#include "stretto/passes/pipeline.h"
#include "stretto/runtime/compile.h"
#include "stretto/runtime/memory_check.h"
#include "stretto/tensor/identity.h"

namespace stretto::runtime {
namespace {

// How many times as fast as the best of the others a kernel must be whose weights are not packed.
// Late: no kernel is, so that weights are packed only where no kernel could run without.
constexpr double kWorthPacking = 2, kWorthPackingLate = 1e6;

}  // namespace

void Siblings::settle() {
  const std::lock_guard lock(mutex_);
  settled_ = true;
  derived_.settle();
}

void own_borrowed(ir::Graph& graph, ir::Graph& original) {
  std::map<const std::byte*, const std::byte*> borrowed;  // beginnings, and the last end so far
  for (const ir::Value& value : original.values) {
    if (!value.is_constant()) continue;
    const auto* begin = static_cast<const std::byte*>(value.constant.data());
    const auto at = borrowed.try_emplace(begin, begin).first;
    at->second = std::max(at->second, begin + value.constant.bytes());
  }
  const std::byte* last = nullptr;
  for (auto& [begin, end] : borrowed) last = end = std::max(end, last);
  std::map<std::string, Tensor> copies;
  for (ir::Value& value : graph.values) {
    if (!value.is_constant()) continue;
    const Tensor from = value.constant;
    const auto* begin = static_cast<const std::byte*>(from.data());
    const auto after = borrowed.upper_bound(begin);
    if (after == borrowed.begin() || begin >= std::prev(after)->second) continue;
    Tensor& copy = copies[identity(from)];
    if (!copy.defined()) copy = from.converted(from.dtype());
    value.constant = copy.reshaped(from.shape());
  }
  for (ir::Value& value : original.values) {
    if (!value.is_constant()) continue;
    const auto at = copies.find(identity(value.constant));
    if (at != copies.end()) value.constant = at->second.reshaped(value.constant.shape());
  }
}

void Siblings::own_constants(ir::Graph& graph) {
  for (ir::Value& value : graph.values) {
    if (!value.is_constant()) continue;
    const Tensor& from = value.constant;
    Tensor& copy = owned_[content_name(from)];
    if (!copy.defined()) copy = from.converted(from.dtype());
    value.constant = copy.reshaped(from.shape());
  }
}

void Siblings::own(ImportedModel& imported) {
  const std::lock_guard lock(mutex_);
  if (imported.borrows) own_constants(imported.graph);
  imported.borrows = false;
}

ir::Graph Siblings::rewritten(ImportedModel imported) {
  const std::lock_guard lock(mutex_);
  check_memory(imported.graph);
  if (imported.borrows) own_constants(imported.graph);
  passes::run_pipeline(imported.graph,
                       {.disabled = making_.disabled, .verify = false, .derived = &derived_});
  return std::move(imported.graph);
}

std::shared_ptr<const Program> Siblings::compile(ImportedModel imported,
                                                 const kernels::Target& target,
                                                 const LowerOptions& lower, bool tell,
                                                 passes::Ragged* ragged) {
  const std::lock_guard lock(mutex_);
  const double start = now_s();
  auto graph = std::make_shared<ir::Graph>(std::move(imported.graph));
  check_memory(*graph);
  if (imported.borrows) own_constants(*graph);
  passes::run_pipeline(
      *graph,
      {.disabled = making_.disabled, .verify = false, .derived = &derived_, .ragged = ragged});
  const double rewrote = now_s();
  Selector selector({.forced = making_.forced, .known = making_.known});
  Compiled compiled =
      runtime::compile(graph, target, selector,
                       {.shared = &weights_,
                        .worth_packing = settled_ ? kWorthPackingLate : kWorthPacking,
                        .lower = lower});
  auto program = std::make_shared<Program>(std::move(compiled.program));
  if (ragged != nullptr) program->rows = ragged->rows;
  check_memory(*program);
  if (!tell) return program;
  std::vector<std::string> shapes;
  for (const TensorSpec& input : program->inputs) shapes.push_back(shape_text(input.shape));
  log_message(
      LogLevel::kInfo,
      fmt::format(
          "{}: a program for {}{}: passes {:.1f} ms, compiling {:.1f} ms, {} weights packed",
          imported.source, fmt::join(shapes, ", "),
          ragged == nullptr ? "" : fmt::format(" of {} tokens", ragged->rows),
          (rewrote - start) * 1e3, (now_s() - rewrote) * 1e3, compiled.packed));
  return program;
}

}  // namespace stretto::runtime
