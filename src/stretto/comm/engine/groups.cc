// Makes and removes groups of ranks.
#include <algorithm>
#include <limits>

#include "stretto/comm/engine/inside.h"

namespace stretto::comm {
namespace {

constexpr size_t kRemembered = 1024;  // removed groups

}  // namespace

GroupState& EngineImpl::insert_group(Group id, std::string name, std::vector<int> ranks) {
  auto state = std::make_unique<GroupState>();
  std::vector<bool> listed(membership_.size);
  std::vector<int> hosts, racks;
  for (size_t i = 0; i < ranks.size(); ++i) {
    const int rank = ranks[i];
    if (rank < 0 || rank >= membership_.size)
      throw_invalid("group '{}': rank {} does not exist in a job of {} ranks", name, rank,
                    membership_.size);
    if (listed[rank]) throw_invalid("group '{}': rank {} is listed twice", name, rank);
    listed[rank] = true;
    if (rank == membership_.rank) state->rank = static_cast<int>(i);
    hosts.push_back(host_of_[rank]);
    racks.push_back(rack_of_[rank]);
  }
  if (!listed[membership_.rank])
    throw_invalid("group '{}': this rank, {}, is not a member; only members make a group", name,
                  membership_.rank);
  state->placement = Placement(hosts, racks);
  state->name = std::move(name);
  state->ranks = std::move(ranks);
  GroupState& made = *(groups_[id] = std::move(state));
  const auto early = early_arrivals_.find(id);
  if (early == early_arrivals_.end()) return made;
  const std::vector<Events::Arrival> arrivals = std::move(early->second);
  early_arrivals_.erase(early);
  early_count_ -= arrivals.size();
  for (const Events::Arrival& arrival : arrivals) on_arrival(arrival);
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
  const Group first = group_number(name, ranks, 0);
  const auto removed = lives_.find(first);
  const uint32_t life = removed == lives_.end() ? 0 : removed->second;
  const Group id = life == 0 ? first : group_number(name, ranks, life);
  if (id == kWorld || groups_.contains(id))
    throw_invalid("group '{}': these ranks have a group of this name already", name);
  GroupState& state = insert_group(id, std::string(name), std::move(ranks));
  state.first_number = first;
  state.life = life;
  begin_tuning(state);
  return id;
}

void EngineImpl::remove_group(Group id) {
  Inside inside(*this);
  if (closed_) return;
  if (id == kWorld) throw_invalid("remove_group: the group of all ranks cannot be removed");
  GroupState& state = group(id);
  if (state.internal) throw_invalid("group {} does not exist or was removed", id);
  for (const auto& [handle, open] : operations_) {
    if (state.open > 0 && open->group == id && !open->done)
      throw_invalid("remove_group: '{}' still has an operation: {}; wait for it first", state.name,
                    describe(open->operation));
  }
  lives_[state.first_number] = state.life + 1;
  const auto first = residuals_.lower_bound({id, "", std::numeric_limits<int64_t>::min()});
  auto last = first;
  while (last != residuals_.end() && std::get<0>(last->first) == id) ++last;
  residuals_.erase(first, last);
  const Group channel = state.tuning ? state.tuning->channel : 0;
  if (channel != 0 && groups_.at(channel)->open > 0) {
    retiring_[channel] = std::move(groups_[id]);  // the operation uses its memory
  } else if (channel != 0) {
    erase_group(channel);
  }
  erase_group(id);
}

// What other ranks have sent to it, and nobody has received, makes room for other messages.
void EngineImpl::erase_group(Group id) {
  groups_.erase(id);
  for (Link* link : links_->all()) dropped_messages_ += link->drop(id);
  removed_.push_back(id);
  if (removed_.size() > kRemembered) removed_.pop_front();
}

GroupState& EngineImpl::group(Group id) {
  const auto found = groups_.find(id);
  if (found == groups_.end()) throw_invalid("group {} does not exist or was removed", id);
  return *found->second;
}

}  // namespace stretto::comm
