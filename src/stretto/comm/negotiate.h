// Agreeing on what everyone has ready, when ranks hand in tensors in different orders. No rank
// coordinates: in every round each rank exchanges ceil(log2 n) messages along a dissemination
// pattern (rank + 2^k), whose combination is the same on all:
// - the AND of the ready bits, one per name that all ranks know under the same number;
// - the union of new names, as 64-bit hashes, which get numbers at the end of the round;
// - while something stalls: the union of the hashes that are waited for, and in the next round who
//   has handed each of them in.
// AND and union do not mind that the pattern combines some ranks twice, so any n works. (Horovod's
// response cache does this with an all-reduce below a coordinator that still hands out the
// numbers.) A pure state machine: it sends nothing and knows no clock.
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

// A tensor that is ready on this rank but not everywhere.
struct Stall {
  std::string name;          // as handed in here; "#<hash>" when only others handed it in
  std::vector<int> missing;  // ranks that have not, ascending
  double waiting_s = 0;      // here; 0 when it is only ready elsewhere
};

class Negotiator {
 public:
  // Reports what has waited for longer than stall_s, and again every stall_s.
  Negotiator(int rank, int ranks, double stall_s = 60);

  // `name` is ready here. The fingerprint (operation, count, dtype) is part of its identity, so
  // ranks that disagree about it never agree on the name, and are told so as a stall. Throws
  // InvalidArgument when the name is still open.
  void add(std::string_view name, std::string_view fingerprint, double now_s);

  // From now on this rank has nothing to hand in, and does not hold the others up.
  void join() { joined_ = true; }

  // One round: for k = 0 .. exchanges() - 1, send outgoing() to send_to(k), and give combine() what
  // came from receive_from(k); then finish(). Every rank takes part in every round.
  int exchanges() const;
  int send_to(int k) const;
  int receive_from(int k) const;
  void start();
  std::vector<std::byte> outgoing() const;
  // Throws FormatError on a message that no Negotiator wrote.
  void combine(std::span<const std::byte> message);

  struct Result {
    std::vector<std::string> agreed;  // ready everywhere: the same on all ranks, in the same order
    std::vector<uint64_t>
        agreed_hashes;  // the same in hashes; known also to a rank that has joined
    std::vector<Stall> stalls;
    bool all_joined = false;
    bool idle = false;  // nobody has anything open
  };
  Result finish(double now_s);

 private:
  struct Open {
    std::string name;
    double since_s = 0, reported_s = 0;
  };

  static uint64_t hash(std::string_view name, std::string_view fingerprint);
  std::vector<Stall> diagnose(double now_s);

  const int rank_, ranks_;
  const double stall_s_;
  bool joined_ = false;

  std::map<uint64_t, Open> open_;             // handed in here and not agreed yet
  std::set<std::string, std::less<>> names_;  // of open_
  std::map<uint64_t, int> number_;            // of every hash that all ranks know
  std::vector<uint64_t> hashes_;              // by number

  // What the messages of this round have said so far.
  uint32_t flags_ = 0;
  std::vector<uint64_t> ready_;                   // bits by number
  std::set<uint64_t> fresh_;                      // not numbered yet
  std::set<uint64_t> asked_;                      // to be diagnosed next round
  std::vector<uint64_t> diagnosed_;               // being diagnosed, ascending
  std::vector<std::vector<uint64_t>> handed_in_;  // by diagnosed_: bits of ranks
};

}  // namespace stretto::comm
