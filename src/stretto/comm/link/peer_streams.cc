// The streams of a peer: how they come, fall silent, break and come back.
#include <algorithm>

#include "stretto/base/clock.h"
#include "stretto/base/error.h"
#include "stretto/comm/link/peer_state.h"

namespace stretto::comm {

std::unique_ptr<Peer::Stream> Peer::make_stream(int index, std::unique_ptr<Pipe> pipe) {
  auto stream = std::make_unique<Stream>();
  stream->index = index;
  stream->name = pipe->name();
  stream->pipe = std::move(pipe);
  stream->ready = true;
  stream->full = stream->pipe->starts_full();
  stream->last_heard_s = now_s();
  return stream;
}

void Peer::attach(int index, int count, std::unique_ptr<Pipe> pipe) {
  stream_count_ = count;
  if (static_cast<int>(streams_.size()) <= index) streams_.resize(index + 1);
  STRETTO_CHECK(!streams_[index], "stream {} to rank {} twice", index, settings_.rank);
  streams_[index] = make_stream(index, std::move(pipe));
  ++alive_;
}

// What is not acknowledged is sent again wherever it went before, and the receiver knows chunks by
// number, so a stream that begins anew has no past to agree upon.
void Peer::revive(int index, std::unique_ptr<Pipe> pipe) {
  std::unique_ptr<Stream> fresh = make_stream(index, std::move(pipe));
  fresh->sent_bytes = streams_[index]->sent_bytes;
  fresh->received_bytes = streams_[index]->received_bytes;
  std::swap(streams_[index], fresh);
  ++alive_;  // before the old one is given up, which may be the last that this side knows of
  lose(*fresh, "the other side began it anew");
  ++revived_;
  waits_ = true;
}

bool Peer::may_revive(int stream, int streams) const {
  return retains() && streams == stream_count_ && stream < stream_count_ && alive() && !departed &&
         !forgotten_;
}

bool Peer::misses(int stream) const {
  return may_revive(stream, stream_count_) && !streams_[stream]->alive;
}

void Peer::lose(Stream& s, std::string reason, bool silent) {
  if (!s.alive) return;
  s.alive = false;
  s.ended = departed;
  ++lost_;
  s.reason = std::move(reason);
  s.pipe.reset();  // so that the other side notices
  s.parts.clear();
  s.chunks.clear();
  s.next_part = 0;
  s.turn_s = 0;
  s.in_payload = false;
  s.incoming = nullptr;  // what had come of its chunk does not count
  s.piece.reset();
  s.is_note = false;
  for (size_t i = 0; i < unacknowledged_.size(); ++i) {
    if (unacknowledged_[i].stream != s.index) continue;
    unacknowledged_[i].stream = -1;
    again_.push_back(first_unacknowledged_ + i);
  }
  // The other streams take over its control frames, too, and tell at once what has arrived.
  for (auto& other : streams_) {
    if (!other || !other->alive) continue;
    for (auto& control : s.controls) other->controls.push_back(std::move(control));
    break;
  }
  s.controls.clear();
  report_soon_ = true;
  waits_ = true;
  if (--alive_ == 0) events_->losses.push_back({settings_.rank, s.name, s.reason, silent});
}

void Peer::cut(int stream, std::string_view reason) {
  lose(*streams_[stream], std::string(reason));
  flush();
}

void Peer::give_up(std::string_view reason) {
  for (auto& stream : streams_) lose(*stream, std::string(reason), true);
}

void Peer::beat(double stream_limit_s) {
  const double now = now_s(), heard = last_heard_s();
  for (auto& s : streams_) {
    if (!s || !s->alive) continue;
    const double silence_s = now - s->last_heard_s;
    if (alive_ > 1 && silence_s > stream_limit_s && heard > now - stream_limit_s / 2) {
      lose(*s, fmt::format("silent for {:.1f} s", silence_s));
      continue;
    }
    // One is enough where the last one waits for room.
    if (!s->sent_since_beat && s->controls.empty())
      s->controls.emplace_back(Frame{.type = FrameType::kHeartbeat}, "");
    s->sent_since_beat = false;
  }
  flush();
}

void Peer::excuse_silence(double pause_s) {
  const double now = now_s();
  for (auto& s : streams_) {
    if (s) s->last_heard_s = std::min(s->last_heard_s + pause_s, now);
  }
}

double Peer::last_heard_s() const {
  double last = 0;
  for (const auto& s : streams_) {
    if (s) last = std::max(last, s->last_heard_s);
  }
  return last;
}

std::vector<Peer::StreamState> Peer::streams() const {
  std::vector<StreamState> states;
  int living = 0;
  for (const auto& s : streams_) {
    if (!s) continue;
    const bool well = s->alive || s->ended;
    const bool used = s->alive && living++ < used_streams_;
    states.push_back({.name = s->name,
                      .reason = well ? "" : s->reason,
                      .sent_bytes = s->sent_bytes,
                      .received_bytes = s->received_bytes,
                      .alive = well,
                      .used = used});
  }
  return states;
}

}  // namespace stretto::comm
