#include "stretto/comm/engine/non_finite_reports.h"

#include <fmt/core.h>

namespace stretto::comm {

void NonFiniteReports::add(NonFiniteReport&& found) {
  if (reports_.size() == Engine::kMostReports) {
    ++reports_.back().more;
    return;
  }
  reports_.push_back(std::move(found));
  reports_.back().rank = rank_;
}

void NonFiniteReports::add(const OpenOperation& open) {
  const auto add_found = [&](const std::string& name, const NonFinite& found) {
    if (found.count == 0) return;
    add({.name = name,
         .group = open.group,
         .sequence = open.sequence,
         .first_offset = found.first,
         .count = found.count});
  };
  for (const Piece& piece : open.pieces) add_found(piece.name, piece.non_finite);
  if (open.pieces.empty())
    add_found(open.operation.name, {.count = open.non_finite, .first = open.first_non_finite});
}

std::string NonFiniteReports::reason(std::string_view what, int64_t count, int64_t first) const {
  return fmt::format("rank {}: {} has {} values that are not finite, the first at {}", rank_, what,
                     count, first);
}

std::string NonFiniteReports::reason(const OpenOperation& open) const {
  for (const Piece& piece : open.pieces) {
    if (piece.non_finite.count == 0) continue;
    Operation operation = open.operation;
    operation.count = piece.count;
    operation.name = piece.name;
    return reason(describe(operation), piece.non_finite.count, piece.non_finite.first);
  }
  return reason(describe(open.operation), open.non_finite, open.first_non_finite);
}

}  // namespace stretto::comm
