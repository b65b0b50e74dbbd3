// The mock's calls: what a card and its library do when they are asked.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "stretto/comm/link/verbs_objects_testing.h"

namespace stretto::comm::testing {

// Under the fabric's lock.
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

  // With a blocking channel the real call would wait, which a rail must never do.
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

}  // namespace stretto::comm::testing
