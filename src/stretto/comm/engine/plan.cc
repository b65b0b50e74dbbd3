#include "stretto/comm/engine/plan.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <map>
#include <numeric>
#include <utility>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "stretto/base/error.h"
#include "stretto/comm/collective/unit_size.h"
#include "stretto/comm/engine/state.h"

namespace stretto::comm {
namespace {

constexpr size_t kMaxPlans = 1024;  // kept per group
// Up to so many ranks all send to all when they agree on a setting: one round.
constexpr size_t kFewRanks = 16;

Collective collective_of(Kind kind) {
  switch (kind) {
    case Kind::kAllReduce:
      return Collective::kAllReduce;
    case Kind::kBroadcast:
      return Collective::kBroadcast;
    case Kind::kAllGather:
      return Collective::kAllGather;
    case Kind::kReduceScatter:
      return Collective::kReduceScatter;
    case Kind::kReduce:
      return Collective::kReduce;
    case Kind::kGather:
      return Collective::kGather;
    case Kind::kScatter:
      return Collective::kScatter;
    case Kind::kAllToAll:
      return Collective::kAllToAll;
    case Kind::kBarrier:
    case Kind::kSend:
    case Kind::kRecv:
      break;
  }
  return Collective::kBarrier;
}

// The block counts of one side; empty when all are equal.
struct Side {
  std::vector<int64_t> counts, displacements;
  bool packed() const {
    int64_t next = 0;
    for (size_t i = 0; i < counts.size(); ++i) {
      if (displacements[i] != next) return false;
      next += counts[i];
    }
    return true;
  }
  int64_t total() const { return std::accumulate(counts.begin(), counts.end(), int64_t{0}); }
};

Side blocks(const std::vector<int64_t>& counts, const std::vector<int64_t>& displacements,
            int64_t count, int size) {
  if (displacements.empty()) return {};
  Side side{counts, displacements};
  if (side.counts.empty()) side.counts.assign(static_cast<size_t>(size), count);
  return side;
}

void pack_pieces(OpenOperation* open) {
  open->packed_output.resize(static_cast<size_t>(bytes_of(*open)));
  std::byte* to = open->packed_output.data();
  open->input = open->output = to;
  for (const Piece& piece : open->pieces) {
    const size_t bytes = static_cast<size_t>(piece.count) * dtype_bytes(open->operation.dtype);
    std::memcpy(to, piece.input, bytes);
    to += bytes;
  }
}

void unpack_pieces(const OpenOperation& open) {
  const std::byte* from = open.packed_output.data();
  for (const Piece& piece : open.pieces) {
    const size_t bytes = static_cast<size_t>(piece.count) * dtype_bytes(open.operation.dtype);
    std::memcpy(piece.output, from, bytes);
    from += bytes;
  }
}

// Disjoint parts by where they begin, and the step that searches each.
using Searches = std::map<int64_t, std::pair<Part, int32_t>>;

// The first part that ends after `begin`.
Searches::const_iterator first_after(const Searches& searches, int64_t begin) {
  auto at = searches.upper_bound(begin);
  if (at != searches.begin() && std::prev(at)->second.first.end > begin) --at;
  return at;
}

// The parts of the input, and the first step that reads each. Empty when a step reads something
// that overlaps a part without being it, or two parts that nobody has read.
Searches first_reads(const Schedule& schedule) {
  Searches first;
  for (int32_t i = 0; i < std::ssize(schedule.steps); ++i) {
    const Step& step = schedule.steps[i];
    bool searches = false;
    const auto read = [&](Place place) {
      if (place.buffer != Buffer::kInput || step.count == 0) return true;
      const Part part{place.offset, place.offset + step.count};
      const auto at = first_after(first, part.begin);
      if (at != first.end() && at->first < part.end)
        return at->first == part.begin && at->second.first.end == part.end;
      first.emplace(part.begin, std::pair(part, i));
      return !std::exchange(searches, true);
    };
    bool simple = step.action != Action::kSend || read(step.place);
    for (const Source& source : schedule.sources(step)) simple = simple && read(source.place);
    if (!simple) return {};
  }
  return first;
}

// By step: what is received into the part that it searches.
std::vector<std::vector<int32_t>> receives_after(const Schedule& schedule,
                                                 const Searches& searches) {
  std::vector<std::vector<int32_t>> after(schedule.steps.size());
  for (int32_t i = 0; i < std::ssize(schedule.steps); ++i) {
    const Step& step = schedule.steps[i];
    if (step.action != Action::kReceive || step.place.buffer != Buffer::kOutput) continue;
    const int64_t end = step.place.offset + step.count;
    for (auto at = first_after(searches, step.place.offset);
         at != searches.end() && at->first < end; ++at)
      after[at->second.second].push_back(i);
  }
  return after;
}

}  // namespace

UnitPlan::UnitPlan(Schedule s, bool searches) : schedule(std::move(s)) {
  const auto count = static_cast<int32_t>(schedule.steps.size());
  first_follower.assign(count + 1, 0);
  for (const Step& step : schedule.steps) {
    waits.push_back(step.wait_count);
    for (int32_t before : schedule.waits(step)) ++first_follower[before + 1];
  }
  for (int32_t i = 0; i < count; ++i) first_follower[i + 1] += first_follower[i];
  followers.resize(first_follower[count]);
  std::vector<int32_t> next(first_follower.begin(), first_follower.end() - 1);
  for (int32_t i = 0; i < count; ++i) {
    for (int32_t before : schedule.waits(schedule.steps[i])) followers[next[before]++] = i;
  }
  if (const Searches found = searches ? first_reads(schedule) : Searches(); !found.empty()) {
    searched.resize(count);
    for (const auto& [begin, search] : found) searched[search.second] = search.first;
    searched_before = receives_after(schedule, found);
    for (const auto& receives : searched_before) {
      for (const int32_t receive : receives) ++waits[receive];
    }
  }
  for (int32_t i = 0; i < count; ++i)
    if (waits[i] == 0) ready.push_back(i);
}

Group group_number(std::string_view name, const std::vector<int>& ranks, uint32_t life) {
  const uint64_t seed = XXH3_64bits_withSeed(name.data(), name.size(), life);
  return XXH3_64bits_withSeed(ranks.data(), ranks.size() * sizeof(int), seed);
}

uint64_t fingerprint(const Operation& op) {
  // `count` may differ between ranks where parts have different sizes.
  const bool uneven =
      op.kind == Kind::kAllToAll || !op.input_counts.empty() || !op.output_counts.empty();
  struct {
    int64_t count;
    int32_t root;
    uint8_t kind, dtype, reduction, zero;
  } text{uneven ? -1 : op.count,
         op.root,
         static_cast<uint8_t>(op.kind),
         static_cast<uint8_t>(op.dtype),
         reduces(op.kind) ? static_cast<uint8_t>(op.reduction) : uint8_t{0},
         0};
  if (op.kind == Kind::kBarrier) text = {.kind = static_cast<uint8_t>(op.kind)};
  const uint64_t hash =
      XXH3_64bits(&text, sizeof text) ^ XXH3_64bits_withSeed(op.codec.data(), op.codec.size(), 1);
  return hash == 0 ? 1 : hash;
}

uint64_t fingerprint(const OpenOperation& open) {
  uint64_t hash = fingerprint(open.operation);
  for (const Piece& piece : open.pieces) hash = hash * 31 + static_cast<uint64_t>(piece.count);
  // Ranks that cut the operation differently would wait for each other for ever.
  if (open.settings) hash += open.settings->generation << 1;
  return hash == 0 ? 1 : hash;
}

Problem make_problem(const Operation& op, const GroupState& group, const Codec* codec,
                     int64_t chunk_bytes, const LinkModel& link, int64_t unit_bytes) {
  Problem problem{.kind = collective_of(op.kind),
                  .rank = group.rank,
                  .host = group.placement,
                  .count = op.count,
                  .root = op.root};
  if (problem.kind == Collective::kBarrier) {
    problem.count = 0;
    return problem;
  }
  if (op.kind == Kind::kAllToAll) {
    problem.counts = op.input_counts;
    problem.receive_counts = op.output_counts;
    // If one side has counts, the other must have them too.
    if (problem.counts.empty() && !problem.receive_counts.empty())
      problem.counts.assign(group.ranks.size(), op.count);
    if (problem.receive_counts.empty() && !problem.counts.empty())
      problem.receive_counts.assign(group.ranks.size(), op.count);
  } else {
    problem.counts = op.input_counts.empty() ? op.output_counts : op.input_counts;
  }
  problem.exact = reduces(op.kind) && is_exact(op.dtype, op.reduction);
  problem.coded = codec != nullptr;
  problem.coded_sums = codec && codec->sums;
  problem.align = codec ? codec->block : 1;
  set_unit(&problem, static_cast<int64_t>(dtype_bytes(op.dtype)), chunk_bytes, link, unit_bytes);
  return problem;
}

std::shared_ptr<const OperationPlan> plan_of(GroupState& group, const Operation& op,
                                             const Codec* codec, const Settings* settings,
                                             bool searches, const Options& options) {
  const bool even = op.input_counts.empty() && op.output_counts.empty();
  const PlanKey key{op.kind, op.dtype, op.reduction, op.root, op.count, codec, searches};
  // Kept plans are those of the settings in use.
  const bool keeps = even && settings == (group.tuning ? group.tuning->settings.get() : nullptr);
  if (keeps) {
    if (const auto found = group.plans.find(key); found != group.plans.end()) return found->second;
  }
  auto plan = std::make_shared<OperationPlan>();
  const auto element = static_cast<int64_t>(dtype_bytes(op.dtype));
  // The result of a codec may depend on units and algorithm, so operations with one are not tuned.
  const bool tuned = settings && settings->tuned && op.kind == Kind::kAllReduce && !codec &&
                     op.count * element >= kTunedBytes;
  const LinkModel link = settings ? settings->link : LinkModel{};
  plan->problem = make_problem(op, group, codec, options.chunk_bytes, link,
                               tuned ? settings->step.unit_bytes : 0);
  const auto local = static_cast<double>(std::max<int64_t>(element, 1));
  const ElementBytes sizes{.local = local, .wire = codec ? codec->wire_bytes() : local};
  std::string_view forced = options.algorithm != "auto" && op.kind == Kind::kAllReduce
                                ? std::string_view(options.algorithm)
                                : "";
  if (tuned) {
    plan->streams = settings->step.streams;
    if (forced.empty()) forced = settings->step.algorithm;
  }
  // Greatest values are the same in any order, so few messages are enough for many ranks.
  if (group.internal && group.ranks.size() <= kFewRanks) forced = "gather_sum";
  plan->algorithm = !forced.empty() ? &find_algorithm(plan->problem, forced)
                                    : &choose_algorithm(plan->problem, link, sizes);
  const Cost cost = plan->algorithm->cost(plan->problem);
  plan->traffic = {.wire_bytes = cost.wire_elements * sizes.wire,
                   .wire_rounds = cost.wire_rounds,
                   .local_bytes = cost.local_elements * sizes.local,
                   .local_rounds = cost.local_rounds};
  if (unit_count(plan->problem) == 1)
    plan->whole = std::make_shared<UnitPlan>(plan->algorithm->schedule(plan->problem, 0), searches);
  if (!keeps) return plan;
  if (group.plans.size() == kMaxPlans) group.plans.clear();
  return group.plans[key] = plan;
}

void use_plan(OpenOperation& open, std::shared_ptr<const OperationPlan> shared) {
  const OperationPlan& plan = *shared;
  open.plan = std::move(shared);
  open.traffic = open.operation.kind == Kind::kAllReduce ? &plan.traffic : nullptr;
  open.problem = plan.problem;
  open.algorithm = plan.algorithm;
  open.whole = plan.whole;
  open.streams = plan.streams;
  open.units = unit_count(plan.problem);
  open.unit_bytes = plan.problem.unit * static_cast<int64_t>(dtype_bytes(open.operation.dtype));
}

void pack(OpenOperation* open, int rank, int size) {
  const Operation& op = open->operation;
  const size_t element = dtype_bytes(op.dtype);
  if (!open->pieces.empty()) {
    pack_pieces(open);
    return;
  }
  open->input = static_cast<const std::byte*>(op.input);
  open->output = static_cast<std::byte*>(op.output);
  if (op.kind == Kind::kBroadcast && rank == op.root && !open->output)
    open->output = const_cast<std::byte*>(
        open->input);  // input and output are the same memory, so nothing is copied
  const Side in = blocks(op.input_counts, op.input_displacements, op.count, size);
  if (!in.packed() && open->input) {
    open->packed_input.resize(static_cast<size_t>(in.total()) * element);
    std::byte* to = open->packed_input.data();
    for (size_t i = 0; i < in.counts.size(); ++i) {
      const size_t bytes = static_cast<size_t>(in.counts[i]) * element;
      if (bytes > 0)
        std::memcpy(to, open->input + static_cast<size_t>(in.displacements[i]) * element, bytes);
      to += bytes;
    }
    open->input = open->packed_input.data();
  }
  const Side out = blocks(op.output_counts, op.output_displacements, op.count, size);
  if (!out.packed() && open->output) {
    open->packed_output.resize(static_cast<size_t>(out.total()) * element);
    open->output = open->packed_output.data();
  }
}

void unpack(OpenOperation* open) {
  if (open->packed_output.empty()) return;
  if (!open->pieces.empty()) {
    unpack_pieces(*open);
    return;
  }
  const Operation& op = open->operation;
  const size_t element = dtype_bytes(op.dtype);
  const std::byte* from = open->packed_output.data();
  for (size_t i = 0; i < op.output_displacements.size(); ++i) {
    const int64_t count = op.output_counts.empty() ? op.count : op.output_counts[i];
    const size_t bytes = static_cast<size_t>(count) * element;
    if (bytes > 0)
      std::memcpy(static_cast<std::byte*>(op.output) +
                      static_cast<size_t>(op.output_displacements[i]) * element,
                  from, bytes);
    from += bytes;
  }
}

}  // namespace stretto::comm
