#include "stretto/comm/link/rdma.h"

#include <fmt/core.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <deque>
#include <utility>

#include "stretto/comm/link/rdma_queues.h"

namespace stretto::comm {
namespace {

constexpr uint32_t kMagic = 0x4d525453;  // "STRM", little-endian
struct Header {
  uint32_t magic, bytes, credits, number;
};
constexpr uint32_t kMessageBytes = kSlotBytes - sizeof(Header);
constexpr uint32_t kKeptCredits = 1;  // for a message that only gives credits
constexpr int kCompletionsPerPoll = 16;
constexpr std::byte kReady{0x52};

// An endpoint as it is sent.
struct Wire {
  char magic[4];
  uint8_t version, mtu, link_layer, zero;
  verbs::Gid gid;
  uint16_t lid, zeros;
  uint32_t qp, psn, slots, slot_bytes;
};
constexpr char kWireMagic[4] = {'S', 'T', 'R', 'V'};
constexpr uint8_t kWireVersion = 1;
constexpr size_t kSealedBytes = sizeof(Wire) + sizeof(Mac);
static_assert(sizeof(Wire) == 44);

Role other(Role role) { return role == Role::kConnector ? Role::kAcceptor : Role::kConnector; }

class RdmaPipe : public Pipe {
 public:
  RdmaPipe(std::shared_ptr<RdmaPort> port, Fd socket, const Proof& proof, Role role,
           const std::string& remote)
      : port_(std::move(port)),
        socket_(std::move(socket)),
        proof_(proof),
        role_(role),
        name_(fmt::format("rdma {} -> {}", port_->name(), remote)) {
    std::string why;
    queues_ = RdmaQueues::create(port_, &why);
    if (!queues_) {
      fail(why);
      return;
    }
    for (uint32_t i = queues_->slots(); i > 0; --i) free_.push_back(i - 1);
    say_endpoint();
  }

  int64_t write(std::span<const iovec> parts) override {
    if (!connected()) return outcome();
    int64_t wrote = 0;
    size_t part = 0, begin = 0;
    while (part < parts.size()) {
      // Takes no events off the descriptor, because they must wake a thread that sleeps.
      if (!has_room()) poll();
      if (!has_room()) break;
      const uint32_t slot = free_.back();
      std::byte* const to = queues_->send_slot(slot) + sizeof(Header);
      uint32_t bytes = 0;
      while (part < parts.size() && bytes < kMessageBytes) {
        const size_t step = std::min<size_t>(kMessageBytes - bytes, parts[part].iov_len - begin);
        std::memcpy(to + bytes, static_cast<const std::byte*>(parts[part].iov_base) + begin, step);
        bytes += static_cast<uint32_t>(step);
        begin += step;
        if (begin == parts[part].iov_len) ++part, begin = 0;
      }
      if (bytes == 0) break;
      post(bytes);
      wrote += bytes;
    }
    if (!reason_.empty()) return kBroken;
    wants_room_ |= wrote == 0;
    return wrote;
  }

  int64_t read(std::span<const iovec> parts) override {
    if (!connected()) return outcome();
    if (arrived_.empty()) pump();
    if (arrived_.empty()) {
      if (!reason_.empty()) return kBroken;
      if (!gone()) return kWouldBlock;
      pump();  // it may have written after the last look and before its end
      if (arrived_.empty()) {
        fail("closed by the remote rank");
        return kBroken;
      }
    }
    int64_t got = 0;
    for (const iovec& part : parts) {
      for (size_t filled = 0; filled < part.iov_len && !arrived_.empty();) {
        Arrived& from = arrived_.front();
        const size_t step = std::min<size_t>(part.iov_len - filled, from.end - from.begin);
        std::memcpy(static_cast<std::byte*>(part.iov_base) + filled,
                    queues_->receive_slot(from.slot) + from.begin, step);
        filled += step;
        got += static_cast<int64_t>(step);
        from.begin += static_cast<uint32_t>(step);
        if (from.begin < from.end) continue;
        post_receive(from.slot);
        arrived_.pop_front();
      }
    }
    give_credits();
    return got;
  }

  std::vector<int> descriptors() const override {
    if (!queues_) return {socket_.get()};
    return {queues_->event_descriptor(), socket_.get()};
  }

  // A completion between the last poll and arm() causes no event, so this polls once more after
  // arm(). That poll leaves events on the descriptor, because a taken event needs another arm().
  bool prepare_to_sleep() override {
    if (state_ != State::kUp) return !reason_.empty();
    queues_->take_events();
    if (!queues_->arm()) fail("the completion queue gives no events");
    poll();
    return !arrived_.empty() || !reason_.empty();
  }

  bool starts_full() const override { return true; }
  bool regained_room() override {
    if (!wants_room_ || state_ != State::kUp || !reason_.empty() || !has_room()) return false;
    wants_room_ = false;
    return true;
  }

  const std::string& name() const override { return name_; }
  const std::string& reason() const override { return reason_; }

 private:
  enum class State : uint8_t { kAwaitsEndpoint, kAwaitsReady, kUp };
  struct Arrived {  // bytes of a receive slot that read() has not taken yet
    uint32_t slot, begin, end;
  };

  int64_t outcome() const { return reason_.empty() ? kWouldBlock : kBroken; }
  bool has_room() const { return credits_ > kKeptCredits && !free_.empty() && reason_.empty(); }

  void fail(std::string_view what) {
    if (reason_.empty())
      reason_ = fmt::format("{} port {}: {}", port_->device, port_->number, what);
  }

  bool say(std::span<const std::byte> bytes) {
    return ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT) ==
           static_cast<ssize_t>(bytes.size());
  }

  void say_endpoint() {
    const RdmaEndpoint own = queues_->endpoint();
    Wire wire{.magic = {},
              .version = kWireVersion,
              .mtu = own.mtu,
              .link_layer = own.link_layer,
              .zero = 0,
              .gid = own.gid,
              .lid = own.lid,
              .zeros = 0,
              .qp = own.qp,
              .psn = own.psn,
              .slots = own.slots,
              .slot_bytes = own.slot_bytes};
    std::memcpy(wire.magic, kWireMagic, sizeof kWireMagic);
    std::array<std::byte, kSealedBytes> text;
    std::memcpy(text.data(), &wire, sizeof wire);
    const Mac mac = seal(proof_, role_, std::span(text).first(sizeof wire));
    std::memcpy(text.data() + sizeof wire, mac.data(), mac.size());
    if (!say(text)) fail("cannot say where its queue pair is");
  }

  // Empty when the endpoint is accepted, else why not.
  std::string take_endpoint() {
    const std::span<const std::byte> text(heard_);
    Wire wire;
    std::memcpy(&wire, text.data(), sizeof wire);
    if (!equal(text.subspan(sizeof wire), seal(proof_, other(role_), text.first(sizeof wire))))
      return "the remote rank's endpoint is not authentic";
    if (std::memcmp(wire.magic, kWireMagic, sizeof kWireMagic) != 0 ||
        wire.version != kWireVersion || wire.slot_bytes != kSlotBytes ||
        wire.slots < kFewestSlots || wire.slots > kMostSlots)
      return "the remote rank's endpoint is malformed";
    if (wire.link_layer != port_->attributes.link_layer)
      return "the remote rank's port is of another kind (InfiniBand and Ethernet)";
    std::string why;
    if (!queues_->connect({.mtu = wire.mtu,
                           .link_layer = wire.link_layer,
                           .lid = wire.lid,
                           .gid = wire.gid,
                           .qp = wire.qp,
                           .psn = wire.psn,
                           .slots = wire.slots,
                           .slot_bytes = wire.slot_bytes},
                          &why))
      return why;
    most_credits_ = wire.slots;
    return say({&kReady, 1}) ? "" : "cannot say that it is ready";
  }

  // Goes on connecting. True when messages can be sent and received.
  bool connected() {
    while (state_ != State::kUp && reason_.empty()) {
      const size_t awaited = state_ == State::kAwaitsEndpoint ? kSealedBytes : 1;
      const ssize_t got =
          recv(socket_.get(), heard_.data() + heard_bytes_, awaited - heard_bytes_, MSG_DONTWAIT);
      if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return false;
      if (got <= 0) {
        fail("closed by the remote rank before it was connected");
        return false;
      }
      heard_bytes_ += static_cast<size_t>(got);
      if (heard_bytes_ < awaited) continue;
      heard_bytes_ = 0;
      if (state_ == State::kAwaitsEndpoint) {
        const std::string why = take_endpoint();
        if (!why.empty()) fail(why);
        state_ = State::kAwaitsReady;
      } else if (heard_[0] == kReady) {
        credits_ = most_credits_;
        state_ = State::kUp;
      } else {
        fail("the remote rank is not ready");
      }
    }
    return state_ == State::kUp;
  }

  // After it is connected, nothing is sent over the socket.
  bool gone() const {
    char byte;
    const ssize_t got = recv(socket_.get(), &byte, 1, MSG_DONTWAIT | MSG_PEEK);
    return got >= 0 || (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR);
  }

  void pump() {
    queues_->take_events();
    poll();
  }

  // Handles all completions.
  void poll() {
    std::array<verbs::Completion, kCompletionsPerPoll> some;
    int count;
    while ((count = queues_->poll(some.data(), kCompletionsPerPoll)) > 0) {
      for (int i = 0; i < count; ++i) complete(some[i]);
    }
    if (count < 0) fail("the completion queue cannot be polled");
    give_credits();
  }

  void complete(const verbs::Completion& c) {
    const bool receive = (c.id & RdmaQueues::kReceiveId) != 0;
    if (c.status != verbs::kSuccess) {
      // A flushed request was outstanding when another failed, whose status says why.
      const bool flushed = c.status == verbs::kFlushed;
      if (only_flushed_ && !flushed) reason_.clear();
      if (reason_.empty()) {
        only_flushed_ = flushed;
        fail(fmt::format("{}: {} (status {})", receive ? "receive" : "send",
                         port_->provider->wc_status_str(c.status), c.status));
      }
      return;
    }
    const auto slot = static_cast<uint32_t>(c.id & ~RdmaQueues::kReceiveId);
    if (!receive) {
      free_.push_back(slot);
    } else if (reason_.empty()) {
      receive_message(slot, c.byte_count);
    }
  }

  void receive_message(uint32_t slot, uint32_t byte_count) {
    Header h;
    if (byte_count < sizeof h || byte_count > kSlotBytes) {
      fail(fmt::format("a message of {} bytes came", byte_count));
      return;
    }
    std::memcpy(&h, queues_->receive_slot(slot), sizeof h);
    if (h.magic != kMagic || h.bytes != byte_count - sizeof h || (h.bytes == 0 && h.credits == 0)) {
      fail(fmt::format("a damaged message came: {} bytes, of which its header says {}",
                       byte_count - sizeof h, h.bytes));
      return;
    }
    if (h.number != received_++) {
      fail(fmt::format("message {} came instead of {}", h.number, received_ - 1));
      return;
    }
    if (h.credits > most_credits_ - credits_) {
      fail(fmt::format("{} credits came for {} messages", h.credits, most_credits_ - credits_));
      return;
    }
    credits_ += h.credits;
    if (h.bytes > 0) {
      arrived_.push_back({slot, sizeof h, byte_count});
    } else {
      post_receive(slot);
    }
  }

  void post_receive(uint32_t slot) {
    const int error = queues_->post_receive(slot);
    if (error != 0) fail(fmt::format("a receive cannot be posted: {}", std::strerror(error)));
    ++owed_;
  }

  // Sends `bytes` bytes from the last free slot.
  void post(uint32_t bytes) {
    const uint32_t slot = free_.back();
    free_.pop_back();
    const Header h{kMagic, bytes, std::exchange(owed_, 0), sent_++};
    std::memcpy(queues_->send_slot(slot), &h, sizeof h);
    --credits_;
    const int error = queues_->post_send(slot, bytes + sizeof h);
    if (error != 0) fail(fmt::format("a send cannot be posted: {}", std::strerror(error)));
  }

  void give_credits() {
    if (state_ == State::kUp && reason_.empty() && owed_ >= queues_->slots() / 2 && credits_ > 0 &&
        !free_.empty())
      post(0);
  }

  const std::shared_ptr<RdmaPort> port_;
  Fd socket_;
  const Proof proof_;
  const Role role_;
  const std::string name_;
  std::string reason_;
  bool only_flushed_ = false;
  std::unique_ptr<RdmaQueues> queues_;
  State state_ = State::kAwaitsEndpoint;
  std::array<std::byte, kSealedBytes> heard_{};
  size_t heard_bytes_ = 0;

  std::vector<uint32_t> free_;               // slots to send from
  uint32_t credits_ = 0, most_credits_ = 0;  // receives that the remote rank has posted
  uint32_t owed_ = 0;  // receives posted here of which the remote rank has not been told
  uint32_t sent_ = 0, received_ = 0;  // messages
  std::deque<Arrived> arrived_;
  bool wants_room_ = true;
};

}  // namespace

std::unique_ptr<Pipe> rdma_pipe(std::shared_ptr<RdmaPort> port, Fd socket, const Proof& proof,
                                Role role, const std::string& remote) {
  return std::make_unique<RdmaPipe>(std::move(port), std::move(socket), proof, role, remote);
}

}  // namespace stretto::comm
