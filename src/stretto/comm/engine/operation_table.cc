#include "stretto/comm/engine/operation_table.h"

#include <algorithm>
#include <utility>

namespace stretto::comm {

OperationTable::Shared OperationTable::find(Handle handle) const {
  const auto found = operations_.find(handle);
  return found == operations_.end() ? nullptr : found->second;
}

std::vector<OperationTable::Shared> OperationTable::under_way() const {
  std::vector<Shared> open;
  for (const auto& [handle, operation] : operations_) {
    if (!operation->done) open.push_back(operation);
  }
  std::sort(open.begin(), open.end(),
            [](const Shared& a, const Shared& b) { return a->handle < b->handle; });
  return open;
}

const OpenOperation* OperationTable::overdue(double now, double otherwise_s, double* next_s) const {
  for (const auto& [handle, open] : operations_) {
    if (open->done) continue;
    const double end_s = open->submitted_s + time_limit_s(open->operation, otherwise_s);
    if (end_s <= now) return open.get();
    *next_s = std::min(*next_s, end_s);
  }
  return nullptr;
}

void OperationTable::add(const Shared& open, bool internal) {
  open->handle = next_++;
  operations_.emplace(open->handle, open);
  ++unfinished_;
  unfinished_internal_ += internal;
}

void OperationTable::withdraw(const OpenOperation& open, bool internal) {
  --unfinished_;
  unfinished_internal_ -= internal;
  operations_.erase(open.handle);
}

void OperationTable::end(OpenOperation* open, bool internal) {
  open->done = true;
  --unfinished_;
  unfinished_internal_ -= internal;
  const auto pieces = static_cast<int64_t>(open->pieces.size());
  if (!internal && !open->operation.unseen) completed_ += std::max<int64_t>(pieces, 1);
  joined_ += pieces;
}

}  // namespace stretto::comm
