// Who makes room: the jobs whose end throws away the least work.
#include <algorithm>
#include <array>

#include "stretto/base/error.h"
#include "stretto/cluster/simulate/engine.h"

namespace stretto::cluster {

bool Engine::may_preempt(const Shape& shape) const {
  if (shape.preempts) {
    for (size_t q = 0; q < site_.queues.size(); ++q) {
      if (site_.queues[q].priority < shape.priority && running_of_queue_[q] > 0) return true;
    }
  }
  for (size_t r = 0; r < guests_in_.size(); ++r) {
    if (((shape.owns >> r) & 1) != 0 && guests_in_[r] > 0) return true;
  }
  return false;
}

bool Engine::is_victim(const Shape& shape, const Running& running, int region) const {
  const Shape& other = shapes_[shape_of_[static_cast<size_t>(running.job)]];
  if (shape.preempts && other.priority < shape.priority) return true;
  return ((shape.owns >> region) & 1) != 0 && ((other.owns >> region) & 1) == 0 &&
         other.priority <= shape.priority;
}

int64_t Engine::loss_of(int slot) const {
  const Running& running = running_[static_cast<size_t>(slot)];
  const int64_t elapsed = now_ms_ - running.start_ms;
  int64_t milli = 0;
  for (const Taken& taken : running.parts) milli += taken.need.chip_milli();
  return milli * (options_.checkpoint_ms > 0 ? elapsed % options_.checkpoint_ms : elapsed);
}

// The victims on one node, so that the need fits there. Those that threw away least go first; then
// whoever need not go stays.
Engine::Sacrifice Engine::sacrifice_on(const Shape& shape, const Need& need, int node) const {
  const int region = nodes_.class_of(node).region;
  std::vector<std::pair<int64_t, int>> victims;  // loss and slot
  for (const int slot : on_node_[static_cast<size_t>(node)]) {
    if (is_victim(shape, running_[static_cast<size_t>(slot)], region)) {
      victims.emplace_back(loss_of(slot), slot);
    }
  }
  std::ranges::sort(victims, [this](const auto& a, const auto& b) {
    if (a.first != b.first) return a.first < b.first;
    return running_[static_cast<size_t>(a.second)].job <
           running_[static_cast<size_t>(b.second)].job;
  });
  const auto fits_without = [&](const std::vector<std::pair<int64_t, int>>& gone) {
    std::array<int, kMostChips> milli;
    std::ranges::copy(nodes_.chips(node), milli.begin());
    int cores = nodes_.cores_milli(node);
    int64_t memory = nodes_.memory_mb(node);
    for (const auto& [loss, slot] : gone) {
      for (const Taken& taken : running_[static_cast<size_t>(slot)].parts) {
        if (taken.node != node) continue;
        cores += taken.need.cores_milli;
        memory += taken.need.memory_mb;
        for (int i = 0; i < kMostChips; ++i) {
          if (((taken.chips >> i) & 1) != 0) milli[static_cast<size_t>(i)] += taken.need.milli;
        }
      }
    }
    if (need.cores_milli > cores) return false;
    if (need.memory_mb > memory && nodes_.class_of(node).memory_mb != 0) return false;
    int roomy = 0;
    for (int i = 0; i < nodes_.class_of(node).chips; ++i) {
      roomy += milli[static_cast<size_t>(i)] >= need.milli;
    }
    return roomy >= need.chips;
  };
  std::vector<std::pair<int64_t, int>> gone;
  for (const auto& victim : victims) {
    if (fits_without(gone)) break;
    gone.push_back(victim);
  }
  if (!fits_without(gone)) return {};
  for (size_t i = gone.size(); i-- > 0;) {  // the dearest first
    std::vector<std::pair<int64_t, int>> fewer = gone;
    fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(i));
    if (fits_without(fewer)) gone = std::move(fewer);
  }
  Sacrifice sacrifice{.loss = 0};
  for (const auto& [loss, slot] : gone) {
    sacrifice.loss += loss;
    sacrifice.slots.push_back(slot);
  }
  return sacrifice;
}

Engine::Sacrifice Engine::best_sacrifice(const Shape& shape) const {
  Sacrifice best;
  const auto consider = [&best](Sacrifice other) {
    if (other.loss < 0) return;
    if (best.loss < 0 ||
        std::pair(other.loss, other.slots.size()) < std::pair(best.loss, best.slots.size())) {
      best = std::move(other);
    }
  };
  const auto each_node = [&](int c, auto&& found) {
    const NodeClass& nodes = map_.classes[static_cast<size_t>(c)];
    for (int node = nodes.first; node < nodes.first + nodes.count; ++node) found(node);
  };
  for (const std::vector<int>& classes : shape.stages) {
    for (const int c : classes) {
      each_node(c, [&](int node) { consider(sacrifice_on(shape, shape.need, node)); });
    }
  }
  for (const Pool& pool : shape.pools) {
    const Parts parts = parts_of(shape.need, pool.chips);
    const size_t wanted = static_cast<size_t>(parts.full) + (parts.rest.chips > 0);
    std::vector<std::pair<int64_t, int>> nodes;  // loss and node
    for (const int c : pool.classes) {
      each_node(c, [&](int node) {
        const int64_t loss = sacrifice_on(shape, parts.each, node).loss;
        if (loss >= 0) nodes.emplace_back(loss, node);
      });
    }
    if (nodes.size() < wanted) continue;
    std::ranges::sort(nodes);
    Sacrifice together{.loss = 0};
    for (size_t i = 0; i < wanted; ++i) {
      for (const int slot : sacrifice_on(shape, parts.each, nodes[i].second).slots) {
        if (std::ranges::find(together.slots, slot) != together.slots.end()) continue;
        together.loss += loss_of(slot);
        together.slots.push_back(slot);
      }
    }
    consider(std::move(together));
  }
  return best;
}

void Engine::stop(int slot) {
  Running& running = running_[static_cast<size_t>(slot)];
  const int j = running.job;
  const int64_t elapsed = now_ms_ - running.start_ms;
  const int64_t kept = options_.checkpoint_ms > 0 ? elapsed - elapsed % options_.checkpoint_ms : 0;
  meter_.add_loss(loss_of(slot));
  if (kept > 0) {
    saved_ms_[j] += static_cast<int64_t>(static_cast<double>(kept) / running.slowness);
  }
  ++times_[static_cast<size_t>(j)].preemptions;
  release(slot);
  if (map_.cancels) {
    ++result_.cancelled;
  } else {
    add_waiting(j);
  }
}

bool Engine::preempt_for(int j) {
  const Shape& shape = shape_of(j);
  const Sacrifice sacrifice = best_sacrifice(shape);
  if (sacrifice.slots.empty()) return false;
  for (const int slot : sacrifice.slots) stop(slot);
  const bool started = start_if_fits(j);
  STRETTO_CHECK(started, "job {} does not fit after others made room", j);
  return true;
}

}  // namespace stretto::cluster
