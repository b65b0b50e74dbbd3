#include "stretto/comm/simulate/unit_shape.h"

#include <algorithm>
#include <limits>
#include <tuple>

#include "stretto/base/error.h"

namespace stretto::comm {
namespace {

struct Transfer {
  int32_t from, to, tag;
  uint32_t step;
  int64_t count;

  auto key() const { return std::tie(from, to, tag); }
  bool operator<(const Transfer& other) const { return key() < other.key(); }
};

float work_of(const Schedule& schedule, const Step& step, const OperationOptions& options) {
  const double bytes = static_cast<double>(step.count) * options.element_bytes;
  switch (step.action) {
    case Action::kSend:
      return static_cast<float>(
          bytes_of(step, static_cast<int64_t>(options.element_bytes), options.codec));
    case Action::kReduce: {
      const auto sources = schedule.sources(step);
      const auto coded = std::count_if(sources.begin(), sources.end(), [](const Source& source) {
        return source.place.buffer == Buffer::kCoded;
      });
      return static_cast<float>(bytes *
                                (static_cast<double>(sources.size()) * options.link.sum_byte_s +
                                 static_cast<double>(coded) * options.codec_byte_s));
    }
    case Action::kCopy:
      return static_cast<float>(bytes * options.link.local_byte_s);
    case Action::kEncode:
      // A result is decoded again, so that all ranks have the same.
      return static_cast<float>(bytes * options.codec_byte_s * (step.result ? 2 : 1));
    case Action::kDecode:
      return static_cast<float>(bytes * options.codec_byte_s);
    case Action::kReceive:
      break;
  }
  return 0;
}

void append(UnitShape* shape, const Schedule& schedule, const OperationOptions& options) {
  const auto base = static_cast<uint32_t>(shape->steps.size());
  std::vector<uint32_t> counts(schedule.steps.size() + 1);
  for (const Step& step : schedule.steps)
    for (const int32_t before : schedule.waits(step)) ++counts[before];
  uint32_t next = static_cast<uint32_t>(shape->followers.size());
  for (size_t i = 0; i < schedule.steps.size(); ++i) {
    const Step& step = schedule.steps[i];
    STRETTO_CHECK(step.wait_count <= std::numeric_limits<uint16_t>::max(), "a step with {} waits",
                  step.wait_count);
    shape->steps.push_back({.action = step.action,
                            .waits = static_cast<uint16_t>(step.wait_count),
                            .peer = step.peer,
                            .work = work_of(schedule, step, options),
                            .first_follower = next});
    next += counts[i];
  }
  shape->followers.resize(next);
  std::vector<uint32_t> at(schedule.steps.size());
  for (size_t i = 0; i < at.size(); ++i) at[i] = shape->steps[base + i].first_follower;
  for (size_t i = 0; i < schedule.steps.size(); ++i)
    for (const int32_t before : schedule.waits(schedule.steps[i]))
      shape->followers[at[before]++] = base + static_cast<uint32_t>(i);
}

void match(UnitShape* shape, std::vector<Transfer>* sends, std::vector<Transfer>* receives) {
  std::sort(sends->begin(), sends->end());
  std::sort(receives->begin(), receives->end());
  STRETTO_CHECK(sends->size() == receives->size(), "{} messages for {} receivers", sends->size(),
                receives->size());
  for (size_t i = 0; i < sends->size(); ++i) {
    const Transfer &s = (*sends)[i], &r = (*receives)[i];
    STRETTO_CHECK(s.key() == r.key() && s.count == r.count,
                  "rank {} sends {} elements to {} with tag {}; rank {} takes {} from {} with {}",
                  s.from, s.count, s.to, s.tag, r.to, r.count, r.from, r.tag);
    shape->steps[s.step].taker = r.step;
  }
}

}  // namespace

UnitShape shape_of_unit(const Problem& problem, const Algorithm& algorithm, int64_t unit,
                        const OperationOptions& options) {
  UnitShape shape;
  Problem p = problem;
  std::vector<Transfer> sends, receives;
  for (int rank = 0; rank < problem.ranks(); ++rank) {
    p.rank = rank;
    const auto base = static_cast<uint32_t>(shape.steps.size());
    const Schedule schedule = algorithm.schedule(p, unit);
    shape.first_step.push_back(base);
    append(&shape, schedule, options);
    for (size_t i = 0; i < schedule.steps.size(); ++i) {
      const Step& s = schedule.steps[i];
      const uint32_t at = base + static_cast<uint32_t>(i);
      if (s.action == Action::kSend) sends.push_back({rank, s.peer, s.tag, at, s.count});
      if (s.action == Action::kReceive) receives.push_back({s.peer, rank, s.tag, at, s.count});
    }
    shape.rank.resize(shape.steps.size(), rank);
  }
  shape.first_step.push_back(static_cast<uint32_t>(shape.steps.size()));
  shape.steps.push_back({.first_follower = static_cast<uint32_t>(shape.followers.size())});
  match(&shape, &sends, &receives);
  return shape;
}

int UnitShape::most_peers() const {
  size_t most = 0;
  std::vector<int32_t> peers;
  for (size_t r = 0; r + 1 < first_step.size(); ++r) {
    peers.clear();
    for (uint32_t i = first_step[r]; i < first_step[r + 1]; ++i)
      if (steps[i].action == Action::kSend) peers.push_back(steps[i].peer);
    std::sort(peers.begin(), peers.end());
    peers.erase(std::unique(peers.begin(), peers.end()), peers.end());
    most = std::max(most, peers.size());
  }
  return static_cast<int>(most);
}

}  // namespace stretto::comm
