// Which samples each batch of a loader has, and who fetches them ahead.
#include <algorithm>
#include <utility>

#include "stretto/data/loader_impl.h"
#include "stretto/data/remote.h"

namespace stretto::data {
namespace {

const Shape& phase_shape(const std::vector<Phase>& phases, int64_t epoch) {
  const auto after =
      std::upper_bound(phases.begin(), phases.end(), epoch,
                       [](int64_t e, const Phase& phase) { return e < phase.epoch; });
  return std::prev(after)->shape;
}

}  // namespace

Cut epoch_cut(const LoaderOptions& options, int64_t epoch) {
  Cut cut{.batch = phase_shape(options.phases, epoch).batch,
          .rank = options.rank,
          .world = options.world,
          .last = options.last};
  if (options.divided) {
    cut.all = cut.batch;
    cut.first = cut.all * cut.rank / cut.world;
    cut.batch = std::max<int64_t>(1, cut.all * (cut.rank + 1) / cut.world - cut.first);
  }
  return cut;
}

const Shape& Loader::Impl::shape_of(int64_t epoch) const {
  return phase_shape(options.phases, epoch);
}

Cut Loader::Impl::cut_of(int64_t epoch) const { return epoch_cut(options, epoch); }

Cut Loader::Impl::cut_at(int64_t epoch, int64_t place) const {
  Cut cut = cut_of(epoch);
  for (const Division& each : divisions) {
    if (std::pair(each.epoch, each.place) > std::pair(epoch, place)) break;
    cut.first = each.first;
    cut.batch = each.count;
  }
  return cut;
}

// With copies: those who fetch may still look ahead when the loader is gone.
Lookahead::Plan Loader::Impl::lookahead_plan(int64_t begin) const {
  return {.places = places,
          .order =
              [order = options.order, size = source.dataset.size()](int64_t epoch) {
                return std::make_shared<const Order>(order, size, epoch % kEpochs);
              },
          .cut = [o = options](int64_t epoch) { return epoch_cut(o, epoch % kEpochs); },
          .masks = options.masks,
          .begin = begin};
}

void Loader::Impl::tell_position() {
  const BatchPlan& plan = jobs.empty() ? planned : jobs.front()->plan;
  for (const auto& [fetcher, ahead] : lookaheads) {
    ahead->move_to(plan.epoch, plan.begin);
    fetcher->moved();
  }
}

std::shared_ptr<const Order> Loader::Impl::order_of(int64_t epoch) const {
  return std::make_shared<const Order>(options.order, source.dataset.size(), epoch);
}

BatchPlan Loader::Impl::plan_at(int64_t epoch, int64_t place, const BatchPlan* like) const {
  BatchPlan plan{.epoch = epoch, .begin = place, .cut = cut_at(epoch, place)};
  plan.order = like != nullptr && like->epoch == epoch ? like->order : order_of(epoch);
  if (batches_of(plan.order->size(), plan.cut, place) == 0) {
    plan = {.epoch = (epoch + 1) % kEpochs, .begin = 0, .cut = cut_at((epoch + 1) % kEpochs, 0)};
    plan.order = order_of(plan.epoch);
  }
  plan.shape = &shape_of(plan.epoch);
  return plan;
}

void Loader::Impl::follow_order() {
  const std::vector<RemotePart> remote = remote_parts(source.dataset);
  for (const RemotePart& part : remote) {
    auto ahead = std::make_shared<Lookahead>(part.dataset, lookahead_plan(part.begin));
    lookaheads.emplace_back(part.dataset.fetcher(), ahead);
    part.dataset.fetcher()->follow(std::move(ahead), part.dataset);
  }
  for (const RemotePart& part : remote) {
    Fetcher& mine = *part.dataset.fetcher();
    for (size_t k = 0; k < remote.size(); ++k) {
      const auto& [other, ahead] = lookaheads[k];
      if (other.get() == &mine || other->folder() != mine.folder()) continue;
      mine.follow_beside(ahead, remote[k].dataset, other);
    }
  }
}

void Loader::Impl::unfollow_order() noexcept {
  for (const auto& [fetcher, _] : lookaheads) {
    for (const auto& [other, ahead] : lookaheads) fetcher->unfollow(ahead.get());
  }
}

}  // namespace stretto::data
