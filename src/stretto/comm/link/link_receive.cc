#include <algorithm>
#include <cstring>

#include "stretto/base/clock.h"
#include "stretto/base/error.h"
#include "stretto/comm/link/link_state.h"

namespace stretto::comm {
namespace {

constexpr std::string_view kWrongTag =
    "received a frame with a wrong tag: somebody without the secret writes into the connection";

constexpr std::string_view kTooMany = "received more messages than this rank may ask for later";

}  // namespace

size_t Link::KeyHash::operator()(const MessageKey& key) const {
  uint64_t hash = key.group;
  for (uint64_t word : {key.sequence, uint64_t{key.unit} << 32 | key.tag}) {
    hash = (hash ^ word) * 0x9e3779b97f4a7c15ull;
    hash ^= hash >> 32;
  }
  return hash;
}

Expect Link::expect(const MessageKey& key, void* to, uint64_t bytes, uint64_t fingerprint,
                    Ticket ticket, int32_t* ahead) {
  const auto found = incoming_.find(key);
  if (found == incoming_.end()) {
    auto in = std::make_unique<Incoming>();
    in->to = static_cast<std::byte*>(to);
    in->bytes = bytes;
    in->fingerprint = fingerprint;
    in->ticket = ticket;
    in->expected = true;
    incoming_.emplace(key, std::move(in));
    return Expect::kPending;
  }
  Incoming& in = *found->second;
  STRETTO_CHECK(!in.expected, "message {}/{} of unit {} expected twice", key.sequence, key.tag,
                key.unit);
  if (in.bytes != bytes || in.fingerprint != fingerprint) return Expect::kMismatch;
  in.to = static_cast<std::byte*>(to);
  in.ticket = ticket;
  in.expected = true;
  --unasked_;
  for (const Incoming::Piece& piece : in.pieces) {
    std::memcpy(in.to + piece.offset, piece.data.get(), piece.length);
    eager_held_ -= piece.length;
    consumed_ += piece.length;
  }
  in.pieces.clear();
  if (in.rts_came) send_rendezvous(key, fingerprint, 0, kCts);
  const bool complete = in.complete();
  if (ahead) *ahead = in.ahead;
  if (complete) erase(key, in);
  if (!queue_.empty() || should_report_consumed()) waits_ = true;
  return complete ? Expect::kComplete : Expect::kPending;
}

uint64_t Link::announced_bytes(const MessageKey& key) const { return incoming_.at(key)->bytes; }

int64_t Link::drop(uint64_t group) {
  std::vector<MessageKey> keys;
  for (const auto& [key, incoming] : incoming_)
    if (key.group == group) keys.push_back(key);
  return std::count_if(keys.begin(), keys.end(), [&](const MessageKey& key) { return drop(key); });
}

bool Link::drop(const MessageKey& key) {
  const auto found = incoming_.find(key);
  if (found == incoming_.end() || found->second->expected || found->second->dropped) return false;
  Incoming& in = *found->second;
  in.dropped = true;
  for (const Incoming::Piece& piece : in.pieces) {
    eager_held_ -= piece.length;
    consumed_ += piece.length;
  }
  in.pieces.clear();
  const bool arrives = std::any_of(streams_.begin(), streams_.end(),
                                   [&](const auto& s) { return s && s->incoming == &in; });
  if (in.complete() || (in.rts_came && !arrives && in.arrived.bytes() == 0)) erase(key, in);
  if (should_report_consumed()) waits_ = true;
  return true;
}

void Link::on_readable(int stream, bool hung_up) {
  Stream& s = *streams_[stream];
  s.ready = true;
  s.hung_up |= hung_up;
  size_t budget = kReadBudget;
  while (s.alive && s.ready && budget > 0) {
    const int64_t before = s.received_bytes;
    if (!read(s) || callers_wait()) break;
    budget -= std::min(budget, static_cast<size_t>(s.received_bytes - before));
  }
  if (s.alive && s.full && s.pipe->regained_room()) s.full = false;
  waits_ = true;  // there may be acknowledgements to send, or chunks of a stream that broke
}

// Reads once from the pipe; a large payload goes straight to its place. False when nothing came.
bool Link::read(Stream& s) {
  iovec parts[2];
  size_t count = 0;
  const bool direct = s.in_payload && s.keep && s.begin == s.end && s.remaining > 0;
  if (direct) parts[count++] = {s.to, s.remaining};
  if (s.begin > 0 && s.begin == s.end) s.begin = s.end = 0;
  if (s.begin > 0) {
    std::memmove(s.buffer.get(), s.buffer.get() + s.begin, s.end - s.begin);
    s.end -= s.begin;
    s.begin = 0;
  }
  parts[count++] = {s.buffer.get() + s.end, kReadBytes - s.end};
  const int64_t got = s.pipe->read({parts, count});
  if (got <= 0) {
    s.ready = false;
    if (got == kBroken) lose(s, s.pipe->reason());
    return false;
  }
  s.received_bytes += got;
  s.last_heard_s = now_s();
  auto bytes = static_cast<size_t>(got);
  // After a short read the pipe is empty and epoll reports what comes later. It does not report a
  // hang-up twice, so a stream that hung up is read until its end.
  size_t room = 0;
  for (size_t i = 0; i < count; ++i) room += parts[i].iov_len;
  s.ready = bytes == room || s.hung_up;
  if (direct) {
    const size_t step = std::min<size_t>(bytes, s.remaining);
    if (s.tail == Stream::Tail::kCheck) s.checks->add({s.to, step});
    s.to += step;
    s.remaining -= step;
    bytes -= step;
    if (s.remaining == 0 && s.tail == Stream::Tail::kNone) end_frame(s);
  }
  s.end += bytes;
  consume(s);
  return true;
}

// Takes frames and parts of payloads out of the buffer.
void Link::consume(Stream& s) {
  while (s.alive) {
    if (!s.in_payload) {
      if (!consume_header(s)) return;
      continue;
    }
    const size_t step = std::min<size_t>(s.end - s.begin, s.remaining);
    const std::byte* from = s.buffer.get() + s.begin;
    if (s.tail == Stream::Tail::kCheck && step > 0) s.checks->add({from, step});
    if (s.frame.type != FrameType::kData) {
      s.text.append(reinterpret_cast<const char*>(from), step);
    } else if (s.keep && step > 0) {
      std::memcpy(s.to, from, step);
      s.to += step;
    }
    s.begin += step;
    s.remaining -= step;
    if (s.remaining > 0 || !consume_tail(s)) return;
    end_frame(s);
  }
}

// Nothing of a header is believed before its tag is checked. A small frame is checked as a whole.
// False when bytes are missing, or wrong.
bool Link::consume_header(Stream& s) {
  const size_t available = s.end - s.begin;
  if (available < kFrameBytes) return false;
  const std::byte* at = s.buffer.get() + s.begin;
  const auto frame = parse_frame(std::span<const std::byte, kFrameBytes>(at, kFrameBytes));
  if (!frame || frame->epoch != settings_.epoch) {
    lose(s, "received bytes that are no frame of this job");
    return false;
  }
  s.begin += kFrameBytes;
  s.tail = Stream::Tail::kNone;
  if (s.checks) {
    const bool whole = frame->length <= kWholeBytes;
    const size_t covered = kFrameBytes + (whole ? frame->length : 0);
    if (available < covered + kTagBytes) {
      s.begin -= kFrameBytes;
      return false;
    }
    s.checks->add({at, covered});
    if (!s.checks->matches(std::span<const std::byte, kTagBytes>(at + covered, kTagBytes))) {
      lose(s, std::string(kWrongTag));
      return false;
    }
    if (!whole || frame->length == 0) s.begin += kTagBytes;
    if (frame->length > 0) s.tail = whole ? Stream::Tail::kSkip : Stream::Tail::kCheck;
  }
  s.frame = *frame;
  begin_frame(s);
  return true;
}

// Takes the tag behind a payload. False when it is not there yet, or wrong.
bool Link::consume_tail(Stream& s) {
  if (s.tail == Stream::Tail::kNone) return true;
  if (s.end - s.begin < kTagBytes) return false;
  const std::span<const std::byte, kTagBytes> tag(s.buffer.get() + s.begin, kTagBytes);
  if (s.tail == Stream::Tail::kCheck && !s.checks->matches(tag)) {
    lose(s, std::string(kWrongTag));
    return false;
  }
  s.begin += kTagBytes;
  return true;
}

void Link::begin_frame(Stream& s) {
  if ((s.frame.received >= first_unacknowledged_ + unacknowledged_.size() && !forgotten_) ||
      s.frame.consumed > promised_) {
    lose(s, "received an acknowledgement of data that were never sent");
    return;
  }
  if (retains()) acknowledge(s.frame.received);
  consumed_there_ = std::max(consumed_there_, s.frame.consumed);
  s.in_payload = true;
  s.remaining = s.frame.length;
  s.keep = false;
  s.incoming = nullptr;
  s.is_rendezvous = false;
  s.text.clear();
  if (s.frame.type == FrameType::kData && !forgotten_) begin_data(s);
}

bool Link::has_arrived(uint64_t chunk) const {
  return chunk <= arrived_low_ || arrived_.contains(chunk);
}

// A sender that keeps to the eager limit always has room; this refuses one that does not.
bool Link::has_room_for(const Frame& f) const {
  const auto found = incoming_.find(f.key);
  if (found != incoming_.end() && found->second->expected) return true;
  uint64_t held = static_cast<uint64_t>(eager_held_) + f.length;
  for (const auto& other : streams_) {
    if (other && other->piece) held += other->frame.length;
  }
  return held <= settings_.eager_limit_bytes;
}

// Whether a byte of the chunk that begins on `s` is in another chunk. Chunks of the same number are
// compared before; this is about what an honest sender never does.
bool Link::overlaps(const Incoming& in, const Stream& s) const {
  const uint64_t begin = s.frame.offset, end = begin + s.frame.length;
  if (in.arrived.overlaps(begin, end)) return true;
  for (const auto& other : streams_) {
    if (!other || other.get() == &s || other->incoming != &in) continue;
    const uint64_t from = other->frame.offset;
    if (from < end && begin < from + other->frame.length) return true;
  }
  return false;
}

// A message that expect() has not asked for. Null: there are too many of them.
Link::Incoming* Link::add_unasked(const Frame& f) {
  if (unasked_ == kMostUnasked) return nullptr;
  auto in = std::make_unique<Incoming>();
  in->bytes = f.total;
  in->fingerprint = f.fingerprint;
  Incoming* added = incoming_.emplace(f.key, std::move(in)).first->second.get();
  ++unasked_;
  events_->arrivals.push_back({settings_.rank, f.key, f.fingerprint, false});
  return added;
}

void Link::erase(const MessageKey& key, const Incoming& in) {
  unasked_ -= !in.expected;
  for (const auto& s : streams_)
    STRETTO_CHECK(!s || s->incoming != &in, "a stream writes into a message that is done");
  incoming_.erase(key);
}

void Link::begin_data(Stream& s) {
  const Frame& f = s.frame;
  if (f.chunk > arrived_low_ + kMostAhead) {
    lose(s, "received a chunk whose number is far ahead");
    return;
  }
  if (has_arrived(f.chunk)) {
    ++duplicates_;
    report_soon_ = true;  // the sender has not seen the acknowledgement
    return;
  }
  for (auto& other : streams_) {
    if (!other || other.get() == &s || !other->in_payload || !other->incoming ||
        other->frame.chunk != f.chunk)
      continue;
    const bool stale = static_cast<int8_t>(f.attempt - other->frame.attempt) < 0;
    lose(stale ? s : *other, "closed by the remote rank");
    if (stale) return;
  }
  if (f.flags & (kRts | kCts)) {
    s.is_rendezvous = true;
    return;
  }
  if (!has_room_for(f)) {
    lose(s, "received more eager bytes than the eager limit allows");
    return;
  }
  const auto found = incoming_.find(f.key);
  Incoming* in = found == incoming_.end() ? add_unasked(f) : found->second.get();
  if (!in) {
    lose(s, std::string(kTooMany));
    return;
  }
  if (in->bytes != f.total || in->fingerprint != f.fingerprint) {
    // The engine compares both ranks' operations and ends the job.
    events_->arrivals.push_back({settings_.rank, f.key, f.fingerprint, true, {f.total, in->bytes}});
    return;
  }
  if (overlaps(*in, s)) {
    lose(s, fmt::format("received bytes from {} to {} of a message twice", f.offset,
                        f.offset + f.length));
    return;
  }
  in->ahead = f.ahead;
  s.incoming = in;
  if (in->expected) {
    s.to = in->to + f.offset;
  } else {
    if (f.length > 0) s.piece = eager_memory_.take(f.length);
    s.to = s.piece.get();
  }
  s.keep = true;
}

void Link::end_frame(Stream& s) {
  s.in_payload = false;
  switch (s.frame.type) {
    case FrameType::kData:
      if (s.incoming) end_data(s);
      if (s.is_rendezvous) end_rendezvous(s);
      break;
    case FrameType::kMismatch:
    case FrameType::kAbort:
    case FrameType::kBye:
      if (s.frame.type == FrameType::kBye) departed = true;
      events_->controls.push_back({settings_.rank, s.frame, std::move(s.text)});
      s.text.clear();
      break;
    case FrameType::kAck:
    case FrameType::kHeartbeat:
      break;
  }
}

void Link::arrive(const Frame& f) {
  const uint64_t low = arrived_low_;
  arrived_.insert(f.chunk);
  while (!arrived_.empty() && *arrived_.begin() == arrived_low_ + 1) {
    arrived_.erase(arrived_.begin());
    ++arrived_low_;
  }
  unreported_bytes_ += f.length;
  // A chunk whose sender waits for it may arrive before lower numbers, over a faster stream. It is
  // acknowledged as soon as the last of those has arrived.
  if (f.flags & kAckSoon) asked_for_ = std::max(asked_for_, f.chunk);
  if (arrived_low_ > low && asked_for_ > reported_low_) report_soon_ = true;
}

void Link::end_data(Stream& s) {
  const Frame& f = s.frame;
  Incoming& in = *s.incoming;
  s.incoming = nullptr;
  arrive(f);
  in.arrived.add(f.offset, f.offset + f.length);
  in.empty_arrived = true;
  if (in.dropped) {
    s.piece.reset();
    consumed_ += f.length;
    if (in.complete()) erase(f.key, in);
    return;
  }
  if (!in.expected) {
    if (s.piece) in.pieces.push_back({f.offset, f.length, std::move(s.piece)});
    eager_held_ += f.length;
    peak_eager_ = std::max(peak_eager_, eager_held_);
    return;
  }
  if (s.piece) std::memcpy(in.to + f.offset, s.piece.get(), f.length);  // expect() came meanwhile
  s.piece.reset();
  consumed_ += f.length;
  if (!in.complete()) return;
  in.ticket.ahead = in.ahead;
  events_->done.push_back(in.ticket);
  erase(f.key, in);
}

void Link::end_rendezvous(Stream& s) {
  s.is_rendezvous = false;
  arrive(s.frame);
  if (s.frame.flags & kRts) {
    on_rts(s);
  } else {
    on_cts(s.frame.key);
  }
}

void Link::on_rts(Stream& s) {
  const Frame& f = s.frame;
  const auto found = incoming_.find(f.key);
  if (found == incoming_.end()) {
    if (Incoming* in = add_unasked(f)) {
      in->rts_came = true;
    } else {
      lose(s, std::string(kTooMany));
    }
    return;
  }
  const Incoming& in = *found->second;
  if (in.bytes != f.total || in.fingerprint != f.fingerprint) {
    events_->arrivals.push_back({settings_.rank, f.key, f.fingerprint, true, {f.total, in.bytes}});
  } else if (in.expected) {
    send_rendezvous(f.key, f.fingerprint, 0, kCts);
  }
}

bool Link::look(bool before_sleep) {
  bool busy = false;
  for (auto& s : streams_) {
    if (!s || !s->alive) continue;
    if (before_sleep ? s->pipe->prepare_to_sleep() : s->pipe->look()) s->ready = true;
    if (s->full && s->pipe->regained_room()) {
      s->full = false;
      busy = waits_ = true;
    }
    busy |= s->ready;
  }
  return busy;
}

void Link::run_ready() {
  for (auto& s : streams_) {
    if (s && s->alive && s->ready) on_readable(s->index, false);
  }
}

}  // namespace stretto::comm
