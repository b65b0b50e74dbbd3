// Agreeing on what everyone has ready, when ranks hand in tensors in different orders. No rank
// coordinates: in every round each rank exchanges ceil(log2 n) messages along a dissemination
// pattern (rank + 2^k), whose combination is the same on all:
// - the AND of the ready bits, one per name that all ranks know under the same number, and the OR
//   of what was really handed in, for ranks that have joined stand in for others;
// - the union of new names, as 64-bit hashes, which get numbers at the end of the round;
// - the union of the names on whose description a rank disagrees with what was said of them first;
// - while something stalls: the union of the hashes that are waited for, and in the next round who
//   has handed each of them in.
// AND, OR, maximum and union do not mind that the pattern combines some ranks twice, so any n
// works. (Horovod's response cache does this with an all-reduce below a coordinator that still
// hands out the numbers.) A pure state machine: it sends nothing and knows no clock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace stretto::comm {

// A tensor that is ready here but not everywhere.
struct Stall {
  std::string name;
  std::vector<int> missing;  // ranks that have not handed it in, ascending
  double waiting_s = 0;
};

class Negotiator {
 public:
  // Reports what has waited for longer than stall_s, and again every stall_s.
  Negotiator(int rank, int ranks, double stall_s = 60);

  // `name` is ready here. Ranks have to mean the same by it: the description (operation, shape,
  // type) says what. Throws InvalidArgument when the name is still open.
  void add(std::string_view name, std::string_view description, double now_s);

  // Until all ranks have joined this rank lacks nothing: it does not hold the others up.
  void join();

  // From now on this rank hands in nothing more, and waits for the others to leave too.
  void leave() { left_ = true; }

  // One round: for k = 0 .. exchanges() - 1, send outgoing() to send_to(k), and give combine() what
  // came from receive_from(k); then finish(). Every rank takes part in every round.
  int exchanges() const;
  int send_to(int k) const;
  int receive_from(int k) const;
  void start();
  std::vector<std::byte> outgoing() const;
  // Throws FormatError on a message that no Negotiator wrote.
  void combine(std::span<const std::byte> message);

  struct Agreed {
    uint64_t hash = 0;     // of the name
    std::string name;      // empty when it was not handed in here
    bool differs = false;  // some ranks mean something else than was said of the name first
  };
  struct Result {
    std::vector<Agreed> agreed;  // ready everywhere: the same on all ranks, in the same order
    std::vector<Stall> stalls;
    // Handed in here, but a rank has left that would have had to do so, too.
    std::vector<std::string> hopeless;
    bool someone_joined = false;  // and stands in for what it has not handed in
    int last_joined = -1;         // when all have joined: the rank that did so last
    int left = -1;                // a rank that has left, if any
    bool all_left = false;
    bool more = false;  // another round is needed at once
  };
  Result finish(double now_s);

  // All ranks mean this by the name from now on; called on all alike, between rounds.
  void settle(uint64_t hash, std::string_view description);

  // How many names have numbers: the same on all ranks between rounds.
  size_t numbers() const { return known_.size(); }
  bool idle() const { return open_.empty(); }
  double next_report_s() const;  // when the next stall is due

 private:
  struct Open {
    std::string name;
    uint64_t meaning = 0;
    double since_s = 0, reported_s = 0;
  };
  struct Known {
    uint64_t hash = 0, meaning = 0;
    uint64_t used = 0;  // in which round; 0: the number is free
  };

  std::vector<Stall> diagnose(double now_s);
  void number(uint64_t hash, uint64_t meaning);
  void forget_old();

  const int rank_, ranks_;
  const double stall_s_;
  bool left_ = false;
  uint64_t round_ = 0, joined_ = 0;  // the round before which this rank has joined; 0: it has not

  std::map<uint64_t, Open> open_;   // by hash: handed in here and not agreed yet
  std::map<uint64_t, int> number_;  // of every hash that all ranks know
  std::vector<Known> known_;        // by number
  std::vector<int> free_;           // numbers, descending

  bool done_ = false;  // nothing was open at the start of this round

  // What the messages of this round have said so far.
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
