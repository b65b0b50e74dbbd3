// Makes and removes groups of ranks.
#include "stretto/comm/engine/inside.h"

namespace stretto::comm {

GroupState& EngineImpl::make_group(Group id, std::string name, std::vector<int> ranks) {
  GroupState& made =
      groups_.insert(id, new_group(std::move(name), std::move(ranks), membership_, hosts_));
  for (const Events::Arrival& arrival : groups_.take_early(id)) on_arrival(arrival);
  return made;
}

Group EngineImpl::add_group(std::string_view name, std::vector<int> ranks) {
  Inside inside(*this);
  if (!cache_ && !ranks.empty() &&
      tells_cache(ranks[0] == membership_.rank ? 0 : 1, ranks.size(), options_)) {
    inside.lock.unlock();
    std::shared_ptr<tune::TuningCache> read = read_cache(options_);
    inside.lock.lock();
    if (!cache_) cache_ = std::move(read);  // groups share what they find
  }
  inside.require_open();
  const GroupTable::Number number = groups_.number(name, ranks);
  GroupState& state = make_group(number.id, std::string(name), std::move(ranks));
  state.first_number = number.first;
  state.life = number.life;
  begin_tuning(state);
  return number.id;
}

void EngineImpl::remove_group(Group id) {
  Inside inside(*this);
  if (closed_) return;
  if (id == kWorld) throw_invalid("remove_group: the group of all ranks cannot be removed");
  GroupState& state = groups_.at(id);
  if (state.internal) throw_invalid("group {} does not exist or was removed", id);
  for (const auto& [handle, open] : operations_.all()) {
    if (state.open > 0 && open->group == id && !open->done)
      throw_invalid("remove_group: '{}' still has an operation: {}; wait for it first", state.name,
                    describe(open->operation));
  }
  groups_.end_life(state);
  residuals_.drop(id);
  const Group channel = state.tuning ? state.tuning->channel : 0;
  if (channel != 0 && groups_.at(channel).open > 0) {
    groups_.retire(id, channel);  // the operation uses its memory
  } else if (channel != 0) {
    erase_group(channel);
  }
  erase_group(id);
}

// What other ranks have sent to it, and nobody has received, makes room for other messages.
void EngineImpl::erase_group(Group id) {
  groups_.erase(id);
  for (Link* link : links_->all()) groups_.count_dropped(link->drop(id));
}

}  // namespace stretto::comm
