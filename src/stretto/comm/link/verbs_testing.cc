#include "stretto/comm/link/verbs_testing.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>

namespace stretto::comm {

namespace verbs {
struct Device {
  testing::Fabric* fabric;
  testing::MockCard card;
};
struct Pd {
  Context* context;
  int users = 0;
};
}  // namespace verbs

namespace testing {

using namespace verbs;

struct MockContext : Context {
  int users = 0;
};

struct MockChannel : Channel {
  int write_end;
  MockCq* cq = nullptr;
};

struct MockCq : Cq {
  MockChannel* channel;
  size_t most;
  std::deque<Completion> sends, receives;
  bool armed = false;
  unsigned unacknowledged = 0;
  int users = 0;
};

struct MockQp : Qp {
  uint32_t state = 0, remote = 0, send_psn = 0, receive_psn = 0;
  Gid remote_gid{};
  uint16_t remote_lid = 0;
  QueueSizes sizes;
  std::deque<ReceiveRequest> receives;
  std::deque<Piece> receive_pieces;
  struct Send {
    uint64_t id;
    Piece piece;
  };
  std::deque<Send> sends;          // not transferred
  std::deque<uint64_t> delivered;  // whose completion has not come
};

namespace {

Gid gid_of(const MockCard& card) {
  Gid gid{};
  if (card.ethernet) gid[10] = gid[11] = 0xff;
  gid[15] = static_cast<uint8_t>(card.number);
  return gid;
}

uint16_t lid_of(const MockCard& card) {
  return card.ethernet ? uint16_t{0} : static_cast<uint16_t>(0x100 + card.number);
}

const MockCard& card_of(const Qp* qp) { return qp->context->device->card; }

}  // namespace

// The provider's calls: what a library does, under the fabric's lock.
struct Calls {
  Fabric& f;

  Context* open_device(Device* device) const {
    Fabric::Lock lock(f.mutex_);
    auto* context = new MockContext;
    context->device = device;
    ++f.objects_;
    return context;
  }

  int close_device(Context* context) const {
    Fabric::Lock lock(f.mutex_);
    auto* mine = static_cast<MockContext*>(context);
    if (mine->users > 0) f.fault("a device is closed that is in use");
    --f.objects_;
    delete mine;
    return 0;
  }

  static int query_port(Context* context, uint8_t port, PortAttr* out) {
    const MockCard& card = context->device->card;
    if (port != 1) return EINVAL;
    *out = {};
    out->state = card.active ? kPortActive : 1;
    out->max_mtu = out->active_mtu = 5;
    out->gid_count = 4;
    out->lid = lid_of(card);
    out->link_layer = card.ethernet ? kLinkEthernet : kLinkInfiniband;
    return 0;
  }

  // Entry 0 is the link-local address of RoCE v1, 1 is unused, 2 is what shall be chosen.
  static int query_gid(Context* context, uint8_t, int index, Gid* out) {
    const MockCard& card = context->device->card;
    *out = {};
    if (index == 2 || (index == 0 && !card.ethernet)) *out = gid_of(card);
    if (index == 0 && card.ethernet) *out = {0xfe, 0x80, 0, 0, 0, 0, 0, 0, 1};
    return 0;
  }

  Pd* alloc_pd(Context* context) const {
    Fabric::Lock lock(f.mutex_);
    ++static_cast<MockContext*>(context)->users;
    ++f.objects_;
    return new Pd{context};
  }

  int dealloc_pd(Pd* pd) const {
    Fabric::Lock lock(f.mutex_);
    if (pd->users > 0) f.fault("a protection domain is freed that is in use");
    --static_cast<MockContext*>(pd->context)->users;
    --f.objects_;
    delete pd;
    return 0;
  }

  Mr* reg_mr(Pd* pd, void* address, size_t length, int access) const {
    Fabric::Lock lock(f.mutex_);
    if (!pd->context->device->card.registers) {
      errno = ENOMEM;
      return nullptr;
    }
    if ((access & kLocalWrite) == 0) f.fault("memory is registered that receives cannot write");
    auto* mr = new Mr{.context = pd->context,
                      .pd = pd,
                      .address = address,
                      .length = length,
                      .handle = 0,
                      .local_key = f.next_number_++,
                      .remote_key = 0};
    f.regions_[mr->local_key] = mr;
    ++pd->users;
    ++f.objects_;
    return mr;
  }

  int dereg_mr(Mr* mr) const {
    Fabric::Lock lock(f.mutex_);
    for (const auto& [number, qp] : f.qps_) {
      const auto uses = [&](const Piece& piece) { return piece.local_key == mr->local_key; };
      if (std::any_of(qp->receive_pieces.begin(), qp->receive_pieces.end(), uses) ||
          std::any_of(qp->sends.begin(), qp->sends.end(),
                      [&](const auto& send) { return uses(send.piece); }))
        f.fault("memory is given back that requests refer to");
    }
    f.regions_.erase(mr->local_key);
    --mr->pd->users;
    --f.objects_;
    delete mr;
    return 0;
  }

  // A pipe's reading end: like a channel of the kernel, and unlike an eventfd, it is never
  // writable.
  Channel* create_channel(Context* context) const {
    Fabric::Lock lock(f.mutex_);
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return nullptr;
    auto* channel = new MockChannel;
    channel->context = context;
    channel->fd = ends[0];
    channel->write_end = ends[1];
    ++static_cast<MockContext*>(context)->users;
    ++f.objects_;
    return channel;
  }

  int destroy_channel(Channel* channel) const {
    Fabric::Lock lock(f.mutex_);
    auto* mine = static_cast<MockChannel*>(channel);
    if (mine->cq) f.fault("a completion channel is destroyed that is in use");
    close(mine->fd);
    close(mine->write_end);
    --static_cast<MockContext*>(channel->context)->users;
    --f.objects_;
    delete mine;
    return 0;
  }

  Cq* create_cq(Context* context, int most, Channel* channel) const {
    Fabric::Lock lock(f.mutex_);
    if (most > static_cast<int>(2 * context->device->card.most)) {
      errno = EINVAL;
      return nullptr;
    }
    auto* cq = new MockCq;
    cq->context = context;
    cq->channel = static_cast<MockChannel*>(channel);
    cq->channel->cq = cq;
    cq->most = static_cast<size_t>(most);
    ++static_cast<MockContext*>(context)->users;
    ++f.objects_;
    return cq;
  }

  int destroy_cq(Cq* cq) const {
    Fabric::Lock lock(f.mutex_);
    auto* mine = static_cast<MockCq*>(cq);
    if (mine->users > 0) f.fault("a completion queue is destroyed that is in use");
    if (mine->unacknowledged > 0) f.fault("events are not acknowledged: destroy_cq would hang");
    std::erase(f.events_, mine);
    mine->channel->cq = nullptr;
    --static_cast<MockContext*>(cq->context)->users;
    --f.objects_;
    delete mine;
    return 0;
  }

  // Of a blocking channel it would block.
  int get_cq_event(Channel* channel, Cq** cq, void** user) const {
    auto* mine = static_cast<MockChannel*>(channel);
    if ((fcntl(mine->fd, F_GETFL) & O_NONBLOCK) == 0) {
      Fabric::Lock lock(f.mutex_);
      f.fault("get_cq_event would block");
      return -1;
    }
    char byte;
    if (read(mine->fd, &byte, 1) != 1) return -1;
    Fabric::Lock lock(f.mutex_);
    *cq = mine->cq;
    *user = nullptr;
    ++mine->cq->unacknowledged;
    return 0;
  }

  void acknowledge(Cq* cq, unsigned count) const {
    Fabric::Lock lock(f.mutex_);
    static_cast<MockCq*>(cq)->unacknowledged -= count;
  }

  Qp* create_qp(Pd* pd, QpInit* init) const {
    Fabric::Lock lock(f.mutex_);
    const uint32_t most = pd->context->device->card.most;
    if (init->kind != kReliableConnected || init->sizes.send_requests > most ||
        init->sizes.receive_requests > most) {
      errno = EINVAL;
      return nullptr;
    }
    auto* qp = new MockQp;
    qp->context = pd->context;
    qp->pd = pd;
    qp->send_cq = init->send_cq;
    qp->recv_cq = init->recv_cq;
    qp->number = f.next_number_++;
    qp->sizes = init->sizes;
    ++static_cast<MockCq*>(init->send_cq)->users;
    ++static_cast<MockCq*>(init->recv_cq)->users;
    ++pd->users;
    f.qps_[qp->number] = qp;
    ++f.objects_;
    return qp;
  }

  // With the attributes that the specification demands for each transition, and no others.
  int modify_qp(Qp* qp, QpAttr* attr, int mask) const {
    Fabric::Lock lock(f.mutex_);
    auto* mine = static_cast<MockQp*>(qp);
    const auto is = [&](uint32_t from, uint32_t to, int wanted) {
      return mine->state == from && attr->state == to && mask == wanted;
    };
    if (is(0, kInit, kSetState | kSetPkeyIndex | kSetPort | kSetAccess)) {
      if (attr->port != 1) return EINVAL;
    } else if (is(kInit, kReadyToReceive,
                  kSetState | kSetPath | kSetMtu | kSetRemoteQp | kSetReceivePsn | kSetRemoteReads |
                      kSetMinRnrTimer)) {
      const bool ethernet = card_of(qp).ethernet;
      if (attr->path.has_gid != ethernet || attr->path.port != 1 || attr->mtu < 1 ||
          attr->mtu > 5 || (ethernet && attr->path.gid_index != 2))
        return EINVAL;
      mine->remote = attr->remote_qp;
      mine->remote_gid = attr->path.gid;
      mine->remote_lid = attr->path.lid;
      mine->receive_psn = attr->receive_psn;
    } else if (is(kReadyToReceive, kReadyToSend,
                  kSetState | kSetTimeout | kSetRetries | kSetRnrRetries | kSetSendPsn |
                      kSetReads)) {
      mine->send_psn = attr->send_psn;
    } else {
      return EINVAL;
    }
    mine->state = attr->state;
    return 0;
  }

  int destroy_qp(Qp* qp) const {
    Fabric::Lock lock(f.mutex_);
    auto* mine = static_cast<MockQp*>(qp);
    f.qps_.erase(qp->number);
    --static_cast<MockCq*>(qp->send_cq)->users;
    --static_cast<MockCq*>(qp->recv_cq)->users;
    --qp->pd->users;
    --f.objects_;
    delete mine;
    return 0;
  }

  // Completions of sends and of receives each in their order, and mixed in any.
  int poll_cq(Cq* cq, int most, Completion* out) const {
    Fabric::Lock lock(f.mutex_);
    auto* mine = static_cast<MockCq*>(cq);
    int count = 0;
    while (count < most && !(mine->sends.empty() && mine->receives.empty())) {
      const bool receive = mine->sends.empty() || (!mine->receives.empty() && f.random_() % 2 == 0);
      auto& from = receive ? mine->receives : mine->sends;
      out[count++] = from.front();
      from.pop_front();
    }
    f.done_ += count;
    return count;
  }

  int req_notify_cq(Cq* cq) const {
    std::function<void()> before, after;
    {
      Fabric::Lock lock(f.mutex_);
      std::swap(before, f.before_arm_);
      std::swap(after, f.after_arm_);
    }
    if (before) before();
    {
      Fabric::Lock lock(f.mutex_);
      static_cast<MockCq*>(cq)->armed = true;
    }
    if (after) after();
    return 0;
  }

  int post_send(Qp* qp, SendRequest* request) const {
    Fabric::Lock lock(f.mutex_);
    auto* mine = static_cast<MockQp*>(qp);
    if (mine->state != kReadyToSend && mine->state != kError) return EINVAL;
    if (request->op != kOpSend || request->flags != kSignalled || request->count != 1)
      return EINVAL;
    if (mine->state == kError) {
      f.complete(mine, false, request->id, kFlushed, 0);
      f.settle();
      return 0;
    }
    if (mine->sends.size() + mine->delivered.size() >= mine->sizes.send_requests) return ENOMEM;
    mine->sends.push_back({request->id, *request->pieces});
    f.settle();
    return 0;
  }

  int post_recv(Qp* qp, ReceiveRequest* request) const {
    Fabric::Lock lock(f.mutex_);
    auto* mine = static_cast<MockQp*>(qp);
    if (mine->state == 0 || request->count != 1) return EINVAL;
    if (mine->state == kError) {
      f.complete(mine, true, request->id, kFlushed, 0);
      f.settle();
      return 0;
    }
    if (mine->receives.size() >= mine->sizes.receive_requests) return ENOMEM;
    mine->receives.push_back(*request);
    mine->receive_pieces.push_back(*request->pieces);
    return 0;
  }
};

Fabric::Fabric(Pace pace, unsigned seed) : pace_(pace), random_(seed) {
  if (pace == Pace::kThread) thread_ = std::thread([this] { run(); });
}

Fabric::~Fabric() {
  {
    Lock lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
}

std::shared_ptr<const Provider> Fabric::machine(std::vector<MockCard> cards) {
  std::vector<Device*> own;
  {
    Lock lock(mutex_);
    for (MockCard& card : cards) {
      card.number = next_card_++;
      devices_.push_back(std::make_unique<Device>(Device{this, card}));
      own.push_back(devices_.back().get());
    }
  }
  const Calls c{*this};
  auto p = std::make_shared<Provider>();
  p->get_device_list = [own](int* count) {
    *count = static_cast<int>(own.size());
    auto* list = new Device*[own.size() + 1];
    std::copy(own.begin(), own.end(), list);
    return list;
  };
  p->free_device_list = [](Device** list) { delete[] list; };
  p->get_device_name = [](Device* device) { return device->card.name.c_str(); };
  p->open_device = [c](Device* d) { return c.open_device(d); };
  p->close_device = [c](Context* context) { return c.close_device(context); };
  p->query_port = Calls::query_port;
  p->query_gid = Calls::query_gid;
  p->alloc_pd = [c](Context* context) { return c.alloc_pd(context); };
  p->dealloc_pd = [c](Pd* pd) { return c.dealloc_pd(pd); };
  p->reg_mr = [c](Pd* pd, void* at, size_t n, int a) { return c.reg_mr(pd, at, n, a); };
  p->dereg_mr = [c](Mr* mr) { return c.dereg_mr(mr); };
  p->create_comp_channel = [c](Context* context) { return c.create_channel(context); };
  p->destroy_comp_channel = [c](Channel* channel) { return c.destroy_channel(channel); };
  p->create_cq = [c](Context* context, int most, void*, Channel* channel, int) {
    return c.create_cq(context, most, channel);
  };
  p->destroy_cq = [c](Cq* cq) { return c.destroy_cq(cq); };
  p->get_cq_event = [c](Channel* channel, Cq** cq, void** user) {
    return c.get_cq_event(channel, cq, user);
  };
  p->ack_cq_events = [c](Cq* cq, unsigned count) { c.acknowledge(cq, count); };
  p->create_qp = [c](Pd* pd, QpInit* init) { return c.create_qp(pd, init); };
  p->modify_qp = [c](Qp* qp, QpAttr* attr, int mask) { return c.modify_qp(qp, attr, mask); };
  p->destroy_qp = [c](Qp* qp) { return c.destroy_qp(qp); };
  p->wc_status_str = [](uint32_t status) {
    return status == kRetriesExceeded ? "transport retry counter exceeded" : "an error of the mock";
  };
  p->poll_cq = [c](Cq* cq, int most, Completion* out) { return c.poll_cq(cq, most, out); };
  p->req_notify_cq = [c](Cq* cq, int) { return c.req_notify_cq(cq); };
  p->post_send = [c](Qp* qp, SendRequest* r, SendRequest**) { return c.post_send(qp, r); };
  p->post_recv = [c](Qp* qp, ReceiveRequest* r, ReceiveRequest**) { return c.post_recv(qp, r); };
  p->gid_type = [](const std::string&, int, int index) {
    return index == 2 ? "RoCE v2" : "IB/RoCE v1";
  };
  return p;
}

bool Fabric::step() {
  Lock lock(mutex_);
  return step_locked();
}

// Any queue pair's next transfer or completion, or the next event.
bool Fabric::step_locked() {
  std::vector<std::function<void()>> due;
  for (auto& [number, qp] : qps_) {
    if (!qp->sends.empty()) due.emplace_back([this, qp = qp] { transfer(qp); });
    if (!qp->delivered.empty())
      due.emplace_back([this, qp = qp] {
        const uint64_t id = qp->delivered.front();
        qp->delivered.pop_front();
        complete(qp, false, id, kSuccess, 0);
      });
  }
  if (!events_.empty())
    due.emplace_back([this] {
      MockCq* cq = events_.front();
      events_.pop_front();
      [[maybe_unused]] const ssize_t wrote = write(cq->channel->write_end, "!", 1);
    });
  if (due.empty()) return false;
  due[random_() % due.size()]();
  return true;
}

void Fabric::settle() {
  if (pace_ == Pace::kAtOnce) {
    while (step_locked()) {
    }
  } else if (pace_ == Pace::kThread) {
    wake_.notify_all();
  }
}

void Fabric::run() {
  Lock lock(mutex_);
  while (!stopping_) {
    if (!step_locked()) {
      wake_.wait(lock);
      continue;
    }
    const unsigned chance = random_() % 64;
    lock.unlock();
    if (chance == 0) std::this_thread::sleep_for(std::chrono::microseconds(200));
    if (chance < 8) std::this_thread::yield();
    lock.lock();
  }
}

bool Fabric::covers(MockQp* qp, const Piece& piece) const {
  const auto found = regions_.find(piece.local_key);
  if (found == regions_.end() || found->second->pd != qp->pd) return false;
  const auto begin = reinterpret_cast<uint64_t>(found->second->address);
  return piece.address >= begin && piece.address + piece.length <= begin + found->second->length;
}

// The memory is read now, not when the send was posted: whoever changes it before the completion
// changes what arrives.
void Fabric::transfer(MockQp* qp) {
  const MockQp::Send send = qp->sends.front();
  qp->sends.pop_front();
  uint32_t status = kSuccess;
  const std::string& card = card_of(qp).name;
  if (const auto failing = failing_.find(card); failing != failing_.end()) {
    status = failing->second;
    failing_.erase(failing);
  } else if (!covers(qp, send.piece)) {
    fault("a send from memory that is not registered");
    status = kLocalProtectionError;
  } else {
    std::vector<std::byte> data(send.piece.length);
    std::memcpy(data.data(), reinterpret_cast<const void*>(send.piece.address), data.size());
    if (alter_) alter_(data);
    const auto to = qps_.find(qp->remote);
    const bool reachable =
        to != qps_.end() && !dead_[card] && !dead_[card_of(to->second).name] &&
        (to->second->state == kReadyToReceive || to->second->state == kReadyToSend) &&
        to->second->remote == qp->number && to->second->receive_psn == qp->send_psn &&
        (card_of(qp).ethernet ? qp->remote_gid == gid_of(card_of(to->second))
                              : qp->remote_lid == lid_of(card_of(to->second)));
    status = reachable ? deliver(to->second, std::move(data)) : kRetriesExceeded;
  }
  if (status == kSuccess) {
    qp->delivered.push_back(send.id);
    return;
  }
  complete(qp, false, send.id, status, 0);
  break_down(qp);
}

uint32_t Fabric::deliver(MockQp* to, std::vector<std::byte> data) {
  if (to->receives.empty()) {
    ++rnr_;
    return kRnrRetriesExceeded;
  }
  const uint64_t id = to->receives.front().id;
  const Piece piece = to->receive_pieces.front();
  to->receives.pop_front();
  to->receive_pieces.pop_front();
  if (!covers(to, piece)) {
    fault("a receive into memory that is not registered");
    return kRemoteInvalidRequest;
  }
  if (data.size() > piece.length) {
    complete(to, true, id, kLocalLengthError, 0);
    break_down(to);
    return kRemoteInvalidRequest;
  }
  std::memcpy(reinterpret_cast<void*>(piece.address), data.data(), data.size());
  ++sent_;
  complete(to, true, id, kSuccess, static_cast<uint32_t>(data.size()));
  return kSuccess;
}

void Fabric::complete(MockQp* qp, bool receive, uint64_t id, uint32_t status, uint32_t bytes) {
  auto* cq = static_cast<MockCq*>(receive ? qp->recv_cq : qp->send_cq);
  Completion c{};
  c.id = id;
  c.status = status;
  c.op = receive ? kReceived : 0;
  c.byte_count = bytes;
  c.qp = qp->number;
  (receive ? cq->receives : cq->sends).push_back(c);
  if (cq->sends.size() + cq->receives.size() > cq->most) fault("a completion queue is overrun");
  if (!cq->armed) return;
  cq->armed = false;
  events_.push_back(cq);
  if (pace_ == Pace::kThread) wake_.notify_all();
}

// What is outstanding comes back, in order: sends that were delivered have been.
void Fabric::break_down(MockQp* qp) {
  if (qp->state == kError) return;
  qp->state = kError;
  for (uint64_t id : std::exchange(qp->delivered, {})) complete(qp, false, id, kSuccess, 0);
  for (const auto& send : std::exchange(qp->sends, {})) complete(qp, false, send.id, kFlushed, 0);
  qp->receive_pieces.clear();
  for (const auto& request : std::exchange(qp->receives, {}))
    complete(qp, true, request.id, kFlushed, 0);
}

void Fabric::fail_next(const std::string& card, uint32_t status) {
  Lock lock(mutex_);
  failing_[card] = status;
}

void Fabric::kill(const std::string& card) {
  Lock lock(mutex_);
  dead_[card] = true;
}

void Fabric::set_alter(std::function<void(std::vector<std::byte>&)> alter) {
  Lock lock(mutex_);
  alter_ = std::move(alter);
}

void Fabric::set_around_arm(std::function<void()> before, std::function<void()> after) {
  Lock lock(mutex_);
  before_arm_ = std::move(before);
  after_arm_ = std::move(after);
}

void Fabric::fault(std::string what) { faults_.push_back(std::move(what)); }

int Fabric::objects() {
  Lock lock(mutex_);
  return objects_;
}

std::vector<std::string> Fabric::faults() {
  Lock lock(mutex_);
  return faults_;
}

}  // namespace testing
}  // namespace stretto::comm
