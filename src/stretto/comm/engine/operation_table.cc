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
}

Completion OperationTable::take_reported() {
  const Shared open = std::move(reported_.front());
  reported_.pop_front();
  operations_.erase(open->handle);
  const bool receives = open->operation.kind == Kind::kRecv;
  return {open->handle, receives ? open->operation.peer : -1, open->error};
}

}  // namespace stretto::comm
