// Which links and streams there are: neighbours from the start, others when they are asked for.
#include <algorithm>
#include <bit>
#include <limits>

#include "stretto/base/clock.h"
#include "stretto/base/error.h"
#include "stretto/comm/link/links.h"

namespace stretto::comm {
namespace {

constexpr uint64_t kPressedBytes = 1 << 20;  // with more under way, the links are the bottleneck

// A rank calls a higher one only after this time, because both usually ask for the link at once and
// then the higher one connects by itself.
constexpr double kCallAfter_s = 0.02;
constexpr double kFirstCallPause_s = 0.25, kMostCallPause_s = 4;
constexpr int kMostCalls = 6;  // for more streams of a link that stands

// Time in which new streams connect. StreamChoice does not measure meanwhile.
constexpr double kOpening_s = 1;

// Pauses before a broken stream is connected again double up to this. They start again from
// options.redial_s for a stream that worked for this long.
constexpr double kMostRedialPause_s = 60;

// Adds a link to those of other ranks, in order of rank. False when it is one of them.
bool insert(std::vector<Link*>& links, Link& link) {
  const auto place =
      std::lower_bound(links.begin(), links.end(), link.rank(),
                       [](const Link* other, int rank) { return other->rank() < rank; });
  if (place != links.end() && *place == &link) return false;
  links.insert(place, &link);
  return true;
}

}  // namespace

// Ranks at a distance of a power of two. Dissemination and recursive doubling use these links
// anyway, and removing a few ranks leaves the others connected.
bool Links::is_neighbour(int rank) const {
  const int size = membership_.size;
  if (rank == membership_.rank) return false;
  if (size <= options_.mesh_ranks) return true;
  const auto ahead = static_cast<unsigned>((rank - membership_.rank + size) % size);
  return std::has_single_bit(ahead) || std::has_single_bit(static_cast<unsigned>(size) - ahead);
}

int Links::rounds_to_reach_all() const {
  if (membership_.size <= options_.mesh_ranks) return 1;
  return std::bit_width(static_cast<unsigned>(membership_.size));
}

bool Links::shares_memory(int rank) const {
  const RankRecord& record = records_[rank];
  return !record.local_name.empty() && !own_.local_name.empty() && record.machine == own_.machine &&
         record.host == own_.host;
}

std::string Links::no_rdma(int rank) const {
  std::string reason;
  if (shares_memory(rank)) return "on the same host";
  count_rails(own_.rdma, records_[rank].rdma, rank, &reason);
  return reason;
}

int Links::rails_to(int rank) const {
  std::string reason;
  return shares_memory(rank) ? 0 : count_rails(own_.rdma, records_[rank].rdma, rank, &reason);
}

int Links::most_streams(int rank) const {
  return shares_memory(rank) ? 1 : rails_to(rank) + options_.connected_streams();
}

// The RDMA rails, and TCP over every interface that was named, so that a cut one costs no link.
int Links::first_streams(int rank) const {
  const int interfaces = names_rails(options_) ? static_cast<int>(own_.addresses.size()) : 1;
  return std::min(shares_memory(rank) ? 1 : rails_to(rank) + interfaces, most_streams(rank));
}

// No other rank is reached by several rails.
bool Links::has_one_rail() const {
  for (int rank = 0; rank < membership_.size; ++rank)
    if (rank != membership_.rank && first_streams(rank) > 1) return false;
  return true;
}

void Links::check_transports() const {
  if (parse_transports(options_.transports).tcp) return;
  for (int rank = 0; rank < membership_.size; ++rank) {
    if (rank == membership_.rank || shares_memory(rank)) continue;
    throw_invalid(
        "STRETTO_TRANSPORTS: shm alone does not reach rank {}, which is on another host; add tcp",
        rank);
  }
}

void Links::connect_to_neighbours() {
  for (int rank = 0; rank < membership_.size; ++rank) {
    if (!is_neighbour(rank)) continue;
    ++unformed_;
    make_link(rank);
    // A higher neighbour connects to this rank.
    for (int stream = 0; rank < membership_.rank && stream < first_streams(rank); ++stream)
      dial(rank, stream);
  }
}

Link& Links::make_link(int rank) {
  const int others = std::max(membership_.size - 1, 1);
  links_[rank] = std::make_unique<Link>(
      LinkSettings{.rank = rank,
                   .epoch = membership_.epoch,
                   .chunk_bytes = static_cast<uint64_t>(options_.chunk_bytes),
                   // A larger batch would keep data on a slow stream that a faster one could take.
                   .batch_bytes = static_cast<uint64_t>(options_.chunk_bytes),
                   .eager_limit_bytes = static_cast<uint64_t>(options_.eager_limit_bytes / others),
                   .paced = wire_ranks_ > kPacedChunks && !shares_memory(rank),
                   .callers = callers_},
      &events_);
  Contact& contact = contacts_[rank];
  contact.rails = rails_to(rank);
  contact.most = most_streams(rank);
  contact.opened = first_streams(rank);
  links_[rank]->use_streams(choice_.count());
  insert(made_, *links_[rank]);
  activate(*links_[rank]);
  return *links_[rank];
}

// Whether nothing will be sent or received any more, except if a connection that was under way
// stands after all.
bool Links::has_ended(int rank) const {
  const Contact& contact = contacts_[rank];
  return !links_[rank]->alive() && (contact.stands || contact.lost);
}

void Links::activate(Link& link) {
  if (!insert(active_, link)) return;
  lost_streams_ += link.lost_streams();
  ended_bytes_ -= static_cast<int64_t>(link.acknowledged_bytes());
}

void Links::drop_ended() {
  std::erase_if(active_, [&](const Link* link) {
    if (!has_ended(link->rank())) return false;
    lost_streams_ -= link->lost_streams();
    ended_bytes_ += static_cast<int64_t>(link->acknowledged_bytes());
    return true;
  });
}

Link& Links::connect_to(int rank) {
  Link& link = make_link(rank);
  contacts_[rank].asked_s = now_s();
  connecting_.push_back(rank);
  if (rank < membership_.rank) {
    for (int stream = 0; stream < first_streams(rank); ++stream) dial(rank, stream);
  } else {
    call(rank, kCallAfter_s);
  }
  return link;
}

bool Links::is_connecting(int rank) const {
  return links_[rank] && !contacts_[rank].stands && !contacts_[rank].lost;
}

bool Links::shakes_hands() const {
  const auto attempts = [&](uint64_t key) {
    const Attempt& a = attempts_.at(key);
    return a.conversation && !contacts_[a.rank].stands;
  };
  const auto arrives = [&](const auto& guest) {
    const Conversation& c = guest.second.conversation;
    return c.greeted() && !contacts_[c.hello().from].stands;
  };
  return std::any_of(pending_.begin(), pending_.end(), attempts) ||
         std::any_of(guests_.begin(), guests_.end(), arrives);
}

void Links::dial(int rank, int stream) {
  const int rails = contacts_[rank].rails;
  Attempt& attempt = attempts_[key_of(rank, stream)];
  attempt.rank = rank;
  attempt.stream = stream;
  attempt.transport = shares_memory(rank) ? Transport::kShm
                      : stream < rails    ? Transport::kRdma
                                          : Transport::kTcp;
  attempt.place = stream < rails ? stream : stream - rails;
  pending_.insert(key_of(rank, stream));
  wake_to_meet();
}

void Links::call(int rank, double in_s) {
  Attempt& attempt = attempts_[key_of(rank, kCallStream)];
  attempt.rank = rank;
  attempt.stream = kCallStream;
  attempt.transport = Transport::kCall;
  attempt.tries = 0;
  attempt.retry_at_s = now_s() + in_s;
  attempt.first_pause_s = kFirstCallPause_s;
  attempt.most_pause_s = kMostCallPause_s;
  pending_.insert(key_of(rank, kCallStream));
  wake_to_meet();
}

// A thread in poll() sleeps until a time that it chose before.
void Links::wake_to_meet() {
  if (!asleep_) return;
  interrupt();
  asleep_ = false;
}

bool Links::is_needed(const Attempt& a) const {
  const Contact& contact = contacts_[a.rank];
  const Link& link = *links_[a.rank];
  if (contact.lost || link.departed) return false;
  if (!contact.stands) return true;
  if (a.transport != Transport::kCall) return link.misses(a.stream);
  return link.alive() && link.living_streams() < contact.opened && a.tries < kMostCalls;
}

void Links::open_streams(int rank, int count) {
  link_to(rank);
  Contact& contact = contacts_[rank];
  count = std::min(count, contact.most);
  if (count <= contact.opened) return;
  for (int stream = contact.opened; rank < membership_.rank && stream < count; ++stream)
    dial(rank, stream);
  contact.opened = count;
  opening_until_s_ = now_s() + kOpening_s;
  if (rank > membership_.rank) call(rank, 0);
}

void Links::add_stream(int rank, int stream, int streams, std::unique_ptr<Pipe> pipe) {
  if (!links_[rank]) make_link(rank);
  Contact& contact = contacts_[rank];
  Link& link = *links_[rank];
  activate(link);
  contact.opened = std::max(contact.opened, stream + 1);
  if (contact.stands) {
    watch_pipe(*pipe, rank, stream);
    link.revive(stream, std::move(pipe));
    return;
  }
  contact.pipes.resize(streams);
  contact.pipes[stream] = std::move(pipe);
  // A rail may break as soon as it is used, so a link stands only with a TCP stream beside its
  // rails.
  const auto first = contact.pipes.begin();
  if (std::any_of(first, first + std::min(contact.rails + 1, streams),
                  [](const auto& p) { return !p; }))
    return;
  for (int i = 0; i < streams; ++i) {
    if (!contact.pipes[i]) continue;
    watch_pipe(*contact.pipes[i], rank, i);
    link.attach(i, streams, std::move(contact.pipes[i]));
  }
  contact.pipes.clear();
  contact.stands = true;
  unformed_ -= is_neighbour(rank);
  std::erase(connecting_, rank);
  link.use_streams(choice_.count());  // and writes what waits
}

void Links::choose_streams(double now) {
  uint64_t under_way = 0;
  int64_t acknowledged = ended_bytes_;
  for (const Link* link : active_) {
    const int rank = link->rank();
    Contact& contact = contacts_[rank];
    const uint64_t of_link = link->under_way_bytes();
    if (link->sends_large() || of_link >= kPressedBytes) {
      const int wanted = contact.rails + choice_.count();
      if (contact.opened < std::min(wanted, contact.most)) open_streams(rank, wanted);
    }
    under_way += of_link;
    acknowledged += static_cast<int64_t>(link->acknowledged_bytes());
  }
  const bool pressed = under_way >= kPressedBytes && (pending_.empty() || now > opening_until_s_);
  if (choice_.observe(pressed, acknowledged, now)) use_choice();
}

void Links::on_new_settings() {
  if (choice_.begin_round_again()) use_choice();
}

void Links::use_choice() {
  for (Link* link : active_) link->use_streams(choice_.count());
}

// Schedules new connections for broken streams that this rank had opened.
void Links::redial() {
  int lost = 0;
  for (const Link* link : active_) lost += link->lost_streams();
  if (lost == lost_streams_ || options_.redial_s <= 0) return;
  lost_streams_ = lost;
  const double now = now_s();
  for (auto& [key, a] : attempts_) {
    if (a.transport != Transport::kTcp || !contacts_[a.rank].stands || pending_.contains(key) ||
        !links_[a.rank]->misses(a.stream))
      continue;
    if (a.first_pause_s != options_.redial_s || now - a.connected_s > kMostRedialPause_s)
      a.tries = 0;
    a.first_pause_s = options_.redial_s;
    a.most_pause_s = kMostRedialPause_s;
    a.retry_at_s = now + a.pause_s();
    pending_.insert(key);
  }
}

// Gives up a link that never stood.
void Links::end_contact(int rank, std::string_view reason, bool has_left) {
  Contact& contact = contacts_[rank];
  contact.lost = true;
  contact.pipes.clear();
  std::erase(connecting_, rank);
  links_[rank]->departed = has_left;
  events_.losses.push_back({rank, contact.target, std::string(reason), false});
}

// Gives up links that were asked for long ago; returns when to look again.
double Links::expire_contacts(double now) {
  double next = std::numeric_limits<double>::infinity();
  for (size_t i = connecting_.size(); i-- > 0;) {
    const int rank = connecting_[i];
    const Contact& contact = contacts_[rank];
    const double until = contact.asked_s + options_.connect_timeout_s;
    if (now < until) {
      next = std::min(next, until);
    } else {
      end_contact(rank,
                  fmt::format("not connected after {:g} s (STRETTO_CONNECT_TIMEOUT){}{}",
                              options_.connect_timeout_s, contact.reason.empty() ? "" : ": ",
                              contact.reason),
                  false);
    }
  }
  return next;
}

std::string Links::missing() const {
  std::vector<int> ranks;
  std::string reason;
  for (int rank = 0; rank < membership_.size; ++rank) {
    const Contact& contact = contacts_[rank];
    if (!is_neighbour(rank) || contact.stands) continue;
    ranks.push_back(rank);
    if (!reason.empty() || contact.reason.empty()) continue;
    reason =
        fmt::format("{}{}{}", contact.target, contact.target.empty() ? "" : ": ", contact.reason);
  }
  return fmt::format("rank{} {}{}", ranks.size() > 1 ? "s" : "", list_ranks(ranks),
                     reason.empty() ? "" : fmt::format(" ({})", reason));
}

}  // namespace stretto::comm
