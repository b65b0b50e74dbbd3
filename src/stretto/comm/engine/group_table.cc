#include "stretto/comm/engine/group_table.h"

#include <algorithm>
#include <utility>

#include "stretto/base/error.h"

namespace stretto::comm {

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
