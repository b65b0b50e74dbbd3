// The groups of a rank: those it has, and those it has not made yet or has removed, for which
// other ranks may still send messages.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "stretto/comm/engine/job_hosts.h"
#include "stretto/comm/engine/state.h"
#include "stretto/comm/link/link.h"

namespace stretto::comm {

// The state of a group of these ranks of the job. Throws InvalidArgument unless they exist, are
// listed once, and this rank is one of them.
std::unique_ptr<GroupState> new_group(std::string name, std::vector<int> ranks,
                                      const Membership& job, const JobHosts& hosts);

class GroupTable {
 public:
  using Map = std::unordered_map<Group, std::unique_ptr<GroupState>>;

  // What tells groups of the same name and ranks apart that are made one after another, so that a
  // message of an earlier one is never taken for one of a later one.
  struct Number {
    Group id = 0, first = 0;
    uint32_t life = 0;
  };

  const Map& all() const { return groups_; }
  GroupState* find(Group id) const;  // null: there is none
  GroupState& at(Group id) const;    // InvalidArgument: it does not exist or was removed

  // Throws InvalidArgument where these ranks have a group of this name.
  Number number(std::string_view name, const std::vector<int>& ranks) const;
  GroupState& insert(Group id, std::unique_ptr<GroupState> group);
  // The next group of the same name and ranks will have another number.
  void end_life(const GroupState& group) { lives_[group.first_number] = group.life + 1; }
  void erase(Group id);
  // Drops what operations of all groups wait for: the job has failed, and they will not go on.
  void stop();

  // Keeps the group `id`, whose memory an operation of `until` still uses, until release(until).
  void retire(Group id, Group until) { retiring_[until] = std::move(groups_.at(id)); }
  bool release(Group until) { return retiring_.erase(until) > 0; }

  // One of the last kRemembered groups that were erased: their messages may still be on the way.
  bool was_erased(Group id) const;
  // Keeps a message of a group that this rank has not made. False: there are more than kMostEarly,
  // so that it never will.
  bool keep_early(const Events::Arrival& arrival);
  std::vector<Events::Arrival> take_early(Group id);

  // Messages of groups that were removed, which nobody has received.
  void count_dropped(int64_t messages) { dropped_messages_ += messages; }
  int64_t dropped_messages() const { return dropped_messages_; }

  static constexpr size_t kRemembered = 1024;
  static constexpr size_t kMostEarly = 1 << 20;

 private:
  Map groups_, retiring_;
  std::unordered_map<Group, uint32_t> lives_;  // by first number: how many such groups were removed
  std::deque<Group> erased_;
  std::unordered_map<Group, std::vector<Events::Arrival>> early_;
  size_t early_count_ = 0;
  int64_t dropped_messages_ = 0;
};

}  // namespace stretto::comm
