// What a rank receives in the rounds of a Negotiator, for the fuzzer and for the test that replays
// its seeds. The bytes are a script: which names this rank submits, and what the other ranks send.
// Most messages are this rank's own with other bits, names and questions, because a message of any
// bytes does not get past the lengths. tests/fuzz/link_seeds.py writes scripts.
#pragma once

#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <vector>

#include "stretto/base/error.h"
#include "stretto/comm/negotiate/negotiate.h"
#include "stretto/comm/negotiate/round_messages.h"

namespace stretto::comm {

class RoundScript {
 public:
  RoundScript(const uint8_t* data, size_t size) : at_(data), left_(size) {}

  // False when a result is none that a Negotiator may give.
  bool run() {
    const uint8_t what = byte();
    if (what % 4 == 1) return read_length();
    if (what % 4 == 2) return read_texts();
    ranks_ = 2 + what / 4 % 7;
    Negotiator negotiator(1, ranks_, /*stall_s=*/2);
    try {
      for (int round = 0; left_ > 0 && round < 50; ++round) {
        if (!this->round(negotiator, round)) return false;
      }
    } catch (const FormatError&) {  // the job ends
    }
    return true;
  }

 private:
  uint8_t byte() {
    if (left_ == 0) return 0;
    --left_;
    return *at_++;
  }

  std::vector<std::byte> rest() {
    std::vector<std::byte> bytes(left_);
    if (left_ > 0) std::memcpy(bytes.data(), at_, left_);
    left_ = 0;
    return bytes;
  }

  // All zeros, all ones, one bit, or any.
  uint64_t word() {
    const uint8_t what = byte();
    if (what < 64) return uint64_t{1} << what;
    if (what < 96) return 0;
    if (what < 128) return ~uint64_t{0};
    uint64_t value = 0;
    for (int i = 0; i < 8; ++i) value = value << 8 | byte();
    return value;
  }

  bool round(Negotiator& negotiator, int now_s) {
    const uint8_t news = byte();
    for (int i = 0; i < news % 4; ++i) {
      const std::string name(1, static_cast<char>('a' + byte() % 16));
      try {
        negotiator.add(name, "f32", now_s);
      } catch (const InvalidArgument&) {  // still open
      }
    }
    if (news / 4 % 16 == 1) negotiator.join();
    if (news / 4 % 16 == 2) negotiator.leave();
    negotiator.start();
    for (int k = 0; k < negotiator.exchanges(); ++k) negotiator.combine(message(negotiator));
    const Negotiator::Result result = negotiator.finish(now_s);
    const auto is_rank = [&](int rank) { return rank >= -1 && rank < ranks_; };
    for (const Stall& stall : result.stalls) {
      if (stall.missing.empty() ||
          !std::all_of(stall.missing.begin(), stall.missing.end(), is_rank))
        return false;
    }
    for (const Negotiator::Agreed& agreed : result.agreed) {
      if (agreed.differs) negotiator.settle(agreed.hash, "f64");
    }
    return is_rank(result.last_joined) && is_rank(result.left);
  }

  std::vector<std::byte> message(const Negotiator& negotiator) {
    std::vector<std::byte> own = negotiator.outgoing();
    const uint8_t what = byte();
    if (what % 8 == 0) return own;
    if (what % 8 == 1) return rest();
    // Flags, who has left, and the counts of words, new names, differences and questions.
    std::array<uint32_t, 6> counts;
    std::memcpy(counts.data(), own.data(), sizeof counts);
    std::vector<uint64_t> words((own.size() - sizeof counts) / 8);
    std::memcpy(words.data(), own.data() + sizeof counts, 8 * words.size());
    if (what & 8) counts[0] = byte() % 4;
    if (what & 16) counts[1] = byte() % 16;
    if (what & 32) {  // more names, differences or questions than this rank has
      const size_t which = 3 + byte() % 3;
      const size_t per_entry = which == 3 ? 2 : 1;
      size_t at = 1 + 2 * size_t{counts[2]} + 2 * size_t{counts[3]};
      if (which > 3) at += counts[4];
      if (which > 4) at += counts[5];
      const uint64_t known = words[byte() % words.size()];
      const uint64_t name = what & 64 ? known : word();
      words.insert(words.begin() + static_cast<ptrdiff_t>(at), per_entry, name);
      ++counts[which];
    }
    for (int i = what >> 7 ? byte() % 4 : 0; i > 0; --i) {
      const size_t at = byte() % words.size();
      words[at] = word();
    }
    std::vector<std::byte> made(sizeof counts + 8 * words.size());
    std::memcpy(made.data(), counts.data(), sizeof counts);
    std::memcpy(made.data() + sizeof counts, words.data(), 8 * words.size());
    return made;
  }

  // The length that stands before a message, and what of the message is there.
  bool read_length() {
    const std::vector<std::byte> part = rest();
    try {
      const size_t bytes = message_bytes(part), here = beginning(part).size();
      return bytes <= kMostRoundBytes && here <= bytes &&
             here + rest_bytes(bytes, part.size()) == bytes;
    } catch (const FormatError&) {
      return true;
    }
  }

  bool read_texts() {
    const size_t count = byte() % 4;
    std::vector<int64_t> sizes(1 + byte() % 4);
    for (int64_t& size : sizes) size = static_cast<int8_t>(byte());
    if (byte() % 16 == 0) sizes[0] = static_cast<int64_t>(word());
    const std::vector<std::byte> bytes = rest();
    std::string all(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    try {
      const auto total = static_cast<size_t>(total_bytes(sizes));
      if (total > (1 << 16)) return total <= static_cast<size_t>(kMostTextBytes);
      all.resize(total);
      const auto texts = unpack_texts(all, sizes, count);
      size_t used = 0;
      for (const auto& of_ranks : texts) {
        for (const std::string& text : of_ranks) used += text.size() + 1;
      }
      return used == total;
    } catch (const FormatError&) {
      return true;
    }
  }

  const uint8_t* at_;
  size_t left_;
  int ranks_ = 2;
};

}  // namespace stretto::comm
