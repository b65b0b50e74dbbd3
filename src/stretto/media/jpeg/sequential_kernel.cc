#include "stretto/media/jpeg/sequential_kernel.h"

#include <bit>
#include <cstdlib>
#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "stretto/media/jpeg/sequential_kernel.cc"
#include "stretto/base/simd_targets.h"

#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "stretto/media/jpeg/inverse-inl.h"

HWY_BEFORE_NAMESPACE();
namespace stretto::media::jpeg::HWY_NAMESPACE {

struct Places {
  uint8_t of[64];  // in a group
};
constexpr Places make_places() {
  Places p{};
  for (int k = 0; k < 64; ++k) {
    p.of[k] = static_cast<uint8_t>(kNatural[k] / 8 * 8 * kGroup + kNatural[k] % 8);
  }
  return p;
}
constexpr Places kPlaces = make_places();

// The bits of the data, the next one first in `buffer`. Behind the first marker there are zeros,
// and `made_up` counts them.
struct BitReader {
  const uint8_t *at, *end;
  uint64_t buffer = 0;
  int count = 0;  // of bits in `buffer` that are used up by nobody; others may be there already
  int made_up = 0;

  // At least 56 bits.
  HWY_INLINE void refill() {
    if (HWY_LIKELY(end - at >= 8)) {
      uint64_t word;
      std::memcpy(&word, at, sizeof word);
      word = __builtin_bswap64(word);
      constexpr uint64_t kOnes = 0x0101010101010101, kHighs = kOnes << 7;
      if (HWY_LIKELY(((~word - kOnes) & word & kHighs) == 0)) {  // no byte is FF
        buffer |= word >> count;
        at += (63 - count) >> 3;
        count |= 56;
        return;
      }
    }
    *this = refilled_by_bytes(*this);
  }
  // Takes and returns it by value: whose address is known to nobody stays in registers.
  static HWY_NOINLINE BitReader refilled_by_bytes(BitReader in) {
    while (in.count < 56) {
      uint64_t byte = 0;
      if (in.at < in.end && *in.at != 0xFF) {
        byte = *in.at++;
      } else if (in.end - in.at >= 2 && in.at[1] == 0) {
        byte = 0xFF;
        in.at += 2;
      } else {
        in.made_up += 8;
      }
      in.buffer |= byte << (56 - in.count);
      in.count += 8;
    }
    return in;
  }
  HWY_INLINE void use(int bits) {
    buffer <<= bits;
    count -= bits;
  }
  HWY_INLINE int64_t real() const { return count - made_up; }
};

// libjpeg accepts padding of any bits, and nothing else before the marker.
HWY_INLINE bool restart(BitReader& in, int number) {
  if (in.real() < 0 || in.real() >= 8 || in.end - in.at < 2 || in.at[0] != 0xFF ||
      in.at[1] != 0xD0 + number) {
    return false;
  }
  in = {.at = in.at + 2, .end = in.end};
  return true;
}

// The entry of a code that is longer than kFirstBits; 0 if there is none.
HWY_NOINLINE uint32_t long_code(const HuffmanTable& table, uint64_t buffer) {
  for (int bits = kFirstBits + 1; bits <= 16; ++bits) {
    const auto code = static_cast<int32_t>(buffer >> (64 - bits));
    if (code <= table.last[bits]) {
      return entry_of(table.symbol[(code + table.offset[bits]) & 255], bits, table.dc);
    }
  }
  return 0;
}

// The entry of the symbol that comes next; 0 if there is none. A symbol and its value take at most
// 31 bits.
HWY_INLINE uint32_t next_symbol(const BitReader& in, const HuffmanTable& table) {
  const uint32_t entry = table.first[in.buffer >> (64 - kFirstBits)];
  return HWY_LIKELY(entry != 0) ? entry : long_code(table, in.buffer);
}

// The value of the symbol at the front of `buffer`, without a branch: a first bit of 0 says that it
// is negative, and its bits are those of the value turned round (T.81, F.2.2.1).
struct Value {
  uint32_t size;      // |value|
  uint32_t negative;  // all ones if it is
  HWY_INLINE int32_t with_sign(uint32_t v) const {
    return static_cast<int32_t>((v ^ negative) - negative);
  }
};
HWY_INLINE Value value_of(uint32_t entry, uint64_t buffer) {
  const uint64_t bits = buffer << code_bits(entry);
  const auto negative = static_cast<uint64_t>(static_cast<int64_t>(~bits) >> 63);
  return {static_cast<uint32_t>((bits ^ negative) >> 1 >> value_shift(entry)),
          static_cast<uint32_t>(negative)};
}

HWY_INLINE bool read_difference(BitReader& in, const HuffmanTable& table, int32_t& dc) {
  in.refill();
  const uint32_t entry = next_symbol(in, table);
  const Value value = value_of(entry, in.buffer);
  // Where there is no code any number may come out; what is wrong is found below.
  dc = static_cast<int32_t>(static_cast<uint32_t>(dc) +
                            static_cast<uint32_t>(value.with_sign(value.size)));
  in.use(used_bits(entry));
  return entry != 0 && dc <= 32767 && dc >= -32768;
}

// A block whose coefficients nobody needs: as many symbols at once as kFirstBits bits tell apart.
HWY_INLINE bool skip_block(BitReader& state, const ScanComponent& c, int32_t& dc) {
  BitReader in = state;
  if (!read_difference(in, *c.dc, dc)) return false;
  const HuffmanTable& ac = *c.ac;
  int k = 1;
  while (k < 64) {
    if (in.count < 32) in.refill();
    const uint32_t several = ac.several[in.buffer >> (64 - kFirstBits)];
    const int next = k + skip_of(several);
    if (HWY_LIKELY(several != 0 && next < 64)) {
      in.use(used_bits(several));
      k = next;
      if (several & kAtTheEnd) break;
      continue;
    }
    const uint32_t entry = next_symbol(in, ac);
    if (entry == 0) return false;
    in.use(used_bits(entry));
    k += skip_of(entry) + 1;
    if (k > 64 && k <= kEndOfBlock) return false;
  }
  state = in;
  return true;
}

// libjpeg reads up to eight bytes that it does not need yet, and complains of a file that ends
// there without a marker.
HWY_INLINE bool goes_on(const BitReader& in) {
  constexpr int64_t kAhead = 16;
  if (in.end - in.at >= kAhead) return true;
  for (const uint8_t* p = in.at; in.end - p >= 2; ++p) {
    if (p[0] == 0xFF && p[1] != 0 && p[1] != 0xFF) return true;
  }
  return false;
}

enum class Block : uint8_t { kWrong, kFlat, kWhole };

// A block whose coefficients go to `to`.
HWY_INLINE Block read_block(BitReader& state, const ScanComponent& c, int32_t& dc,
                            int16_t* HWY_RESTRICT to) {
  BitReader in = state;
  if (HWY_UNLIKELY(!read_difference(in, *c.dc, dc))) return Block::kWrong;
  const HuffmanTable& ac = *c.ac;
  const uint32_t* HWY_RESTRICT quantisation = c.quantisation;
  uint64_t sum = 0;  // of |coefficient|
  int k = 1;
  while (k < 64) {
    in.refill();
    // 56 bits are enough for one symbol of the table and one of another code.
    for (int i = 0; i < 2 && k < 64; ++i) {
      const uint32_t entry = next_symbol(in, ac);
      if (HWY_UNLIKELY(entry == 0)) return Block::kWrong;
      const uint64_t buffer = in.buffer;
      in.use(used_bits(entry));
      k += skip_of(entry);
      if (k > 63) {
        if (HWY_UNLIKELY(k < kEndOfBlock)) return Block::kWrong;
        break;
      }
      const Value value = value_of(entry, buffer);
      const uint32_t size = value.size * quantisation[k];
      to[kPlaces.of[k]] = static_cast<int16_t>(value.with_sign(size));
      sum += size;
      ++k;
    }
  }
  state = in;
  const int64_t first = int64_t{dc} * quantisation[0];
  if (sum + static_cast<uint64_t>(std::abs(first)) > kLargestSum) return Block::kWrong;
  if (k == kEndOfBlock + 1) return Block::kFlat;
  to[0] = static_cast<int16_t>(first);
  return Block::kWhole;
}

// Blocks that wait until a vector is full.
struct Queue {
  HWY_ALIGN int16_t coefficients[64 * kGroup] = {};
  uint8_t* to[kGroup];
  int64_t stride[kGroup];
  int count = 0;

  HWY_INLINE void add(uint8_t* at, int64_t bytes) {
    to[count] = at;
    stride[count] = bytes;
    if (++count < kGroup) return;
    inverse(coefficients, to, stride);
    count = 0;
  }
  void finish() {
    if (kGroup == 1 || count == 0) return;
    uint8_t unused[8 * 8];
    for (int b = count; b < kGroup; ++b) {
      to[b] = unused;
      stride[b] = 8;
    }
    inverse(coefficients, to, stride);
    count = 0;
  }
};

// A block whose coefficients are all 0 but the first, which the transform divides by 8.
HWY_INLINE void fill_block(int32_t first, uint8_t* to, int64_t stride) {
  const int value = ((first + 4) >> 3) + 128;
  const auto byte = static_cast<uint8_t>(value < 0 ? 0 : value > 255 ? 255 : value);
  for (int r = 0; r < 8; ++r) std::memset(to + r * stride, byte, 8);
}

template <bool kKeep>
HWY_INLINE bool read_mcu(BitReader& in, const Scan& scan, int64_t mcu, int64_t row,
                         int32_t* HWY_RESTRICT dc, Queue& queue) {
  for (int i = 0; i < scan.count; ++i) {
    const ScanComponent& c = scan.component[i];
    for (int v = 0; v < c.v; ++v) {
      for (int h = 0; h < c.h; ++h) {
        const int64_t x = mcu * c.h + h, y = row * c.v + v;
        if (!kKeep || x >= c.blocks_x || y >= c.blocks_y) {
          if (!skip_block(in, c, dc[i])) return false;
          continue;
        }
        const Block read = read_block(in, c, dc[i], queue.coefficients + 8 * queue.count);
        if (read == Block::kWrong) return false;
        uint8_t* const to = c.to + 8 * ((y - c.first_y) * c.stride + (x - c.first_x));
        if (read == Block::kFlat) {
          fill_block(dc[i] * static_cast<int32_t>(c.quantisation[0]), to, c.stride);
        } else {
          queue.add(to, c.stride);
        }
      }
    }
  }
  return true;
}

bool decode(const Scan& scan) {
  BitReader in{.at = scan.data, .end = scan.end};
  Queue queue;
  int32_t dc[3] = {};
  int number = 0;
  int64_t left = scan.restart_interval > 0 ? scan.restart_interval : INT64_MAX;
  for (int64_t row = 0; row < scan.last_row; ++row) {
    const bool keep = row >= scan.first_row;
    for (int64_t mcu = 0; mcu < scan.mcus_x; ++mcu) {
      if (HWY_UNLIKELY(left-- == 0)) {
        if (!restart(in, number)) return false;
        number = (number + 1) % 8;
        left = scan.restart_interval - 1;
        std::memset(dc, 0, sizeof dc);
      }
      const bool good = keep && mcu >= scan.first_mcu && mcu < scan.last_mcu
                            ? read_mcu<true>(in, scan, mcu, row, dc, queue)
                            : read_mcu<false>(in, scan, mcu, row, dc, queue);
      if (!good) return false;
    }
    if (in.real() < 0) return false;
  }
  queue.finish();
  return goes_on(in);
}

int group() { return kGroup; }

void inverse_of_group(int16_t* coefficients, uint8_t* const* to, const int64_t* stride) {
  inverse(coefficients, to, stride);
}

}  // namespace stretto::media::jpeg::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace stretto::media::jpeg {

bool decode_scan(const Scan& scan, Isa isa) { return STRETTO_ISA_SELECT(isa, decode)(scan); }

int inverse_group(Isa isa) { return STRETTO_ISA_SELECT(isa, group)(); }

void inverse_transform(int16_t* coefficients, uint8_t* const* to, const int64_t* stride, Isa isa) {
  STRETTO_ISA_SELECT(isa, inverse_of_group)(coefficients, to, stride);
}

}  // namespace stretto::media::jpeg
#endif
