#include "stretto/comm/engine/input_search.h"

#include <numeric>

namespace stretto::comm {
namespace {

// Larger operations have more units under way than the cache holds: what was written has left it
// when it is searched.
constexpr int64_t kSearchedBySteps = 8 << 20;

int64_t input_count(const Operation& op, size_t ranks) {
  if (op.kind != Kind::kReduceScatter) return op.count;
  if (op.input_counts.empty()) return op.count * static_cast<int64_t>(ranks);
  return std::accumulate(op.input_counts.begin(), op.input_counts.end(), int64_t{0});
}

}  // namespace

bool is_searched(const Operation& op, const Options& options) {
  return options.nan_check != NanCheck::kOff && !op.scanned && reduces(op.kind) &&
         is_float(op.dtype);
}

bool is_searched_ahead(const Operation& op, size_t ranks, const Options& options) {
  if (!is_searched(op, options) || op.kind == Kind::kAllReduce) return false;
  if (op.kind != Kind::kReduceScatter && !op.input_displacements.empty()) return false;
  return input_count(op, ranks) * static_cast<int64_t>(dtype_bytes(op.dtype)) > kSmallBytes;
}

bool is_searched_by_steps(const OpenOperation& open, const Options& options) {
  const Operation& op = open.operation;
  return is_searched(op, options) && options.nan_check == NanCheck::kReport &&
         op.kind == Kind::kAllReduce && !open.codec && !op.residual && open.pieces.empty() &&
         bytes_of(open) > kSmallBytes && bytes_of(open) <= kSearchedBySteps;
}

NonFinite search_input(const Operation& op, size_t ranks, Isa isa) {
  const auto* input = static_cast<const std::byte*>(op.input);
  if (op.input_displacements.empty())
    return scan_non_finite(isa, op.dtype, input, input_count(op, ranks));
  NonFinite all;
  int64_t before = 0;
  for (size_t i = 0; i < ranks; ++i) {
    const int64_t count = op.input_counts.empty() ? op.count : op.input_counts[i];
    const NonFinite found = scan_non_finite(
        isa, op.dtype,
        input + static_cast<size_t>(op.input_displacements[i]) * dtype_bytes(op.dtype), count);
    if (all.count == 0 && found.count > 0) all.first = before + found.first;
    all.count += found.count;
    before += count;
  }
  return all;
}

bool search_before_begin(OpenOperation& open, size_t ranks, Isa isa) {
  const Operation& op = open.operation;
  open.scans = op.kind == Kind::kAllReduce && open.pieces.empty() &&
               (open.units > 1 || bytes_of(open) > kSmallBytes);
  if (open.scans) return false;
  const NonFinite found = open.found_ahead
                              ? *open.found_ahead
                              : scan_non_finite(isa, op.dtype, open.input, input_count(op, ranks));
  if (found.count == 0) return false;
  open.non_finite = found.count;
  open.first_non_finite = found.first;
  const std::byte* input = open.input;
  for (Piece& piece : open.pieces) {
    piece.non_finite = scan_non_finite(isa, op.dtype, input, piece.count);
    input += static_cast<size_t>(piece.count) * dtype_bytes(op.dtype);
  }
  return true;
}

}  // namespace stretto::comm
