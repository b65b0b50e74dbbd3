#include "stretto/comm/collective/simulator.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <stdexcept>
#include <tuple>

#include "stretto/comm/collective/builder.h"
#include "stretto/comm/collective/local_step.h"

namespace stretto::comm {
namespace {

// A rank's work on one unit.
struct Unit {
  Schedule schedule;
  std::vector<int> waiting_for;
  std::vector<std::vector<int32_t>> dependents;
  std::vector<int> depth;  // messages in the longest chain that led to the step
  size_t open_steps = 0;
  std::vector<std::byte> scratch;
  std::vector<std::vector<std::byte>> slot_memory;
  std::vector<std::byte*> slots;
};

struct Message {
  std::vector<std::byte> payload;
  int64_t count = 0;
  int depth = 0;
};

struct Event {
  enum Kind { kRun, kEndSend, kDeliver } kind;
  int rank;
  int64_t unit;
  int32_t step;
};

class Simulator {
 public:
  Simulator(const Algorithm& algorithm, std::vector<SimulatedRank>& ranks,
            const SimulatorOptions& options, std::mt19937& random)
      : algorithm_(algorithm), ranks_(ranks), options_(options), random_(random) {
    for (const SimulatedRank& rank : ranks) {
      validate(rank.problem);
      units_.emplace_back(static_cast<size_t>(unit_count(rank.problem)));
      started_.push_back(0);
      open_units_.push_back(0);
    }
    hosts_ = ranks[0].problem.host.hosts();
    traffic_.sent.resize(static_cast<size_t>(hosts_.count()));
    for (auto* counts : {&traffic_.received, &traffic_.messages_sent, &traffic_.messages_received})
      counts->resize(traffic_.sent.size());
  }

  SimulatedTraffic run() {
    for (int rank = 0; rank < static_cast<int>(ranks_.size()); ++rank) start_units(rank);
    while (!events_.empty()) {
      std::swap(events_[random_() % events_.size()], events_.back());
      const Event event = events_.back();
      events_.pop_back();
      if (event.kind == Event::kRun) run_step(event);
      if (event.kind == Event::kEndSend) end_send(event);
      if (event.kind == Event::kDeliver) deliver(event);
    }
    for (size_t rank = 0; rank < ranks_.size(); ++rank)
      if (open_units_[rank] != 0 || started_[rank] != units_[rank].size())
        throw std::runtime_error("rank " + std::to_string(rank) + " never gets done");
    if (!in_flight_.empty()) throw std::runtime_error("a message that nobody takes");
    return traffic_;
  }

 private:
  using Key = std::tuple<int64_t, int, int, int>;  // unit, from, to, tag

  Unit& unit(const Event& event) { return *units_[event.rank][event.unit]; }

  void start_units(int rank) {
    while (open_units_[rank] < options_.units_in_flight && started_[rank] < units_[rank].size()) {
      const auto index = static_cast<int64_t>(started_[rank]++);
      ++open_units_[rank];
      units_[rank][index] = std::make_unique<Unit>();
      pay_residual(ranks_[rank], index);
      start(rank, index, *units_[rank][index]);
    }
  }

  void pay_residual(const SimulatedRank& r, int64_t unit) {
    if (r.residual == nullptr) return;
    const Part part = unit_of_tensor(r.problem, unit);
    add_residual(reinterpret_cast<const float*>(r.input) + part.begin, r.residual + part.begin,
                 part.count(), reinterpret_cast<float*>(r.output) + part.begin);
  }

  void start(int rank, int64_t index, Unit& u) {
    u.schedule = algorithm_.schedule(ranks_[rank].problem, index);
    const Schedule& s = u.schedule;
    u.open_steps = s.steps.size();
    u.waiting_for.resize(s.steps.size());
    u.dependents.resize(s.steps.size());
    u.depth.resize(s.steps.size());
    u.scratch.resize(static_cast<size_t>(s.scratch_elements) * dtype_bytes(options_.dtype));
    for (const int64_t count : s.coded_slots)
      u.slot_memory.emplace_back(static_cast<size_t>(options_.codec->encoded_bytes(count)));
    for (auto& memory : u.slot_memory) u.slots.push_back(memory.data());
    for (int32_t i = 0; i < static_cast<int32_t>(s.steps.size()); ++i) {
      const Step& step = s.steps[i];
      for (const int32_t wait : s.waits(step)) {
        if (wait >= i) throw std::runtime_error("a step waits for a later one");
        ++u.waiting_for[i];
        u.dependents[wait].push_back(i);
      }
      if (step.action == Action::kReceive) {
        if (step.wait_count != 0) throw std::runtime_error("a receive waits");
        const Key key{index, step.peer, rank, step.tag};
        if (!expected_.emplace(key, i).second) throw std::runtime_error("two receives of one tag");
        if (in_flight_.count(key) != 0) events_.push_back({Event::kDeliver, rank, index, i});
      } else if (step.wait_count == 0) {
        events_.push_back({Event::kRun, rank, index, i});
      }
    }
    if (u.open_steps == 0) close(rank, index);
  }

  void close(int rank, int64_t index) {
    --open_units_[rank];
    units_[rank][index].reset();
    start_units(rank);
  }

  void run_step(const Event& event) {
    Unit& u = unit(event);
    const Step& step = u.schedule.steps[event.step];
    if (step.action == Action::kSend) {
      events_.push_back({Event::kEndSend, event.rank, event.unit, event.step});
      return;
    }
    run_local_step(u.schedule, step, buffers(event.rank, u),
                   {.isa = options_.isa,
                    .reduction = {.dtype = options_.dtype,
                                  .op = options_.op,
                                  .ranks = static_cast<int>(ranks_.size())},
                    .codec = options_.codec});
    done(event);
  }

  LocalBuffers buffers(int rank, Unit& u) {
    const SimulatedRank& r = ranks_[rank];
    return {.input = r.residual ? r.output : r.input,
            .output = r.output,
            .scratch = u.scratch.data(),
            .slots = u.slots,
            .residual = r.residual};
  }

  size_t wire_bytes(const Step& step) const {
    return step.place.buffer == Buffer::kCoded
               ? static_cast<size_t>(options_.codec->encoded_bytes(step.count))
               : static_cast<size_t>(step.count) * dtype_bytes(options_.dtype);
  }

  void end_send(const Event& event) {
    Unit& u = unit(event);
    const Step& step = u.schedule.steps[event.step];
    Message message{.count = step.count, .depth = u.depth[event.step] + 1};
    message.payload.resize(wire_bytes(step));
    if (!message.payload.empty()) {
      const std::byte* from = step.place.buffer == Buffer::kCoded
                                  ? u.slots[step.place.offset]
                                  : read_at(buffers(event.rank, u), step.place, options_.dtype);
      std::memcpy(message.payload.data(), from, message.payload.size());
    }
    const int a = hosts_.host[event.rank], b = hosts_.host[step.peer];
    if (a != b) {
      traffic_.sent[a] += static_cast<int64_t>(message.payload.size());
      traffic_.received[b] += static_cast<int64_t>(message.payload.size());
      ++traffic_.messages_sent[a];
      ++traffic_.messages_received[b];
    }
    ++traffic_.messages;
    traffic_.rounds = std::max(traffic_.rounds, message.depth);
    const Key key{event.unit, event.rank, step.peer, step.tag};
    if (!in_flight_.emplace(key, std::move(message)).second)
      throw std::runtime_error("two messages of one tag");
    const auto taker = expected_.find(key);
    if (taker != expected_.end())
      events_.push_back({Event::kDeliver, step.peer, event.unit, taker->second});
    done(event);
  }

  void deliver(const Event& event) {
    Unit& u = unit(event);
    const Step& step = u.schedule.steps[event.step];
    const auto found = in_flight_.find({event.unit, step.peer, event.rank, step.tag});
    const Message& message = found->second;
    if (message.count != step.count || message.payload.size() != wire_bytes(step))
      throw std::runtime_error("sender and receiver disagree about a size");
    if (!message.payload.empty()) {
      std::byte* to = step.place.buffer == Buffer::kCoded
                          ? u.slots[step.place.offset]
                          : write_at(buffers(event.rank, u), step.place, options_.dtype);
      std::memcpy(to, message.payload.data(), message.payload.size());
    }
    u.depth[event.step] = message.depth;
    in_flight_.erase(found);
    done(event);
  }

  void done(const Event& event) {
    Unit& u = unit(event);
    for (const int32_t next : u.dependents[event.step]) {
      u.depth[next] = std::max(u.depth[next], u.depth[event.step]);
      if (--u.waiting_for[next] == 0)
        events_.push_back({Event::kRun, event.rank, event.unit, next});
    }
    if (--u.open_steps == 0) close(event.rank, event.unit);
  }

  const Algorithm& algorithm_;
  std::vector<SimulatedRank>& ranks_;
  const SimulatorOptions& options_;
  std::mt19937& random_;
  Hosts hosts_;
  SimulatedTraffic traffic_;
  std::vector<std::vector<std::unique_ptr<Unit>>> units_;  // [rank][unit]
  std::vector<size_t> started_;
  std::vector<int> open_units_;
  std::vector<Event> events_;
  std::map<Key, Message> in_flight_;
  std::map<Key, int32_t> expected_;
};

// Sums into the output while a send may still read it.
Schedule forgets_a_wait(const Problem& p, int64_t unit) {
  Builder b(p);
  const Part part = unit_of_tensor(p, unit);
  const int peer = 1 - b.me;
  b.send(peer, 0, input(part.begin), part.count());
  const Place got = b.scratch(part.count());
  const int32_t received = b.receive(peer, 0, got, part.count());
  const Source both[] = {{input(part.begin)}, {got}};
  b.reduce(both, output(part.begin), part.count(), true, {&received, 1});
  return b.take();
}

Schedule sends_only(const Problem& p, int64_t) {
  Builder b(p);
  b.send(1 - b.me, 0, input(0), p.count);
  return b.take();
}

std::vector<SimulatedRank> two_in_place(std::vector<int32_t>& a, std::vector<int32_t>& b) {
  std::vector<SimulatedRank> ranks(2);
  for (int r = 0; r < 2; ++r) {
    auto* data = reinterpret_cast<std::byte*>((r == 0 ? a : b).data());
    ranks[r] = {{.rank = r, .host = {0, 1}, .count = 3, .exact = true}, data, data};
  }
  return ranks;
}

TEST(Simulator, FindsMissingWaits) {
  const Algorithm broken{"broken", nullptr, forgets_a_wait, nullptr};
  std::mt19937 random(1);
  int wrong = 0;
  for (int trial = 0; trial < 50; ++trial) {
    std::vector<int32_t> a = {1, 2, 3}, b = {10, 20, 30};
    auto ranks = two_in_place(a, b);
    simulate(broken, ranks, {.dtype = DType::kInt32}, random);
    wrong += a[0] != 11 || b[0] != 11;
  }
  EXPECT_GT(wrong, 0);
}

TEST(Simulator, RefusesMessagesThatNobodyTakes) {
  const Algorithm broken{"broken", nullptr, sends_only, nullptr};
  std::mt19937 random(1);
  std::vector<int32_t> a = {1, 2, 3}, b = a;
  auto ranks = two_in_place(a, b);
  EXPECT_THROW(simulate(broken, ranks, {.dtype = DType::kInt32}, random), std::runtime_error);
}

}  // namespace

int64_t SimulatedTraffic::busiest() const {
  return std::max(*std::max_element(sent.begin(), sent.end()),
                  *std::max_element(received.begin(), received.end()));
}

int64_t SimulatedTraffic::most_messages() const {
  return std::max(*std::max_element(messages_sent.begin(), messages_sent.end()),
                  *std::max_element(messages_received.begin(), messages_received.end()));
}

SimulatedTraffic simulate(const Algorithm& algorithm, std::vector<SimulatedRank>& ranks,
                          const SimulatorOptions& options, std::mt19937& random) {
  return Simulator(algorithm, ranks, options, random).run();
}

}  // namespace stretto::comm
