#include "stretto/comm/engine/operation.h"

#include <array>

#include "stretto/base/error.h"
#include "stretto/comm/codec/codec.h"

namespace stretto::comm {
namespace {

// In the order of the enumerations.
constexpr std::array<std::string_view, 11> kKinds{
    "all_reduce", "broadcast",  "all_gather", "reduce_scatter", "reduce", "gather",
    "scatter",    "all_to_all", "send",       "recv",           "barrier"};

void check_parts(const Operation& op, const char* side, const std::vector<int64_t>& counts,
                 const std::vector<int64_t>& displacements, int size) {
  for (const std::vector<int64_t>* list : {&counts, &displacements}) {
    if (list->empty()) continue;
    if (static_cast<int>(list->size()) != size)
      throw_invalid("{}: expected {} {} counts and displacements, one for each rank, got {}",
                    kind_name(op.kind), size, side, list->size());
    for (int64_t value : *list) {
      if (value < 0)
        throw_invalid("{}: expected {} counts and displacements of at least 0, got {}",
                      kind_name(op.kind), side, value);
    }
  }
}

}  // namespace

std::string_view kind_name(Kind kind) { return kKinds[static_cast<size_t>(kind)]; }

std::string describe(const Operation& op) {
  std::string text(kind_name(op.kind));
  if (op.kind != Kind::kBarrier) text += fmt::format(" of {} {}", op.count, dtype_name(op.dtype));
  if (reduces(op.kind)) text += fmt::format(" ({})", reduce_op_name(op.reduction));
  if (op.kind == Kind::kBroadcast || op.kind == Kind::kReduce || op.kind == Kind::kGather ||
      op.kind == Kind::kScatter)
    text += fmt::format(", root {}", op.root);
  if (!op.codec.empty()) text += fmt::format(", codec {}", op.codec);
  if (!op.name.empty()) text += fmt::format(", '{}'", op.name);
  return text;
}

void check(const Operation& op, int rank, int size) {
  const std::string_view what = kind_name(op.kind);
  if (op.kind == Kind::kBarrier) return;
  if (dtype_bytes(op.dtype) == 0) throw_invalid("{}: the element type is undefined", what);
  if (op.count < 0) throw_invalid("{}: expected a count of at least 0, got {}", what, op.count);
  if (op.root < 0 || op.root >= size)
    throw_invalid("{}: expected a root from 0 to {}, got {}", what, size - 1, op.root);
  if (op.kind == Kind::kSend || op.kind == Kind::kRecv) {
    const bool any = op.kind == Kind::kRecv && op.peer == kAnyPeer;
    if (!any && (op.peer < 0 || op.peer >= size || op.peer == rank))
      throw_invalid("{}: expected another rank of the group, from 0 to {} and not {}, got {}", what,
                    size - 1, rank, op.peer);
  }
  check_parts(op, "input", op.input_counts, op.input_displacements, size);
  check_parts(op, "output", op.output_counts, op.output_displacements, size);
  if (reduces(op.kind)) {
    const std::string unfit = reduce_unfit(op.dtype, op.reduction);
    if (!unfit.empty()) throw_invalid("{}: {}", what, unfit);
  }
  const bool sums =
      reduces(op.kind) && (op.reduction == ReduceOp::kSum || op.reduction == ReduceOp::kAverage);
  const bool codable = sums && op.dtype == DType::kFloat32;
  if (op.residual && (!codable || op.kind != Kind::kAllReduce))
    throw_invalid("{}: only an all_reduce with sum or average of float32 can have a residual",
                  what);
  if (op.codec.empty() || op.codec == "none") return;
  find_codec(op.codec);
  if (!codable)
    throw_invalid("{}: codec {} works for sum and average of float32 only; leave the codec empty",
                  what, op.codec);
}

}  // namespace stretto::comm
