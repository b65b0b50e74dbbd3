// One rank's links to other ranks. Connects them through the store, keeps the connections and moves
// bytes whenever poll() is called.
//
// Which links there are. At the start a rank connects to its neighbours: all ranks in a job of up
// to options.mesh_ranks, and otherwise those 1, 2, 4, ... before and after it, so that there are
// about 2 log2(n). They carry heartbeats and verdicts, and the algorithms use most of them anyway.
// Every other link is made when link_to() asks for it, on either side, and messages wait until it
// stands.
//
// How many streams. A link begins with its RDMA rails and one TCP stream (one per rail of
// options.interfaces). More are connected when large messages are under way and StreamChoice or a
// message wants more. They stay open.
//
// How ranks connect. Every rank listens on one socket and publishes its addresses, port and host in
// the store under stretto/<epoch>/rank/<r>; rank 0 also publishes the secret. Of two ranks the
// higher connects to the lower, and tries again with growing pauses until it is accepted. A lower
// rank that needs a link or more streams calls: it connects to the higher one, proves who it is,
// and says how many streams it wants. An address is published only when its rank can answer, and
// belongs to one epoch, so no connection comes too early or from another job. A TCP stream that
// breaks while other streams of its link work is connected again in the same way, with pauses that
// begin at options.redial_s.
//
// Not thread-safe: the caller holds the engine's lock. poll() releases it while it sleeps, and
// interrupt() needs no lock.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "stretto/comm/link/attempt.h"
#include "stretto/comm/link/conversation.h"
#include "stretto/comm/link/link.h"
#include "stretto/comm/link/rank_record.h"
#include "stretto/comm/link/stream_choice.h"
#include "stretto/comm/link/tcp.h"
#include "stretto/comm/membership.h"
#include "stretto/comm/options.h"
#include "stretto/comm/store/store.h"
#include "stretto/comm/system/fd.h"

namespace stretto::comm {

std::string list_ranks(const std::vector<int>& ranks);  // "0, 2"

class Links {
 public:
  // callers: while some wait, poll() reads once from each stream.
  // Publishes this rank and waits until all others have published themselves, at most
  // options.connect_timeout_s. Throws CommError and InvalidArgument as Engine::create does.
  Links(Store& store, Membership membership, const Options& options,
        const Callers* callers = nullptr);
  ~Links();

  // Whether the links to all neighbours stand.
  bool formed() const { return unformed_ == 0; }
  // Which neighbours are not connected and why: "ranks 0, 2 (tcp 10.0.0.1:4242: connection
  // refused)".
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
  // Operations are cut or sent otherwise from now on: rates before and after are not compared.
  void on_new_settings();
  // Calls interrupt() if poll() sleeps while messages are queued. Needs the lock.
  void wake();

  // Writes queued messages: once to each stream, and without sleeping. Streams in
  // turns are faster than one after the other, and what has arrived is read in between.
  void flush();
  // Leaves it to poll() and glance(), which write before anything else.
  void defer();
  // More is queued than flush() has written, and some stream may take it.
  bool unwritten() const { return unwritten_; }

  // Connects streams until there are `count`, without waiting for large messages.
  void open_streams(int rank, int count);
  // How many streams a link to this rank can have.
  int most_streams(int rank) const;

  Events& events() { return events_; }
  // The link to another rank. The first call begins to connect it; if it does not stand after
  // options.connect_timeout_s, events() has a loss. Messages to a rank that has left wait for ever:
  // Link::departed is set and Link::owes() says that somebody waits.
  Link& link_to(int rank) { return links_[rank] ? *links_[rank] : connect_to(rank); }
  // Whether a link was asked for and does not stand yet.
  bool is_connecting(int rank) const;
  // Whether a link may stand soon because of a handshake under way. A rank that left now would look
  // lost to the other.
  bool shakes_hands() const;
  // The links that were asked for, by rank; those that have ended too.
  const std::vector<Link*>& all() const { return made_; }
  // Those that are polled and send heartbeats. A link that has ended is dropped at the next beat.
  const std::vector<Link*>& active() const { return active_; }
  const std::vector<std::string>& host_names() const { return hosts_; }  // by rank
  const std::vector<std::string>& rack_names() const { return racks_; }  // by rank
  // After so many rounds, in which every rank sends to all its links what it has heard, all ranks
  // know what any of them knew: 1 where all ranks are neighbours.
  int rounds_to_reach_all() const;
  // Why there is no RDMA rail to a rank; empty when there is one, or was.
  std::string no_rdma(int rank) const;

 private:
  struct Guest {  // a connection that has not finished its handshake
    Conversation conversation;
    double deadline_s;
  };
  // How many paced chunks may be in the middle of being written, for each kFirstStreams streams of
  // a link. Several keep the network card busy while one connection still gains speed; ranks that
  // share a card need fewer. docs/design/gradient-engine.md has the measurements.
  static constexpr int kPacedChunks = 4, kPacedChunksOnSharedCard = 2;
  // The user data of an epoll event: the kind in the upper byte, an index below.
  enum What : uint64_t { kDoorbell, kListener, kAttempt, kGuest, kStream };
  static constexpr int kWhatShift = 56;
  static constexpr uint64_t about(What what, uint64_t index) {
    return uint64_t{what} << kWhatShift | index;
  }
  static constexpr uint64_t kStreamsPerLink = 1 << 16;
  static constexpr int kCallStream = kStreamsPerLink - 1;  // of an attempt that calls
  static constexpr uint64_t key_of(int rank, int stream) {
    return static_cast<uint64_t>(rank) * kStreamsPerLink + static_cast<uint64_t>(stream);
  }

  // What has become of the link to a rank.
  struct Contact {
    int rails = 0, most = 0;                   // of RDMA; streams that the link can have
    int opened = 0;                            // how many streams are connected or shall be
    bool stands = false;                       // the link had its first streams
    bool lost = false;                         // it never stood, and that was reported
    double asked_s = 0;                        // when the link was asked for
    std::vector<std::unique_ptr<Pipe>> pipes;  // connected before all of the first ones are
    std::string target, reason;                // why it does not stand
  };

  // records.cc
  void publish(Store& store);
  void read_records(Store& store);

  // contacts.cc: which links and streams there are
  void check_transports() const;
  void connect_to_neighbours();
  bool is_neighbour(int rank) const;
  bool shares_memory(int rank) const;
  int rails_to(int rank) const;
  int first_streams(int rank) const;
  bool has_one_rail() const;
  Link& make_link(int rank);
  Link& connect_to(int rank);
  void dial(int rank, int stream);
  void call(int rank, double in_s);
  void wake_to_meet();
  bool is_needed(const Attempt& attempt) const;
  bool has_ended(int rank) const;
  void activate(Link& link);
  void drop_ended();
  void add_stream(int rank, int stream, int streams, std::unique_ptr<Pipe> pipe);
  void redial();
  void choose_streams(double now);
  void use_choice();
  void end_contact(int rank, std::string_view reason, bool has_left);
  double expire_contacts(double now);

  // meeting.cc: how streams are connected
  void start(uint64_t key);
  void on_attempt(uint64_t key);
  void note_failure(Attempt& attempt, int error, std::string_view reason);
  void accept_guests(int listener);
  bool is_welcome(const Hello& hello) const;
  void on_guest(uint64_t id);
  std::unique_ptr<Pipe> make_pipe(Conversation& conversation, Role role, std::string* reason);
  bool meets() const;
  double meet();  // connects, drops slow guests; returns when to call it next (now_s())
  void listen(bool on);
  bool note_shortage(int error);
  void check_shortage(double now);

  // links.cc
  void watch(int fd, uint32_t events, uint64_t what);
  void watch_pipe(const Pipe& pipe, int rank, int stream);
  void handle(uint64_t what, uint32_t events);
  size_t place_of(int rank) const;
  void pace();
  void beat(double now);
  void excuse_pause(double pause_s);

  const Membership membership_;
  const Options& options_;
  const Callers* const callers_;
  std::string secret_;
  Fd epoll_, doorbell_;
  std::vector<Fd> listeners_;
  int local_listener_ = -1;  // the one of unix sockets; -1: none
  std::vector<std::shared_ptr<RdmaPort>> rdma_ports_;
  RankRecord own_;
  std::vector<RankRecord> records_;
  std::vector<std::string> hosts_, racks_;
  Events events_;
  std::vector<std::unique_ptr<Link>> links_;  // by rank; null: nobody has asked for it
  std::vector<Link*> made_;                   // those that are not null
  std::vector<Link*> active_;                 // those of made_ that have not ended
  std::vector<Contact> contacts_;             // by rank
  std::vector<int> connecting_;               // ranks with links that were asked for later
  StreamChoice choice_;
  int unformed_ = 0;    // neighbours whose links do not stand
  int wire_ranks_ = 0;  // ranks that share no memory with this one
  int next_paced_ = 0;  // the rank whose link may begin the next paced chunk
  bool unwritten_ = false;
  bool pacing_waits_ = false;             // as many paced chunks are being written as may be
  bool leaves_chunks_ = false;            // a slow stream has left chunks to a faster one
  int lost_streams_ = 0;                  // how many streams of active_ had broken when looked at
  int64_t ended_bytes_ = 0;               // acknowledged on links that are not in active_
  double opening_until_s_ = 0;            // until then, streams that connect are waited for
  std::map<uint64_t, Attempt> attempts_;  // by key_of()
  std::set<uint64_t> pending_;            // those under way
  std::map<uint64_t, Guest> guests_;
  uint64_t next_guest_ = 0;
  double listen_again_s_ = 0;  // descriptors ran out; 0: the listeners are watched
  double short_since_s_ = 0;   // since when there are too few; 0: there are enough
  double next_beat_s_ = 0, last_poll_s_ = 0;
  bool asleep_ = false;
};

}  // namespace stretto::comm
