#include "stretto/comm/simulate/operation.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <memory>

#include "stretto/base/error.h"
#include "stretto/comm/simulate/network.h"
#include "stretto/comm/simulate/unit_shape.h"

namespace stretto::comm {
namespace {

class Player {
 public:
  Player(const Problem& problem, const Algorithm& algorithm, const OperationOptions& options)
      : problem_(problem), algorithm_(algorithm), options_(options) {}

  OperationRun run() {
    result_.algorithm = algorithm_.name;
    result_.units = unit_count(problem_);
    result_.estimate_s =
        estimate_s(problem_, algorithm_, options_.link, {options_.element_bytes, wire_bytes()});
    set_bounds();
    if (result_.units == 0) return result_;
    if (!few_enough()) return estimated();
    const auto steps =
        static_cast<int64_t>(shape_of_unit(problem_, algorithm_, 0, options_).steps.size());
    result_.played_units = std::clamp<int64_t>(options_.most_steps / steps, 1, result_.units);
    result_.seconds = play(result_.played_units);
    fill_result();
    const int64_t half = result_.played_units / 2;
    if (result_.played_units < result_.units && half > 0) {
      // Fewer units take less time by their pace; what fills and drains the window stays the same.
      const double pace =
          (result_.seconds - play(half)) / static_cast<double>(result_.played_units - half);
      result_.seconds += static_cast<double>(result_.units - result_.played_units) * pace;
    } else {
      result_.seconds *= left_out();
    }
    return result_;
  }

 private:
  struct Rank {
    int64_t next = 0;  // unit
    int64_t active = 0;
  };
  struct Unit {
    UnitShape shape;
    std::vector<uint16_t> waits;
    std::vector<bool> early;           // receives whose data came before the unit had begun
    std::vector<uint32_t> steps_left;  // by rank
    int ranks_left = 0;
  };

  // All units for each that was played.
  double left_out() const {
    return static_cast<double>(result_.units) / static_cast<double>(result_.played_units);
  }

  // Plays the first units, and returns the time.
  double play(int64_t units) {
    network_ = std::make_unique<VirtualNetwork>(problem_.host.hosts(), options_.link);
    ranks_.assign(static_cast<size_t>(problem_.ranks()), {});
    played_ = units;
    units_.clear();
    first_unit_ = 0;
    for (int rank = 0; rank < problem_.ranks(); ++rank) start_units(rank);
    VirtualNetwork::Event event;
    while (network_->next(&event)) take(event);
    for (const Rank& rank : ranks_)
      STRETTO_CHECK(rank.next == played_ && rank.active == 0, "{} of {} ranks never gets done",
                    algorithm_.name, problem_.ranks());
    return network_->now_s();
  }

  int64_t unit_bytes() const {
    return static_cast<int64_t>(static_cast<double>(problem_.unit) * options_.element_bytes);
  }

  // Of an element between hosts.
  double wire_bytes() const {
    return problem_.coded ? options_.codec->wire_bytes() : options_.element_bytes;
  }

  // Through some card, each way, for m hosts of up to k ranks.
  double bound_elements(double m, double k) const {
    const auto count = static_cast<double>(problem_.count);
    switch (problem_.kind) {
      case Collective::kAllReduce:
        return 2 * (m - 1) / m * count;
      case Collective::kBroadcast:
      case Collective::kReduce:
        return count;
      case Collective::kAllToAll:
        return k * (problem_.ranks() - k) * count;
      default:
        return (m - 1) / m * count * problem_.ranks();
    }
  }

  void set_bounds() {
    const Hosts& hosts = problem_.host.hosts();
    if (hosts.count() == 1) return;
    result_.bound_bytes = bound_elements(hosts.count(), hosts.largest()) * wire_bytes();
    result_.bound_s = options_.link.wire_latency_s + options_.link.wire_message_s +
                      result_.bound_bytes * options_.link.wire_byte_s;
  }

  // The first rank and one in the middle have about as many steps as the others.
  bool few_enough() const {
    Problem p = problem_;
    size_t most = 0;
    for (const int rank : {0, problem_.ranks() / 2}) {
      p.rank = rank;
      most = std::max(most, algorithm_.schedule(p, 0).steps.size());
    }
    return static_cast<int64_t>(most) * problem_.ranks() <= options_.most_steps;
  }

  OperationRun estimated() {
    Cost cost = algorithm_.cost(problem_);
    const auto units = static_cast<double>(result_.units);
    result_.seconds = result_.estimate_s;
    result_.card_bytes = cost.wire_elements * wire_bytes();
    result_.card_messages = cost.wire_messages * units;
    return result_;
  }

  Unit& unit(int64_t index) {
    while (first_unit_ + static_cast<int64_t>(units_.size()) <= index) {
      auto made = std::make_unique<Unit>();
      const int64_t number = first_unit_ + static_cast<int64_t>(units_.size());
      made->shape = shape_of_unit(problem_, algorithm_, number, options_);
      const UnitShape& s = made->shape;
      result_.peers = std::max(result_.peers, s.most_peers());
      made->waits.reserve(s.steps.size());
      for (const UnitShape::Step& step : s.steps) made->waits.push_back(step.waits);
      made->early.resize(s.steps.size());
      made->ranks_left = problem_.ranks();
      for (size_t r = 0; r < ranks_.size(); ++r)
        made->steps_left.push_back(s.first_step[r + 1] - s.first_step[r]);
      units_.push_back(std::move(made));
    }
    return *units_[static_cast<size_t>(index - first_unit_)];
  }

  const UnitShape& shape(int64_t index) { return unit(index).shape; }

  // Like Units::advance of the engine.
  void start_units(int rank) {
    Rank& r = ranks_[rank];
    while (r.next < played_ && unit_may_start(r.active, unit_bytes(), options_.window_bytes)) {
      r.active += window_share(unit_bytes());
      const int64_t index = r.next++;
      const UnitShape& s = shape(index);
      Unit& u = unit(index);
      if (u.steps_left[rank] == 0) {
        finish(index, rank);
        continue;
      }
      for (uint32_t i = s.first_step[rank]; i < s.first_step[rank + 1]; ++i) {
        if (s.steps[i].waits != 0) continue;
        if (s.steps[i].action != Action::kReceive) {
          execute(index, i);
        } else if (u.early[i]) {
          early_.push_back({index, i});
        }
      }
    }
    // Ends steps only now, because that may start units of this rank.
    while (!early_.empty()) {
      const auto [index, step] = early_.back();
      early_.pop_back();
      done(index, step);
    }
  }

  void execute(int64_t index, uint32_t step) {
    const UnitShape& s = shape(index);
    const UnitShape::Step& it = s.steps[step];
    const uint64_t number = static_cast<uint64_t>(index) << 32 | step;
    if (it.action == Action::kSend)
      network_->send(s.rank[step], it.peer, static_cast<double>(it.work), number);
    else
      network_->compute(s.rank[step], static_cast<double>(it.work), number);
  }

  void take(const VirtualNetwork::Event& event) {
    const auto index = static_cast<int64_t>(event.number >> 32);
    auto step = static_cast<uint32_t>(event.number);
    if (event.kind == VirtualNetwork::Event::Kind::kDelivered) {
      step = shape(index).steps[step].taker;
      if (index >= ranks_[event.rank].next) {
        unit(index).early[step] = true;
        return;
      }
    }
    done(index, step);
  }

  void done(int64_t index, uint32_t step) {
    const UnitShape& s = shape(index);
    Unit& u = unit(index);
    const int rank = s.rank[step];
    for (uint32_t f = s.steps[step].first_follower; f < s.steps[step + 1].first_follower; ++f)
      if (--u.waits[s.followers[f]] == 0) execute(index, s.followers[f]);
    if (--u.steps_left[rank] > 0) return;
    finish(index, rank);
    start_units(rank);
  }

  void finish(int64_t index, int rank) {
    ranks_[rank].active -= window_share(unit_bytes());
    Unit& u = unit(index);
    if (--u.ranks_left > 0) return;
    while (!units_.empty() && units_.front()->ranks_left == 0) {
      units_.pop_front();
      ++first_unit_;
    }
  }

  void fill_result() {
    for (const VirtualNetwork::Card& card : network_->cards()) {
      result_.card_bytes = std::max({result_.card_bytes, card.sent_bytes, card.received_bytes});
      result_.card_messages =
          std::max({result_.card_messages, static_cast<double>(card.sent_messages),
                    static_cast<double>(card.received_messages)});
    }
    for (const int64_t sent : network_->sent_by_rank()) {
      result_.messages += static_cast<double>(sent);
      result_.rank_messages = std::max(result_.rank_messages, static_cast<double>(sent));
    }
    for (double* value :
         {&result_.card_bytes, &result_.card_messages, &result_.messages, &result_.rank_messages})
      *value *= left_out();
  }

  const Problem& problem_;
  const Algorithm& algorithm_;
  const OperationOptions& options_;
  std::unique_ptr<VirtualNetwork> network_;
  std::vector<Rank> ranks_;
  int64_t played_ = 0;
  std::deque<std::unique_ptr<Unit>> units_;  // from first_unit_ on
  int64_t first_unit_ = 0;
  std::vector<std::pair<int64_t, uint32_t>> early_;
  OperationRun result_;
};

}  // namespace

OperationRun simulate_operation(const Problem& problem, const Algorithm& algorithm,
                                const OperationOptions& options) {
  validate(problem);
  if (!problem.counts.empty())
    throw_unsupported("simulate: blocks of different sizes are not simulated");
  if (problem.coded && options.codec == nullptr)
    throw_invalid("simulate: a coded problem needs a codec");
  const std::string reason = algorithm.unfit(problem);
  if (!reason.empty()) throw_unsupported("simulate: {}: {}", algorithm.name, reason);
  return Player(problem, algorithm, options).run();
}

int64_t bytes_of(const Step& step, int64_t element_bytes, const Codec* codec) {
  return step.place.buffer == Buffer::kCoded ? codec->encoded_bytes(step.count)
                                             : step.count * element_bytes;
}

std::vector<RankTraffic> count_traffic(const Problem& problem, const Algorithm& algorithm,
                                       int64_t element_bytes, const Codec* codec) {
  std::vector<RankTraffic> traffic(static_cast<size_t>(problem.ranks()));
  Problem p = problem;
  for (int rank = 0; rank < problem.ranks(); ++rank) {
    p.rank = rank;
    for (int64_t unit = 0; unit < unit_count(p); ++unit)
      for (const Step& step : algorithm.schedule(p, unit).steps) {
        if (step.action != Action::kSend) continue;
        traffic[rank].bytes += bytes_of(step, element_bytes, codec);
        ++traffic[rank].messages;
      }
  }
  return traffic;
}

}  // namespace stretto::comm
