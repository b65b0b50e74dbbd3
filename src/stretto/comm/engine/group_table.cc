#include "stretto/comm/engine/group_table.h"

#include <algorithm>
#include <utility>

#include "stretto/base/error.h"

namespace stretto::comm {

std::unique_ptr<GroupState> new_group(std::string name, std::vector<int> ranks,
                                      const Membership& job, const JobHosts& hosts) {
  auto state = std::make_unique<GroupState>();
  std::vector<bool> listed(job.size);
  for (size_t i = 0; i < ranks.size(); ++i) {
    const int rank = ranks[i];
    if (rank < 0 || rank >= job.size)
      throw_invalid("group '{}': rank {} does not exist in a job of {} ranks", name, rank,
                    job.size);
    if (listed[rank]) throw_invalid("group '{}': rank {} is listed twice", name, rank);
    listed[rank] = true;
    if (rank == job.rank) state->rank = static_cast<int>(i);
  }
  if (!listed[job.rank])
    throw_invalid("group '{}': this rank, {}, is not a member; only members make a group", name,
                  job.rank);
  state->placement = hosts.placement(ranks);
  state->name = std::move(name);
  state->ranks = std::move(ranks);
  return state;
}

GroupState* GroupTable::find(Group id) const {
  const auto found = groups_.find(id);
  return found == groups_.end() ? nullptr : found->second.get();
}

GroupState& GroupTable::at(Group id) const {
  GroupState* found = find(id);
  if (!found) throw_invalid("group {} does not exist or was removed", id);
  return *found;
}

GroupTable::Number GroupTable::number(std::string_view name, const std::vector<int>& ranks) const {
  Number number;
  number.first = number.id = group_number(name, ranks, 0);
  if (const auto removed = lives_.find(number.first); removed != lives_.end()) {
    number.life = removed->second;
    number.id = group_number(name, ranks, number.life);
  }
  if (number.id == kWorld || groups_.contains(number.id))
    throw_invalid("group '{}': these ranks have a group of this name already", name);
  return number;
}

GroupState& GroupTable::insert(Group id, std::unique_ptr<GroupState> group) {
  return *(groups_[id] = std::move(group));
}

void GroupTable::erase(Group id) {
  groups_.erase(id);
  erased_.push_back(id);
  if (erased_.size() > kRemembered) erased_.pop_front();
}

void GroupTable::stop() {
  for (const auto& [id, group] : groups_) {
    group->waiting.clear();
    if (group->tuning) group->tuning->held.clear();
    comm::stop(group->fusion);
    group->point_to_point.any_receives.clear();
    group->active_bytes = 0;
  }
}

bool GroupTable::was_erased(Group id) const {
  return std::find(erased_.begin(), erased_.end(), id) != erased_.end();
}

bool GroupTable::keep_early(const Events::Arrival& arrival) {
  if (early_count_ == kMostEarly) return false;
  ++early_count_;
  early_[arrival.key.group].push_back(arrival);
  return true;
}

std::vector<Events::Arrival> GroupTable::take_early(Group id) {
  const auto found = early_.find(id);
  if (found == early_.end()) return {};
  std::vector<Events::Arrival> arrivals = std::move(found->second);
  early_.erase(found);
  early_count_ -= arrivals.size();
  return arrivals;
}

}  // namespace stretto::comm
