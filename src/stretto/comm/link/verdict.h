// A verdict says why a job ends.
#pragma once

#include <string>
#include <string_view>
#include <tuple>

#include "stretto/comm/link/frame.h"

namespace stretto::comm {

// Several ranks may find the same failure, each on its own link and with its own text. Every rank
// that finds or hears of a failure notifies all others once, and all ranks take the least verdict.
struct Verdict {
  int origin = -1;   // the rank that failed; -1: none in particular
  int finder = 0;    // the rank that found the failure
  std::string link;  // the stream on which it was found; empty: none
  std::string text;
  friend bool operator<(const Verdict& a, const Verdict& b) {
    return std::tie(a.origin, a.finder) < std::tie(b.origin, b.finder);
  }
};

// Key and payload of a kAbort frame with this verdict; the frame has its own field for the origin.
// Ranks that are not connected to all others agree in rounds (Links::rounds_to_reach_all).
inline MessageKey abort_key(const Verdict& v, int round = 1) {
  return {.sequence = static_cast<uint64_t>(round), .tag = static_cast<uint32_t>(v.finder)};
}
inline std::string abort_text(const Verdict& v) { return v.link + '\0' + v.text; }

inline Verdict parse_abort(const Frame& frame, std::string_view payload) {
  const size_t zero = payload.find('\0');
  Verdict v{.origin = frame.origin, .finder = static_cast<int>(frame.key.tag), .link{}, .text{}};
  if (zero == payload.npos) {
    v.text = payload;
  } else {
    v.link = payload.substr(0, zero);
    v.text = payload.substr(zero + 1);
  }
  return v;
}

}  // namespace stretto::comm
