// Finds which tensors all ranks have submitted, when ranks submit them in different orders. No rank
// coordinates. In every round each rank exchanges ceil(log2 n) messages in a dissemination pattern
// (rank + 2^k). All ranks get the same combination of all messages:
// - The AND of the ready bits: one bit per name to which all ranks have given the same number.
// - The OR of the bits of submitted names, because ranks that have joined count as ready.
// - The union of new names, as 64-bit hashes, which get numbers at the end of the round.
// - The union of the names whose description differs between ranks.
// - While something stalls: the union of the hashes that ranks wait for and, in the next round,
//   which ranks have submitted each of them.
// The pattern combines some ranks twice, which does not change AND, OR, maximum and union, so any n
// works. (Horovod's response cache does this with an all-reduce, below a coordinator that gives out
// the numbers.) A pure state machine: it sends nothing and reads no clock.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <limits>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "stretto/comm/negotiate/name_numbers.h"

namespace stretto::comm {

// A tensor that this rank has submitted and others have not.
struct Stall {
  std::string name;
  std::vector<int> missing;  // ranks that have not submitted it, ascending
  double waiting_s = 0;
};

class Negotiator {
 public:
  // Reports a name that has waited for stall_s seconds, and again every stall_s seconds.
  Negotiator(int rank, int ranks, double stall_s = 60);

  // This rank has submitted `name`. The description (operation, shape, type) must be the same on
  // all ranks. `ticket` comes back in Agreed. Throws InvalidArgument when the name is still open.
  void add(std::string_view name, std::string_view description, double now_s, uint64_t ticket = 0);

  // Also reports a name that has waited for so many seconds, to the caller that will not wait for
  // it any longer. Infinity at first.
  void set_limit(double limit_s) { limit_s_ = limit_s; }

  // From now on this rank counts as ready for every name, until all ranks have joined.
  void join();

  // This rank submits nothing more, and waits until the others leave too.
  void leave() { left_ = true; }

  // One round: start(); for k = 0 .. exchanges() - 1 send outgoing() to send_to(k) and pass what
  // comes from receive_from(k) to combine(); then finish(). Every rank takes part in every round.
  int exchanges() const;
  int send_to(int k) const;
  int receive_from(int k) const;
  void start();
  std::vector<std::byte> outgoing() const;
  // Throws FormatError on a message that no Negotiator wrote.
  void combine(std::span<const std::byte> message);

  struct Agreed {
    uint64_t hash = 0;      // of the name
    std::string_view name;  // until the next finish(); empty when this rank has not submitted it
    uint64_t ticket = 0;    // of add()
    bool differs = false;   // ranks gave it different descriptions
  };
  struct Result {
    std::vector<Agreed> agreed;  // ready everywhere: the same on all ranks, in the same order
    std::vector<Stall> stalls;
    // Submitted here, but a rank that has not submitted it has left.
    std::vector<Agreed> hopeless;
    bool someone_joined = false;  // a rank that has joined counts as ready
    int last_joined = -1;         // when all have joined: the rank that joined last
    int left = -1;                // a rank that has left; -1: none
    bool all_left = false;
    bool more = false;  // another round is needed at once
  };
  Result finish(double now_s);

  // Sets the description of a name for all ranks; all call it alike, between rounds.
  void settle(uint64_t hash, std::string_view description);

  // How many names have numbers: the same on all ranks between rounds.
  size_t numbers() const { return known_.size(); }
  bool idle() const { return open_ == 0; }
  // This rank submits nothing for now: it has joined, or left.
  bool ends() const { return left_ || joined_ != 0; }
  // When the next stall is to be reported, or earlier.
  double next_report_s() const { return std::min(reported_s_ + stall_s_, since_s_ + limit_s_); }

 private:
  // What this rank has submitted under a name. Kept for the next time.
  struct Own {
    uint64_t meaning = 0, ticket = 0;
    double since_s = 0, reported_s = 0;
    std::string name;
  };
  struct Known {
    uint64_t hash = 0, meaning = 0;
    uint64_t used = 0;  // the round in which it was used last; 0: the number is free
    Own own;
  };
  static constexpr double kNever_s = std::numeric_limits<double>::infinity();

  Own* find_open(uint64_t hash);
  void open(size_t number);
  template <typename Function>
  void for_each_open(Function&& function);
  std::vector<Stall> diagnose(double now_s);
  void number(uint64_t hash, uint64_t meaning);
  void forget_old();

  const int rank_, ranks_;
  const double stall_s_;
  bool left_ = false;
  uint64_t round_ = 0, joined_ = 0;  // the round before which this rank has joined; 0: it has not

  size_t open_ = 0;                            // names: submitted here and not agreed yet
  std::unordered_map<uint64_t, Own> unknown_;  // by hash: open, and without a number
  NameNumbers number_;                         // that all ranks know
  std::deque<Known> known_;                    // by number
  std::vector<int> free_;                      // numbers, descending
  // Bits by number: the name is open; and it is described here otherwise than all ranks remember.
  std::vector<uint64_t> open_bits_, otherwise_bits_;
  double reported_s_ = kNever_s;  // at most Own::reported_s of any that is open
  double since_s_ = kNever_s;     // the same of Own::since_s
  double limit_s_ = kNever_s;

  bool done_ = false;  // nothing was open at the start of this round

  // The combination of this round's messages so far.
  uint32_t flags_ = 0, left_rank_ = 0;
  uint64_t last_joined_ = 0;                      // round and rank
  std::vector<uint64_t> ready_, handed_;          // bits by number
  std::map<uint64_t, uint64_t> fresh_;            // not numbered yet, and what they mean
  std::set<uint64_t> differing_;                  // hashes
  std::set<uint64_t> asked_;                      // to be diagnosed next round
  std::vector<uint64_t> diagnosed_;               // being diagnosed, ascending
  std::vector<std::vector<uint64_t>> handed_in_;  // by diagnosed_: bits of ranks
};

}  // namespace stretto::comm
