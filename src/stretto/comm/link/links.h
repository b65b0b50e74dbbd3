// One rank's links to all other ranks. Connects them through the store, keeps the connections and
// moves bytes whenever poll() is called.
//
// How ranks connect. Every rank listens on one socket and publishes its addresses, port and host in
// the store under stretto/<epoch>/rank/<r>; rank 0 also publishes the secret. Of two ranks the
// higher connects to the lower, and tries again with growing pauses until it is accepted. An
// address is published only when its rank can answer, and belongs to one epoch, so no connection
// comes too early or from another job. A TCP stream that breaks while other streams of its link
// work is connected again in the same way, with pauses that begin at options.redial_s.
//
// Not thread-safe: the caller holds the engine's lock. poll() releases it while it sleeps, and
// interrupt() needs no lock.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "stretto/comm/link/attempt.h"
#include "stretto/comm/link/conversation.h"
#include "stretto/comm/link/link.h"
#include "stretto/comm/link/rdma_port.h"
#include "stretto/comm/link/stream_choice.h"
#include "stretto/comm/link/tcp.h"
#include "stretto/comm/membership.h"
#include "stretto/comm/options.h"
#include "stretto/comm/store/store.h"

namespace stretto::comm {

std::string list_ranks(const std::vector<int>& ranks);  // "0, 2"

class Links {
 public:
  // Publishes this rank and waits until all others have published themselves, at most
  // options.connect_timeout_s. Throws CommError and InvalidArgument as Engine::create does.
  Links(Store& store, Membership membership, const Options& options);
  ~Links();

  bool formed() const { return unformed_ == 0; }
  // Which ranks are not connected and why: "ranks 0, 2 (tcp 10.0.0.1:4242: connection refused)".
  std::string missing() const;

  // Writes what is queued and reads what has arrived. If there is nothing to read, releases the
  // lock and sleeps at most max_wait_s seconds until there is. events() says what happened.
  void poll(std::unique_lock<std::mutex>& lock, double max_wait_s);
  // Reads what has arrived, without writing or sleeping, for callers that spin. True when events()
  // may not be empty.
  bool glance();
  // Ends a sleep in poll(); from any thread, without the lock.
  void interrupt();
  // False when all links have been silent for so long that this rank is the one cut off.
  bool hears_anyone() const;
  // Calls interrupt() if poll() sleeps while messages are queued. Needs the lock.
  void wake();

  // Writes queued messages, without sleeping.
  void flush();

  // Sends large messages to a rank over `count` streams; 0: as many as StreamChoice finds faster.
  void use_streams(int rank, int count);

  Events& events() { return events_; }
  Link& link_to(int rank) { return *links_[rank]; }
  const std::vector<std::unique_ptr<Link>>& all() const { return links_; }  // by rank; own: null
  const std::vector<std::string>& host_names() const { return hosts_; }     // by rank
  // Why there is no RDMA rail to a rank; empty when there is one, or was.
  std::string no_rdma(int rank) const;

 private:
  struct Record {  // what a rank publishes
    std::vector<Address> addresses;
    int port = 0;
    std::string host, machine, local_name;
    std::vector<std::pair<std::string, std::string>> agreement;  // names and values
    RdmaRails rdma;
  };
  struct Guest {  // a connection that has not finished its handshake
    Conversation conversation;
    double deadline_s;
  };
  // The user data of an epoll event: the kind in the upper byte, an index below.
  enum What : uint64_t { kDoorbell, kListener, kAttempt, kGuest, kStream };
  static constexpr int kWhatShift = 56;
  static constexpr uint64_t about(What what, uint64_t index) {
    return uint64_t{what} << kWhatShift | index;
  }

  struct Forming {  // a link of which not all streams are connected
    std::vector<std::unique_ptr<Pipe>> pipes;
    std::string reason;
  };

  // records.cc
  void publish(Store& store);
  void read_records(Store& store);

  // meeting.cc
  void begin_attempts();
  void start(size_t attempt);
  void on_attempt(size_t attempt);
  void accept_guests(int listener);
  bool is_welcome(const Hello& hello) const;
  void on_guest(uint64_t id);
  bool shares_memory(int rank) const;
  std::unique_ptr<Pipe> make_pipe(Conversation& conversation, Role role, std::string* reason);
  void add_stream(int rank, int stream, int streams, std::unique_ptr<Pipe> pipe);
  double meet();  // connects again, drops slow guests; returns when to call it next (now_s())

  // links.cc
  void watch(int fd, uint32_t events, uint64_t what);
  void watch_pipe(const Pipe& pipe, int rank, int stream);
  void handle(uint64_t what, uint32_t events);
  void redial();
  void pace();
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
  std::vector<std::unique_ptr<Link>> links_;
  StreamChoice choice_;
  std::vector<bool> chooses_;  // by rank: whether choice_ decides how many streams are used
  std::vector<Forming> forming_;
  int unformed_ = 0;
  int wire_ranks_ = 0;                     // ranks that share no memory with this one
  size_t next_paced_ = 0;                  // the rank whose link may begin the next paced chunk
  bool pacing_waits_ = false;              // as many paced chunks are being written as may be
  int redialling_ = 0, lost_streams_ = 0;  // streams being reconnected; that broke so far
  std::vector<Attempt> attempts_;
  std::map<uint64_t, Guest> guests_;
  uint64_t next_guest_ = 0;
  double next_beat_s_ = 0, last_poll_s_ = 0;
  bool asleep_ = false;
};

}  // namespace stretto::comm
