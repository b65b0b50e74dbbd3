#include "stretto/comm/link/verbs_testing.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

#include "stretto/comm/link/verbs_objects_testing.h"

namespace stretto::comm::testing {

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

}  // namespace stretto::comm::testing
