// The streams of a link: how they begin, fall silent, break and are replaced.
#include <algorithm>

#include "stretto/base/clock.h"
#include "stretto/base/error.h"
#include "stretto/comm/link/link_state.h"

namespace stretto::comm {

std::unique_ptr<Link::Stream> Link::make_stream(int index, std::unique_ptr<Pipe> pipe) {
  auto stream = std::make_unique<Stream>();
  stream->index = index;
  stream->name = pipe->name();
  if (pipe->keys) {
    stream->seals.emplace(pipe->keys->sends);
    stream->checks.emplace(pipe->keys->receives);
  }
  stream->pipe = std::move(pipe);
  stream->ready = true;
  stream->full = stream->pipe->starts_full();
  stream->last_heard_s = now_s();
  return stream;
}

void Link::attach(int index, int count, std::unique_ptr<Pipe> pipe) {
  stream_count_ = count;
  if (static_cast<int>(streams_.size()) <= index) streams_.resize(index + 1);
  STRETTO_CHECK(!streams_[index], "stream {} to rank {} was attached twice", index, settings_.rank);
  streams_[index] = make_stream(index, std::move(pipe));
  ++alive_;
}

// A new stream has no history to agree on: unacknowledged chunks are sent again over any stream,
// and the receiver recognises them by number.
void Link::revive(int index, std::unique_ptr<Pipe> pipe) {
  waits_ = true;
  if (static_cast<int>(streams_.size()) <= index || !streams_[index]) {
    attach(index, stream_count_, std::move(pipe));
    return;
  }
  std::unique_ptr<Stream> fresh = make_stream(index, std::move(pipe));
  fresh->sent_bytes = streams_[index]->sent_bytes;
  fresh->received_bytes = streams_[index]->received_bytes;
  std::swap(streams_[index], fresh);
  ++alive_;  // first, because lose() ends the link when no stream is left
  lose(*fresh, "replaced by the remote rank");
  ++revived_;
}

bool Link::may_revive(int stream, int streams) const {
  return retains() && streams == stream_count_ && stream < stream_count_ && alive() && !departed &&
         !forgotten_;
}

bool Link::misses(int stream) const {
  if (!may_revive(stream, stream_count_)) return false;
  return stream >= static_cast<int>(streams_.size()) || !streams_[stream] ||
         !streams_[stream]->alive;
}

void Link::lose(Stream& s, std::string reason, bool silent) {
  if (!s.alive) return;
  s.alive = false;
  s.ended = departed;
  ++lost_;
  s.reason = std::move(reason);
  s.pipe.reset();  // closes it, so that the remote rank notices
  s.parts.clear();
  s.chunks.clear();
  s.next_part = 0;
  s.paced_since_s = 0;
  s.in_payload = false;
  s.incoming = nullptr;  // the incomplete chunk does not count
  s.piece.reset();
  s.is_rendezvous = false;
  for (size_t i = 0; i < unacknowledged_.size(); ++i) {
    if (unacknowledged_[i].stream != s.index) continue;
    unacknowledged_[i].stream = -1;
    again_.push_back(first_unacknowledged_ + i);
  }
  // Another stream sends its control frames, and reports at once which chunks have arrived.
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

void Link::cut(int stream, std::string_view reason) {
  lose(*streams_[stream], std::string(reason));
  flush();
}

void Link::give_up(std::string_view reason) {
  for (auto& stream : streams_) {
    if (stream) lose(*stream, std::string(reason), true);
  }
}

void Link::beat(double stream_limit_s) {
  const double now = now_s(), heard = last_heard_s();
  for (auto& s : streams_) {
    if (!s || !s->alive) continue;
    const double silence_s = now - s->last_heard_s;
    if (alive_ > 1 && silence_s > stream_limit_s && heard > now - stream_limit_s / 2) {
      lose(*s, fmt::format("silent for {:.1f} s", silence_s));
      continue;
    }
    // If the last heartbeat still waits for room, one is enough.
    if (!s->sent_since_beat && s->controls.empty())
      s->controls.emplace_back(Frame{.type = FrameType::kHeartbeat}, "");
    s->sent_since_beat = false;
  }
  flush();
}

void Link::excuse_silence(double pause_s) {
  const double now = now_s();
  for (auto& s : streams_) {
    if (s) s->last_heard_s = std::min(s->last_heard_s + pause_s, now);
  }
}

double Link::last_heard_s() const {
  double last = 0;
  for (const auto& s : streams_) {
    if (s) last = std::max(last, s->last_heard_s);
  }
  return last;
}

std::vector<Link::StreamState> Link::streams() const {
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
