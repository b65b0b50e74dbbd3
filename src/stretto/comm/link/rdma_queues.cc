#include "stretto/comm/link/rdma_queues.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "stretto/comm/link/handshake.h"
#include "stretto/comm/system/children.h"

namespace stretto::comm {
namespace {

// An attempt that is not acknowledged is repeated after 4.096 us * 2^14 = 67 ms, seven times: the
// card gives up within half a second to two, before silence would be noticed.
constexpr uint8_t kTimeout = 14, kRetries = 7;
// A receive is always posted, so this should never matter. If it does, an error after a few
// repetitions is better than endless repetition, which 7 would mean.
constexpr uint8_t kRnrRetries = 3, kMinRnrTimer = 12;  // 0.64 ms
constexpr uint8_t kHopLimit = 64;
constexpr uint32_t kPsnMask = 0xffffff;

std::string refused(const char* what) { return fmt::format("{}: {}", what, std::strerror(errno)); }

}  // namespace

std::unique_ptr<RdmaQueues> RdmaQueues::create(std::shared_ptr<RdmaPort> port,
                                               std::string* reason) {
  std::unique_ptr<RdmaQueues> q(new RdmaQueues(std::move(port)));
  const Nonce nonce = random_nonce();
  std::memcpy(&q->psn_, nonce.data(), sizeof q->psn_);
  q->psn_ &= kPsnMask;
  if (!q->make_channel(reason) || !q->make_queues(reason) || !q->make_memory(reason) ||
      !q->post_receives(reason))
    return nullptr;
  return q;
}

RdmaQueues::~RdmaQueues() {
  const verbs::Provider& v = *port_->provider;
  // The queue pair goes first: after that the card accesses no memory.
  if (qp_) v.destroy_qp(qp_);
  if (cq_) v.destroy_cq(cq_);
  if (channel_) {
    keep_in_children(channel_->fd);
    v.destroy_comp_channel(channel_);
  }
  if (mr_) v.dereg_mr(mr_);
  if (memory_) munmap(memory_, size_t{2} * slots_ * kSlotBytes);
}

bool RdmaQueues::make_channel(std::string* reason) {
  channel_ = port_->provider->create_comp_channel(port_->context);
  const int flags = channel_ ? fcntl(channel_->fd, F_GETFL) : -1;
  if (flags >= 0 && fcntl(channel_->fd, F_SETFL, flags | O_NONBLOCK) == 0) return true;
  *reason = refused("no completion channel");
  return false;
}

// Cards differ in how much a queue holds, and may grant less than they announce.
bool RdmaQueues::make_queues(std::string* reason) {
  const verbs::Provider& v = *port_->provider;
  for (slots_ = kMostSlots; slots_ >= kFewestSlots; slots_ /= 2) {
    cq_ = v.create_cq(port_->context, static_cast<int>(2 * slots_), nullptr, channel_, 0);
    if (!cq_) continue;
    verbs::QpInit init{.user = nullptr,
                       .send_cq = cq_,
                       .recv_cq = cq_,
                       .srq = nullptr,
                       .sizes = {.send_requests = slots_,
                                 .receive_requests = slots_,
                                 .send_pieces = 1,
                                 .receive_pieces = 1,
                                 .inline_bytes = 0},
                       .kind = verbs::kReliableConnected,
                       .signal_all = 0};
    qp_ = v.create_qp(port_->pd, &init);
    if (qp_) break;
    const int error = errno;
    v.destroy_cq(cq_);
    cq_ = nullptr;
    errno = error;
  }
  if (!qp_) {
    *reason = refused("no queue pair");
    return false;
  }
  verbs::QpAttr attr{};
  attr.state = verbs::kInit;
  attr.port = static_cast<uint8_t>(port_->number);
  const int error = v.modify_qp(
      qp_, &attr, verbs::kSetState | verbs::kSetPkeyIndex | verbs::kSetPort | verbs::kSetAccess);
  if (error != 0) *reason = fmt::format("the queue pair does not start: {}", std::strerror(error));
  return error == 0;
}

// Allocates whole pages: forked children do not get the pages that a card uses, so nothing else may
// lie in them.
bool RdmaQueues::make_memory(std::string* reason) {
  const size_t bytes = size_t{2} * slots_ * kSlotBytes;
  void* at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) {
    *reason = refused("no memory");
    return false;
  }
  memory_ = static_cast<std::byte*>(at);
  mr_ = port_->provider->reg_mr(port_->pd, at, bytes, verbs::kLocalWrite);
  if (!mr_)
    *reason = fmt::format("{} KiB of memory cannot be registered: {} (raise `ulimit -l`)",
                          bytes >> 10, std::strerror(errno));
  return mr_ != nullptr;
}

bool RdmaQueues::post_receives(std::string* reason) {
  for (uint32_t i = 0; i < slots_; ++i) {
    const int error = post_receive(i);
    if (error == 0) continue;
    *reason = fmt::format("a receive cannot be posted: {}", std::strerror(error));
    return false;
  }
  return true;
}

RdmaEndpoint RdmaQueues::endpoint() const {
  return {.mtu = static_cast<uint8_t>(port_->attributes.active_mtu),
          .link_layer = port_->attributes.link_layer,
          .lid = port_->attributes.lid,
          .gid = port_->gid,
          .qp = qp_->number,
          .psn = psn_,
          .slots = slots_,
          .slot_bytes = kSlotBytes};
}

bool RdmaQueues::connect(const RdmaEndpoint& other, std::string* reason) {
  const verbs::Provider& v = *port_->provider;
  verbs::QpAttr attr{};
  attr.state = verbs::kReadyToReceive;
  attr.mtu = std::min<uint32_t>(port_->attributes.active_mtu, other.mtu);
  attr.remote_qp = other.qp;
  attr.receive_psn = other.psn;
  attr.min_rnr_timer = kMinRnrTimer;
  attr.path.lid = other.lid;
  attr.path.port = static_cast<uint8_t>(port_->number);
  if (port_->ethernet()) {
    attr.path.has_gid = 1;
    attr.path.gid = other.gid;
    attr.path.gid_index = static_cast<uint8_t>(port_->gid_index);
    attr.path.hop_limit = kHopLimit;
  }
  int error =
      v.modify_qp(qp_, &attr,
                  verbs::kSetState | verbs::kSetPath | verbs::kSetMtu | verbs::kSetRemoteQp |
                      verbs::kSetReceivePsn | verbs::kSetRemoteReads | verbs::kSetMinRnrTimer);
  if (error == 0) {
    attr = {};
    attr.state = verbs::kReadyToSend;
    attr.send_psn = psn_;
    attr.timeout = kTimeout;
    attr.retries = kRetries;
    attr.rnr_retries = kRnrRetries;
    error = v.modify_qp(qp_, &attr,
                        verbs::kSetState | verbs::kSetTimeout | verbs::kSetRetries |
                            verbs::kSetRnrRetries | verbs::kSetSendPsn | verbs::kSetReads);
  }
  if (error != 0)
    *reason = fmt::format("the queue pair does not connect: {}", std::strerror(error));
  return error == 0;
}

int RdmaQueues::post_send(uint32_t slot, uint32_t bytes) {
  verbs::Piece piece{reinterpret_cast<uint64_t>(send_slot(slot)), bytes, mr_->local_key};
  verbs::SendRequest request{};
  request.id = slot;
  request.pieces = &piece;
  request.count = 1;
  request.op = verbs::kOpSend;
  request.flags = verbs::kSignalled;
  verbs::SendRequest* bad = nullptr;
  return port_->provider->post_send(qp_, &request, &bad);
}

int RdmaQueues::post_receive(uint32_t slot) {
  verbs::Piece piece{reinterpret_cast<uint64_t>(receive_slot(slot)), kSlotBytes, mr_->local_key};
  verbs::ReceiveRequest request{
      .id = slot | kReceiveId, .next = nullptr, .pieces = &piece, .count = 1};
  verbs::ReceiveRequest* bad = nullptr;
  return port_->provider->post_recv(qp_, &request, &bad);
}

int RdmaQueues::poll(verbs::Completion* out, int most) {
  return port_->provider->poll_cq(cq_, most, out);
}

// It stays armed until the next completion. If that completion is polled before its event arrives,
// the event still comes and wakes the thread once for nothing.
bool RdmaQueues::arm() {
  if (!armed_) armed_ = port_->provider->req_notify_cq(cq_, 0) == 0;
  return armed_;
}

void RdmaQueues::take_events() {
  verbs::Cq* cq = nullptr;
  void* user = nullptr;
  while (armed_ && port_->provider->get_cq_event(channel_, &cq, &user) == 0) {
    port_->provider->ack_cq_events(cq, 1);
    armed_ = false;
  }
}

}  // namespace stretto::comm
