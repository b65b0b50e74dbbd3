// One rank's links to all others: meets them through the store, keeps the connections, and moves
// bytes whenever somebody calls poll().
//
// Meeting. Every rank listens on one socket and publishes {addresses, port, host, ...} under
// stretto/<epoch>/rank/<r>; rank 0 also publishes the secret. Of two ranks the lower accepts and
// the higher connects, over and over with growing pauses until it is welcome. A rank publishes its
// address only when it can answer, and an address belongs to one epoch, so no connection comes too
// early or to the wrong job. A TCP stream that breaks while others of its link live is dialled
// again in the same way, with pauses from options.redial_s on.
//
// Not thread-safe but for poll's sleep: whoever calls holds the engine's lock.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "stretto/comm/engine.h"
#include "stretto/comm/link/attempt.h"
#include "stretto/comm/link/conversation.h"
#include "stretto/comm/link/peer.h"
#include "stretto/comm/link/rdma_port.h"
#include "stretto/comm/link/stream_choice.h"
#include "stretto/comm/link/tcp.h"

namespace stretto::comm {

class Links {
 public:
  // Publishes, and reads what the others publish: takes until all have come or
  // options.connect_timeout_s. Throws CommError and InvalidArgument as Engine::create does.
  Links(Store& store, Membership membership, const Options& options);
  ~Links();

  bool formed() const { return unformed_ == 0; }
  // "ranks 0, 2 (tcp 10.0.0.1:4242: connection refused)": who is not connected, and why.
  std::string missing() const;

  // Writes what waits, and handles what is ready; else sleeps up to max_wait_s seconds until
  // something is, with the lock released. What happened is in events().
  void poll(std::unique_lock<std::mutex>& lock, double max_wait_s);
  // Handles what is ready and no more, for who looks again at once: true when events() may have
  // some. Nothing is written.
  bool glance();
  // Ends a sleep in poll(); from any thread, without the lock.
  void interrupt();
  // False when every link has been silent for long: this rank is the one that is cut off.
  bool hears_anyone() const;
  // The same with the lock, when a message waits and somebody sleeps who has not been woken yet.
  void wake();

  // Writes the messages that wait, without sleeping.
  void flush();

  // Large messages to that rank go over so many streams; 0: as many as are found to pay.
  void use_streams(int rank, int count);

  Events& events() { return events_; }
  Peer& peer(int rank) { return *peers_[rank]; }
  const std::vector<std::unique_ptr<Peer>>& peers() const { return peers_; }  // null: this rank
  const std::vector<std::string>& host_names() const { return hosts_; }       // of every rank
  // Why no RDMA rail leads to that rank; empty when one does, or did.
  std::string no_rdma(int rank) const;

 private:
  struct Record {  // what a rank publishes
    std::vector<Address> addresses;
    int port = 0;
    std::string host, machine, local_name, agreement;
    RdmaRails rdma;
  };
  struct Guest {  // somebody who connected to this rank
    Conversation conversation;
    double deadline_s;
  };
  // What an epoll event is about: the kind in the upper byte, an index below.
  enum What : uint64_t { kDoorbell, kListener, kAttempt, kGuest, kStream };
  static constexpr int kWhatShift = 56;
  static constexpr uint64_t about(What what, uint64_t index) {
    return uint64_t{what} << kWhatShift | index;
  }

  struct Forming {  // streams of a link that is not complete
    std::vector<std::unique_ptr<Pipe>> pipes;
    std::string reason;
  };

  // meeting.cc
  void publish(Store& store);
  void read_records(Store& store);
  void begin_attempts();
  void start(size_t attempt);
  void on_attempt(size_t attempt);
  void accept_guests(int listener);
  bool is_welcome(const Hello& hello) const;
  void on_guest(uint64_t id);
  bool shares_memory(int rank) const;
  std::unique_ptr<Pipe> make_pipe(Conversation& conversation, Role role, std::string* reason);
  void add_stream(int peer, int stream, int streams, std::unique_ptr<Pipe> pipe);
  double meet();  // retries and gives up on strangers; returns when to come again

  // links.cc
  void watch(int fd, uint32_t events, uint64_t what);
  void watch_pipe(const Pipe& pipe, int peer, int stream);
  void handle(uint64_t what, uint32_t events);
  void redial();
  void give_turns();
  void choose_streams(double now);
  void beat(double now);
  void excuse_pause(double pause_s);

  const Membership membership_;
  const Options& options_;
  std::string secret_;
  Fd epoll_, doorbell_, listener_, local_listener_;
  std::vector<std::shared_ptr<RdmaPort>> rdma_ports_;
  Record own_;
  std::vector<Record> records_;
  std::vector<std::string> hosts_;
  Events events_;
  std::vector<std::unique_ptr<Peer>> peers_;
  StreamChoice choice_;
  std::vector<bool> chooses_;  // by rank: how many streams it gets is up to choice_
  std::vector<Forming> forming_;
  int unformed_ = 0;
  int wire_ranks_ = 0;                     // others that no memory is shared with
  size_t next_turn_ = 0;                   // a rank
  bool turns_end_ = false;                 // somebody waits for the end of another's turn
  int redialling_ = 0, lost_streams_ = 0;  // attempts at streams that broke; how many ever did
  std::vector<Attempt> attempts_;
  std::map<uint64_t, Guest> guests_;
  uint64_t next_guest_ = 0;
  double next_beat_s_ = 0, last_poll_s_ = 0;
  bool asleep_ = false;
};

}  // namespace stretto::comm
