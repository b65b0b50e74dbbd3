// Why a job ends.
#pragma once

#include <string>
#include <string_view>
#include <tuple>

#include "stretto/comm/link/frame.h"

namespace stretto::comm {

// Several ranks may find the same end in different words, each from its own link. All that have
// found or heard of it tell all others, once, and every rank takes the least of what it was told.
struct Verdict {
  int origin = -1;   // the rank to blame; -1: none in particular
  int finder = 0;    // the rank that says so
  std::string link;  // over which it was found; empty: no matter of links
  std::string text;
  friend bool operator<(const Verdict& a, const Verdict& b) {
    return std::tie(a.origin, a.finder) < std::tie(b.origin, b.finder);
  }
};

// As the key and the payload of a kAbort frame; the origin has its own field.
inline MessageKey abort_key(const Verdict& v) { return {.tag = static_cast<uint32_t>(v.finder)}; }
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
