#include "stretto/comm/engine/together.h"

#include <algorithm>
#include <utility>

#include "stretto/comm/engine/codec_choice.h"

namespace stretto::comm {
namespace {

Piece piece_of(Operation&& op) {
  return {.count = op.count, .input = op.input, .output = op.output, .name = std::move(op.name)};
}

}  // namespace

void gather(std::vector<Together>& gathered, Operation&& op, size_t place, size_t most,
            size_t ranks, const Options& options) {
  const auto may_join = [&](const Operation& one) {
    return one.kind == Kind::kAllReduce && !is_coded(one, options) && !one.residual &&
           !one.unseen && one.count > 0;
  };
  const auto fits = [&](const Together& together) {
    const Operation& first = together.operation;
    return first.dtype == op.dtype && first.reduction == op.reduction &&
           first.scanned == op.scanned && may_join(first) &&
           (!together.pieces.empty() || bytes_of(first) <= kSmallBytes) &&
           bytes_of(first) + bytes_of(op) <= options.fuse_bytes;
  };
  const bool joins = ranks > 1 && bytes_of(op) <= kSmallBytes && may_join(op);
  const auto found = joins ? std::find_if(gathered.begin(), gathered.end(), fits) : gathered.end();
  if (found == gathered.end()) {
    gathered.push_back({.operation = std::move(op), .pieces = {}, .places = {place}});
    return;
  }
  Operation& whole = found->operation;
  if (found->pieces.empty()) {
    found->pieces.reserve(most);
    found->places.reserve(most);
    found->pieces.push_back(piece_of(std::move(whole)));
  }
  const double otherwise_s = options.operation_timeout_s;
  if (time_limit_s(op, otherwise_s) < time_limit_s(whole, otherwise_s))
    whole.timeout_s = op.timeout_s;
  whole.input = whole.output = nullptr;
  whole.count += op.count;
  found->pieces.push_back(piece_of(std::move(op)));
  found->places.push_back(place);
}

}  // namespace stretto::comm
