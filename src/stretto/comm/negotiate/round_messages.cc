#include "stretto/comm/negotiate/round_messages.h"

#include <algorithm>
#include <cstring>

#include "stretto/base/error.h"

namespace stretto::comm {
namespace {

using Length = uint32_t;  // stands before the beginning of the message

[[noreturn]] void fail(const std::string& problem) {
  throw FormatError("negotiation message", -1, problem);
}

}  // namespace

std::vector<std::byte> first_part(std::span<const std::byte> message, size_t size) {
  if (message.size() > kMostRoundBytes)
    throw_unsupported(
        "named operations: a round takes {} bytes, more than {}; submit fewer names before waiting "
        "for some",
        message.size(), kMostRoundBytes);
  std::vector<std::byte> part(size);
  const auto length = static_cast<Length>(message.size());
  std::memcpy(part.data(), &length, sizeof length);
  const size_t here = std::min(message.size(), size - sizeof length);
  if (here > 0) std::memcpy(part.data() + sizeof length, message.data(), here);
  return part;
}

size_t rest_bytes(size_t message_bytes, size_t first_part_bytes) {
  return message_bytes - std::min(message_bytes, first_part_bytes - sizeof(Length));
}

size_t message_bytes(std::span<const std::byte> first_part) {
  Length length;
  if (first_part.size() < sizeof length) fail("ends too early");
  std::memcpy(&length, first_part.data(), sizeof length);
  if (length > kMostRoundBytes)
    fail(fmt::format("expected at most {} bytes, got {}", kMostRoundBytes, length));
  return length;
}

std::span<const std::byte> beginning(std::span<const std::byte> first_part) {
  const std::span<const std::byte> payload = first_part.subspan(sizeof(Length));
  return payload.first(std::min(payload.size(), message_bytes(first_part)));
}

std::string pack_texts(const std::vector<std::string>& texts) {
  std::string all;
  for (const std::string& text : texts) all += text + '\0';
  return all;
}

int64_t total_bytes(std::span<const int64_t> sizes) {
  int64_t total = 0;
  for (const int64_t size : sizes) {
    if (size < 0 || size > kMostTextBytes - total)
      fail(fmt::format("expected descriptions of at most {} bytes in all, got {} of one rank",
                       kMostTextBytes, size));
    total += size;
  }
  return total;
}

std::vector<std::vector<std::string>> unpack_texts(std::string_view all,
                                                   std::span<const int64_t> sizes, size_t count) {
  std::vector<std::vector<std::string>> texts(count, std::vector<std::string>(sizes.size()));
  for (size_t rank = 0; rank < sizes.size(); ++rank) {
    std::string_view own = all.substr(0, static_cast<size_t>(sizes[rank]));
    all.remove_prefix(own.size());
    for (size_t i = 0; i < count; ++i) {
      const size_t end = own.find('\0');
      if (end == own.npos) fail(fmt::format("rank {} of the group sent too few texts", rank));
      texts[i][rank] = own.substr(0, end);
      own.remove_prefix(end + 1);
    }
    if (!own.empty()) fail(fmt::format("rank {} of the group sent too many texts", rank));
  }
  return texts;
}

}  // namespace stretto::comm
