#include <algorithm>
#include <cstring>
#include <utility>

#include "stretto/base/clock.h"
#include "stretto/base/error.h"
#include "stretto/comm/link/link_state.h"

namespace stretto::comm {

Link::Link(LinkSettings settings, Events* events)
    : settings_(settings), events_(events), eager_memory_(kSparePieceBytes) {}
Link::~Link() = default;

void Link::send(const Message& m) {
  if (forgotten_) return;
  auto out = std::make_shared<Outgoing>();
  out->key = m.key;
  out->fingerprint = m.fingerprint;
  out->data = static_cast<const std::byte*>(m.data);
  out->bytes = m.bytes;
  out->ahead = m.ahead;
  out->streams = m.streams;
  out->tells_written = m.tells_written;
  sends_large_ |= m.bytes > settings_.chunk_bytes;
  if (m.bytes >= settings_.chunk_bytes) following_bytes_ = m.following_bytes;
  const bool eager = promised_ - consumed_there_ + m.bytes <= settings_.eager_limit_bytes;
  if (m.bytes > 0 && (m.rendezvous || !eager)) {
    out->ticket = m.ticket;
    awaiting_cts_.emplace(m.key, std::move(out));
    send_rendezvous(m.key, m.fingerprint, m.bytes, kRts);
    waits_ = true;
    return;
  }
  promised_ += m.bytes;
  if (m.bytes <= kCopyBytes) {
    if (m.bytes > 0) {
      out->own = std::make_unique_for_overwrite<std::byte[]>(m.bytes);
      std::memcpy(out->own.get(), m.data, m.bytes);
      out->data = out->own.get();
    }
    if (m.ticket.owner) events_->done.push_back(m.ticket);
  } else {
    out->ticket = m.ticket;
  }
  uncut_bytes_ += m.bytes;
  queue_.push_back(std::move(out));
  waits_ = true;
}

// An RTS or CTS is queued like a message, so that it is sent again when its stream breaks.
void Link::send_rendezvous(const MessageKey& key, uint64_t fingerprint, uint64_t announced_bytes,
                           uint8_t flag) {
  auto out = std::make_shared<Outgoing>();
  out->key = key;
  out->fingerprint = fingerprint;
  out->announced_bytes = announced_bytes;
  out->flags = flag;
  queue_.push_front(std::move(out));
}

void Link::on_cts(const MessageKey& key) {
  const auto found = awaiting_cts_.find(key);
  if (found == awaiting_cts_.end()) return;
  promised_ += found->second->bytes;
  uncut_bytes_ += found->second->bytes;
  queue_.push_back(std::move(found->second));
  awaiting_cts_.erase(found);
}

// The sender stops at the eager limit, so it must hear of consumed bytes well before that.
bool Link::should_report_consumed() const {
  return consumed_ - reported_consumed_ >= settings_.eager_limit_bytes / 4 && consumed_ > 0;
}

void Link::send_control(FrameType type, const MessageKey& key, int origin, std::string_view text) {
  const Frame frame{.type = type, .key = key, .origin = origin};
  const std::string cut(text.substr(0, kMaxText));
  const bool everywhere = type == FrameType::kAbort || type == FrameType::kBye;
  for (auto& stream : streams_) {
    if (!stream || !stream->alive) continue;
    stream->controls.emplace_back(frame, cut);
    if (!everywhere) break;
  }
  flush();
}

bool Link::flush() {
  waits_ = leaves_chunks_ = false;
  bool more = false;
  int living = 0;
  for (auto& stream : streams_) {
    if (!stream || !stream->alive) continue;
    const int place = living++;
    if (stream->full) continue;
    if (stream->next_part == stream->parts.size()) fill(*stream, place);
    if (stream->parts.empty() || !write(*stream)) continue;
    more |= !queue_.empty() || !again_.empty() || !stream->controls.empty();
  }
  leaves_chunks_ &= !queue_.empty();
  waits_ |= more || leaves_chunks_;
  return more;
}

bool Link::is_paced(const Outgoing& message) const {
  return settings_.paced && message.bytes > kPacedBytes;
}

// Whether the stream that is number `place` of those that work may carry the message.
bool Link::carries(int place, const Outgoing& message) const {
  return place < (message.streams > 0 ? message.streams : used_streams_);
}

bool Link::is_carried_by_one(const Outgoing& message) const {
  return std::min(alive_, message.streams > 0 ? message.streams : used_streams_) == 1;
}

// The rate of a stream and the bytes that it has still to move. None when it is not known.
std::optional<StreamLoad> Link::load(Stream& s, double now) {
  int64_t held = s.pipe->held_bytes();
  if (held < 0) return std::nullopt;
  const int64_t acknowledged = s.sent_bytes - held;
  for (size_t i = s.next_part; i < s.parts.size(); ++i)
    held += static_cast<int64_t>(s.parts[i].iov_len);
  s.rate.observe(acknowledged, held, now);
  const std::optional<double> rate = s.rate.bytes_per_s(now);
  if (!rate) return std::nullopt;
  return StreamLoad{*rate, held};
}

bool Link::is_slow(const Stream& s, double now) const {
  const double rate = s.rate.bytes_per_s(now).value_or(0);
  const auto much_faster = [&](const auto& other) {
    return other && other->alive && other->rate.bytes_per_s(now).value_or(0) > kFaster * rate;
  };
  return rate > 0 && std::any_of(streams_.begin(), streams_.end(), much_faster);
}

// Whether faster streams write all that is queued or follows before this one would write the next
// chunk.
bool Link::leaves_to_faster(Stream& s, const Outgoing& message) {
  if (alive_ < 2 || message.bytes < settings_.chunk_bytes) return false;
  const double now = now_s();
  if (s.rate.due(now)) load(s, now);
  if (!is_slow(s, now)) return false;
  const auto own = load(s, now);
  const auto chunk = static_cast<int64_t>(settings_.chunk_bytes);
  if (!own || static_cast<double>(own->held + chunk) < kLongChunk_s * own->bytes_per_s)
    return false;
  others_.clear();
  int living = 0;
  for (auto& other : streams_) {
    if (!other || !other->alive || !carries(living++, message) || other.get() == &s) continue;
    if (const auto others_load = load(*other, now)) others_.push_back(*others_load);
  }
  const auto left = static_cast<int64_t>(uncut_bytes_ + following_bytes_);
  return finish_first(others_, *own, chunk, (left + chunk - 1) / chunk);
}

bool Link::awaits_pacing() const {
  if (queue_.empty() || !is_paced(*queue_.front())) return false;
  int living = 0;
  for (const auto& stream : streams_) {
    if (!stream || !stream->alive || !carries(living++, *queue_.front())) continue;
    if (stream->free()) return true;
  }
  return false;
}

void Link::begin_paced_chunk() {
  may_begin_paced_ = true;
  flush();
  may_begin_paced_ = false;
}

int Link::paced_chunks_since(double begun_s) const {
  int count = 0;
  for (const auto& stream : streams_) count += stream && stream->paced_since_s > begun_s;
  return count;
}

// Takes what a stream writes next: control frames, then chunks of broken streams, then new chunks.
// It is called only when the stream has written everything before, so a slow stream takes little.
void Link::fill(Stream& s, int place) {
  s.parts.clear();
  s.chunks.clear();
  s.texts.clear();
  s.copies.clear();
  s.frames = s.next_part = 0;
  s.texts.reserve(kFramesPerWrite);  // parts point into it
  // Without memory nothing of a frame is written, rather than a part of it.
  s.parts.reserve(kPartsPerFrame * kFramesPerWrite);
  s.chunks.reserve(kFramesPerWrite);
  while (!s.controls.empty() && s.frames < kFramesPerWrite) {
    auto [frame, text] = std::move(s.controls.front());
    s.controls.pop_front();
    frame.length = static_cast<uint32_t>(text.size());
    s.texts.push_back(std::move(text));
    add_frame(s, frame, reinterpret_cast<const std::byte*>(s.texts.back().data()));
  }
  uint64_t& bytes = s.write_bytes = 0;
  uint64_t factor = 1;
  while (s.frames < kFramesPerWrite && bytes < factor * settings_.batch_bytes) {
    if (!again_.empty()) {
      const uint64_t id = again_.front();
      if (id >= first_unacknowledged_ &&
          !carries(place, *unacknowledged_[id - first_unacknowledged_].message))
        break;
      again_.pop_front();
      if (id < first_unacknowledged_) continue;  // it was acknowledged meanwhile
      add_chunk(s, id, true);
    } else if (!queue_.empty()) {
      const std::shared_ptr<Outgoing>& message = queue_.front();
      if (!carries(place, *message)) break;
      if (is_paced(*message)) {
        if (!may_begin_paced_) break;
        may_begin_paced_ = false;
        s.paced_since_s = now_s();
      } else if (leaves_to_faster(s, *message)) {
        leaves_chunks_ = true;
        break;
      }
      factor = is_carried_by_one(*message) && !is_paced(*message) ? s.chunk_factor : 1;
      const uint64_t length =
          std::min(factor * settings_.chunk_bytes, message->bytes - message->cut);
      unacknowledged_.push_back({message, message->cut, static_cast<uint32_t>(length), s.index});
      message->cut += length;
      uncut_bytes_ -= length;
      if (message->cut == message->bytes) queue_.pop_front();
      add_chunk(s, first_unacknowledged_ + unacknowledged_.size() - 1, false);
    } else {
      break;
    }
    bytes += unacknowledged_[s.chunks.back() - first_unacknowledged_].length;
  }
  const bool acknowledges = retains() && (report_soon_ || unreported_bytes_ >= kReportBytes);
  if (s.frames == 0 && (acknowledges || should_report_consumed()))
    add_frame(s, {.type = FrameType::kAck}, nullptr);
}

void Link::add_frame(Stream& s, Frame frame, const std::byte* payload) {
  frame.epoch = settings_.epoch;
  frame.received = reported_low_ = arrived_low_;
  frame.consumed = reported_consumed_ = consumed_;
  unreported_bytes_ = 0;
  report_soon_ = false;
  s.sent_since_beat = true;
  FrameTag& tag = s.tags[s.frames];
  Stream::SentHeader& sent = s.headers[s.frames++];
  sent.header = encode_frame(frame);
  size_t header_bytes = kFrameBytes;
  if (s.seals) {
    s.seals->add(sent.header);
    if (frame.length == 0 || frame.length > kWholeBytes) {
      sent.tag = s.seals->tag();
      header_bytes += kTagBytes;
    }
  }
  s.parts.push_back({&sent, header_bytes});
  if (frame.length == 0) return;
  s.parts.push_back({const_cast<std::byte*>(payload), frame.length});
  if (!s.seals) return;
  s.seals->add({payload, frame.length});
  tag = s.seals->tag();
  s.parts.push_back({tag.data(), tag.size()});
}

void Link::add_chunk(Stream& s, uint64_t id, bool again) {
  Chunk& chunk = unacknowledged_[id - first_unacknowledged_];
  chunk.stream = s.index;
  const Outgoing& message = *chunk.message;
  const bool ends = chunk.offset + chunk.length == message.bytes;
  add_frame(
      s,
      {.type = FrameType::kData,
       .flags = static_cast<uint8_t>(message.flags | (ends && message.ticket.owner ? kAckSoon : 0)),
       .attempt = again ? ++chunk.attempt : chunk.attempt,
       .length = chunk.length,
       .key = message.key,
       .chunk = id,
       .offset = chunk.offset,
       .total = message.flags ? message.announced_bytes : message.bytes,
       .fingerprint = message.fingerprint,
       .ahead = message.ahead},
      message.data + chunk.offset);
  s.chunks.push_back(id);
  payload_bytes_ += chunk.length;
  resent_ += again;
}

// A stream that carries its messages alone writes more at a time while the network takes it at
// once: larger chunks cost fewer calls and packets, and keep nothing else waiting.
void Link::choose_chunks(Stream& s, bool written_at_once) {
  if (!written_at_once) {
    s.chunk_factor = 1;
    s.write_bytes = 0;  // what is left of them says nothing
  } else if (s.write_bytes >= s.chunk_factor * settings_.chunk_bytes) {
    s.chunk_factor =
        s.pipe->network_took_all() ? std::min(2 * s.chunk_factor, kMostChunkFactor) : 1;
  }
}

// False when the pipe did not take everything.
bool Link::write(Stream& s) {
  while (s.next_part < s.parts.size()) {
    const int64_t wrote = s.pipe->write(std::span(s.parts).subspan(s.next_part));
    if (wrote == kBroken) {
      // What the remote rank sent before it closed its end is read first: it may say why.
      const std::string reason = s.pipe->reason();
      while (s.alive && read(s)) {
      }
      lose(s, reason);
      return false;
    }
    if (wrote == kWouldBlock) {
      s.full = true;
      choose_chunks(s, false);
      return false;
    }
    s.sent_bytes += wrote;
    for (auto left = static_cast<size_t>(wrote); left > 0;) {
      iovec& part = s.parts[s.next_part];
      const size_t step = std::min(left, part.iov_len);
      part.iov_base = static_cast<std::byte*>(part.iov_base) + step;
      part.iov_len -= step;
      left -= step;
      if (part.iov_len == 0) ++s.next_part;
    }
  }
  s.paced_since_s = 0;
  choose_chunks(s, true);
  // The remote rank has what it waits for; this one waits now.
  if (s.seals) s.seals->prepare();
  if (s.checks) s.checks->prepare();
  note_written(s);
  // A link of one stream never sends a chunk again, so writing it counts as acknowledged.
  const uint64_t last = s.chunks.empty() ? 0 : s.chunks.back();
  s.chunks.clear();
  acknowledge(retains() ? 0 : last);
  return true;
}

// Tells what a stream has written since fill().
void Link::note_written(const Stream& s) {
  for (const uint64_t id : s.chunks) {
    if (id < first_unacknowledged_) continue;
    Chunk& chunk = unacknowledged_[id - first_unacknowledged_];
    if (!chunk.message->tells_written || std::exchange(chunk.written, true)) continue;
    events_->written.push_back({chunk.message->ticket, chunk.offset, chunk.length});
  }
}

void Link::acknowledge(uint64_t received) {
  acknowledged_to_ = std::max(acknowledged_to_, received);
  while (!unacknowledged_.empty() && first_unacknowledged_ <= acknowledged_to_) {
    const Chunk& chunk = unacknowledged_.front();
    // A copy that is being sent again still needs the data; write() calls this when it is done.
    if (chunk.stream >= 0) {
      const auto& writing = streams_[chunk.stream]->chunks;
      if (std::find(writing.begin(), writing.end(), first_unacknowledged_) != writing.end()) return;
    }
    Outgoing& message = *chunk.message;
    message.acknowledged += chunk.length;
    delivered_ += chunk.length;
    if (message.acknowledged == message.bytes && message.ticket.owner)
      events_->done.push_back(message.ticket);
    unacknowledged_.pop_front();
    ++first_unacknowledged_;
  }
}

void Link::on_writable(int stream) {
  Stream& s = *streams_[stream];
  s.full = false;
  waits_ = true;
}

void Link::forget_messages() {
  forgotten_ = true;
  queue_.clear();
  uncut_bytes_ = 0;
  awaiting_cts_.clear();
  again_.clear();
  for (auto& s : streams_) {
    if (!s) continue;
    s->in_payload = s->in_payload && s->alive;
    s->keep = false;
    s->incoming = nullptr;
    s->piece.reset();
    s->is_rendezvous = false;
    if (!s->alive) continue;
    for (size_t i = s->next_part; i < s->parts.size(); ++i) {
      iovec& part = s->parts[i];
      auto copy = std::make_unique_for_overwrite<std::byte[]>(part.iov_len);
      std::memcpy(copy.get(), part.iov_base, part.iov_len);
      part.iov_base = copy.get();
      s->copies.push_back(std::move(copy));
    }
    s->chunks.clear();
  }
  unacknowledged_.clear();
  incoming_.clear();
  unasked_ = 0;
}

bool Link::flushed() const {
  for (const auto& s : streams_) {
    if (s && s->alive && (s->next_part < s->parts.size() || !s->controls.empty())) return false;
  }
  return queue_.empty() && again_.empty();
}

bool Link::idle() const { return flushed() && unacknowledged_.empty() && awaiting_cts_.empty(); }

bool Link::owes() const {
  const auto ticketed = [](const Outgoing& message) { return message.ticket.owner != nullptr; };
  for (const auto& message : queue_) {
    if (ticketed(*message)) return true;
  }
  for (const Chunk& chunk : unacknowledged_) {
    if (ticketed(*chunk.message)) return true;
  }
  if (!awaiting_cts_.empty()) return true;
  for (const auto& [key, incoming] : incoming_) {
    if (incoming->expected) return true;
  }
  return false;
}

}  // namespace stretto::comm
