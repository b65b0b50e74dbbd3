// What ranks exchange around a Negotiator's messages: lengths and texts. Another rank chose them,
// so they are checked before memory is taken for them. Pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace stretto::comm {

// The most that a Negotiator's message may take: a million new names in one round.
inline constexpr size_t kMostRoundBytes = 16 << 20;
// The most that the descriptions may take that all ranks together exchange after a round.
inline constexpr int64_t kMostTextBytes = 256 << 20;

// The first message of an exchange: the length of the Negotiator's message, and its beginning.
// `size` is its own length, the same on both sides.
std::vector<std::byte> first_part(std::span<const std::byte> message, size_t size);
// How many bytes of the message follow in a second one.
size_t rest_bytes(size_t message_bytes, size_t first_part_bytes);
// Reads the length of the whole message. Throws FormatError when it exceeds kMostRoundBytes.
size_t message_bytes(std::span<const std::byte> first_part);
// The part of the message that lies in `first_part`.
std::span<const std::byte> beginning(std::span<const std::byte> first_part);

// Ranks exchange texts as one string each: every text and a zero byte.
std::string pack_texts(const std::vector<std::string>& texts);
// The sum of what each rank's string takes. Throws FormatError when one is negative or the sum
// exceeds kMostTextBytes.
int64_t total_bytes(std::span<const int64_t> sizes);
// `all` has the ranks' strings one after another, of these sizes: result[i][rank]. Throws
// FormatError when one has not `count` texts.
std::vector<std::vector<std::string>> unpack_texts(std::string_view all,
                                                   std::span<const int64_t> sizes, size_t count);

}  // namespace stretto::comm
