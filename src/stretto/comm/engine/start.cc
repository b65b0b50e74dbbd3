// Starts operations that have been submitted: from a plan to units.
#include <algorithm>

#include "stretto/comm/engine/codec_choice.h"
#include "stretto/comm/engine/input_search.h"
#include "stretto/comm/engine/inside.h"

namespace stretto::comm {

// What ranks do for it, which other ranks do not know of yet.
void EngineImpl::plan(GroupState& state, OpenOperation* open) {
  choose_codec(*open, options_, &residuals_);
  const Operation& op = open->operation;
  if (state.tuning) open->settings = state.tuning->settings;
  open->searches = is_searched_by_steps(*open, options_);
  use_plan(*open, plan_of(state, op, open->codec, open->settings.get(), open->searches, options_));
}

// From here on other ranks count on it.
void EngineImpl::begin_collective(GroupState& state, OpenOperation* open) {
  const Operation& op = open->operation;
  open->sequence = state.next_sequence++;
  open->fingerprint = options_.order_check ? fingerprint(*open) : 0;
  if (is_searched(op, options_) && search_before_begin(*open, state.ranks.size(), isa_) &&
      options_.nan_check == NanCheck::kStop)
    stop_for_non_finite(*open);
  if (ending_->has_begun()) return;
  if (options_.order_check) {
    const auto other = note_begun(state.order, open->sequence, open->fingerprint, op);
    if (other) on_mismatch(*other, {.group = open->group, .sequence = open->sequence});
  }
  if (may_fuse(*open, state, options_)) {
    state.fusion.waiting.push_back(open);
    start_small(state);
    return;
  }
  state.waiting.push_back(open);
  units_->advance(state);
}

void EngineImpl::begin_message(GroupState& state, OpenOperation* open) {
  if (open->operation.kind == Kind::kSend) {
    number_send(state.point_to_point, *open);
  } else if (!match_receive(state.point_to_point, *open)) {
    return;
  }
  units_->start_point_to_point(open, open->operation.peer);
}

void EngineImpl::start_small(GroupState& state) {
  Fusion& fusion = state.fusion;
  const size_t count = count_next(fusion, options_.fuse_bytes);
  if (count == 0) return;
  OpenOperation* open = fusion.waiting.front();
  const uint64_t last = fusion.waiting[count - 1]->sequence;
  if (count > 1) {
    fusion.carrier = join(fusion, count);
    open = fusion.carrier.get();
    use_plan(*open,
             plan_of(state, open->operation, nullptr, open->settings.get(), false, options_));
    if (options_.order_check) {
      const auto other = note_joined(state.order, open->sequence, open->fingerprint);
      if (other)
        on_mismatch(*other, {.group = open->group, .sequence = open->sequence, .unit = kJoined});
    }
  }
  open->ahead = static_cast<int32_t>(std::min<uint64_t>(state.next_sequence - 1 - last, 1 << 20));
  fusion.waiting.erase(fusion.waiting.begin(),
                       fusion.waiting.begin() + static_cast<ptrdiff_t>(count));
  fusion.under_way = open;
  state.waiting.push_back(open);
  units_->advance(state);
}

}  // namespace stretto::comm
