// Tools for all algorithms: they cut ranges, and append steps to a schedule.
#pragma once

#include <initializer_list>
#include <span>
#include <vector>

#include "stretto/comm/collective/hosts.h"
#include "stretto/comm/collective/schedule.h"

namespace stretto::comm {

struct Part {
  int64_t begin = 0, end = 0;
  int64_t count() const { return end - begin; }
  bool empty() const { return end <= begin; }
};

// One of `parts` nearly equal pieces of `whole`, cut at multiples of `align` from its beginning.
Part cut(Part whole, int parts, int index, int64_t align);
// Where such a piece begins; `whole.end` for index == parts.
int64_t cut_at(Part whole, int64_t parts, int64_t index, int64_t align);

// The range of a unit in the tensor (all_reduce, reduce, broadcast).
Part unit_of_tensor(const Problem& problem, int64_t unit);

// The blocks of the other kinds, and what a unit covers of each. With blocks of different sizes,
// making it takes time in proportion to the ranks, and its functions take constant time. The
// problem must outlive it.
class Blocks {
 public:
  Blocks(const Problem& problem, int64_t unit);

  Part part(int rank) const;  // of the unit, counted from the block's beginning
  int64_t count(int rank) const { return part(rank).count(); }
  int64_t begin(int rank) const;  // of the block, among all blocks
  int64_t unit_begin(int rank) const { return begin(rank) + part(rank).begin; }

 private:
  const Problem& problem_;
  const int64_t unit_, unit_elements_;
  std::vector<int64_t> begins_;  // of blocks of different sizes without displacements
};

// Elements of all blocks together.
int64_t total_count(const Problem& problem);

using Steps = std::vector<int32_t>;      // indices of steps
using Waits = std::span<const int32_t>;  // the same, of those to wait for

class Builder {
 public:
  explicit Builder(const Problem& problem)
      : problem(problem), hosts(problem.host.hosts()), me(problem.rank), n(problem.ranks()) {}

  const Problem& problem;
  const Hosts& hosts;
  const int me, n;

  Place scratch(int64_t count);  // fresh elements
  Place slot(int64_t count);     // a fresh coded slot

  // Each returns the index of the new step. Transfers, copies and sums of 0 elements are left out
  // and return -1, which `waits` ignores.
  int32_t send(int peer, int tag, Place from, int64_t count, Waits waits = {});
  int32_t receive(int peer, int tag, Place to, int64_t count);
  int32_t copy(Place from, Place to, int64_t count, Waits waits = {});
  int32_t reduce(std::span<const Source> sources, Place to, int64_t count, bool last, Waits waits);
  int32_t encode(Place from, Place slot, int64_t count, bool result, Waits waits = {});
  // Of a sum that is passed on in a tree; `exponent` as in Source.
  int32_t encode_sum(Place from, Place slot, int64_t count, bool result, int exponent, Waits waits);
  int32_t decode(Place slot, Place to, int64_t count, Waits waits);
  int32_t signal(int peer, int tag, Waits waits = {});  // no payload
  int32_t await(int peer, int tag);                     // receives a signal()

  // The other ranks (or indices below `count`), starting after `self`, so that not all ranks send
  // to the same one first.
  static std::vector<int> others(int self, int count);
  std::vector<int> peers() const { return others(me, n); }

  Schedule take() { return std::move(schedule_); }

 private:
  int32_t add(Step step, std::span<const Source> sources, Waits waits);

  Schedule schedule_;
};

inline Place input(int64_t offset) { return {Buffer::kInput, offset}; }
inline Place output(int64_t offset) { return {Buffer::kOutput, offset}; }

inline Place operator+(Place place, int64_t elements) {
  return {place.buffer, place.offset + elements};
}

}  // namespace stretto::comm
