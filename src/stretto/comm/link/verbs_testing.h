// RDMA cards that exist only in a test, and the network between them: what libibverbs' manual pages
// and the InfiniBand specification promise and threaten, as far as reliable connections that send
// and receive go. It keeps books: whatever a real card or library would hang, crash or corrupt
// memory on is in faults().
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "stretto/comm/link/verbs.h"

namespace stretto::comm::testing {

struct MockQp;
struct MockCq;

struct MockCard {
  std::string name;
  bool active = true;     // its port 1; there is no other
  bool ethernet = true;   // with RoCE v2, else InfiniBand
  uint32_t most = 4096;   // requests that a queue holds
  bool registers = true;  // memory
  int number = 0;         // in its fabric; filled in
};

class Fabric {
 public:
  enum class Pace : uint8_t {
    kAtOnce,  // a send has arrived, and both completions are there, when it has been posted
    kByHand,  // whenever step() is called
    kThread,  // sooner or later: transfers, completions and their events in any order that is legal
  };
  explicit Fabric(Pace pace = Pace::kAtOnce, unsigned seed = 1);
  ~Fabric();

  // A machine with these cards, for Options::rdma_provider.
  std::shared_ptr<const verbs::Provider> machine(std::vector<MockCard> cards);

  // Carries out what is due next: a transfer, a completion of a send, an event. False: nothing is.
  bool step();

  // The next send of that card ends so, and its queue pair with it.
  void fail_next(const std::string& card, uint32_t status);
  // From now on nothing arrives at that card or leaves it.
  void kill(const std::string& card);
  // May change messages while they are under way. With the lock: it must not call cards.
  void set_alter(std::function<void(std::vector<std::byte>&)> alter);
  // Called once, right before and right after a completion queue is armed.
  void set_around_arm(std::function<void()> before, std::function<void()> after);

  int rnr() const { return rnr_; }               // messages for which no receive was posted
  int64_t messages() const { return sent_; }     // that arrived
  int64_t completions() const { return done_; }  // that were polled
  int objects();                                 // that have not been destroyed
  std::vector<std::string> faults();

 private:
  friend struct Calls;
  using Lock = std::unique_lock<std::mutex>;

  void run();
  bool step_locked();
  void settle();  // after something was posted
  void transfer(MockQp* qp);
  uint32_t deliver(MockQp* to, std::vector<std::byte> data);
  void complete(MockQp* qp, bool receive, uint64_t id, uint32_t status, uint32_t bytes);
  void break_down(MockQp* qp);
  void fault(std::string what);
  bool covers(MockQp* qp, const verbs::Piece& piece) const;

  const Pace pace_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::mt19937 random_;
  bool stopping_ = false;
  std::vector<std::unique_ptr<verbs::Device>> devices_;
  std::map<uint32_t, MockQp*> qps_;
  std::map<uint32_t, verbs::Mr*> regions_;
  std::deque<MockCq*> events_;
  std::map<std::string, uint32_t> failing_;
  std::map<std::string, bool> dead_;
  std::function<void(std::vector<std::byte>&)> alter_;
  std::function<void()> before_arm_, after_arm_;
  std::vector<std::string> faults_;
  uint32_t next_number_ = 100;
  int next_card_ = 1, objects_ = 0;
  std::atomic<int> rnr_ = 0;
  std::atomic<int64_t> sent_ = 0, done_ = 0;
  std::thread thread_;
};

}  // namespace stretto::comm::testing
