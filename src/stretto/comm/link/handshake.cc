#include "stretto/comm/link/handshake.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <sys/random.h>

#include <cstring>
#include <vector>

#include "stretto/base/error.h"

namespace stretto::comm {
namespace {

constexpr char kMagic[8] = {'S', 'T', 'R', 'E', 'T', 'T', 'O', '1'};

struct Wire {
  char magic[8];
  uint32_t epoch;
  int32_t from, to;
  uint16_t stream, streams;
  uint8_t transport;
  uint8_t tags;
  uint8_t zero[6];
  Nonce nonce;
};
static_assert(sizeof(Wire) == kHelloBytes);

void fill_random(void* out, size_t bytes) {
  auto* at = static_cast<char*>(out);
  while (bytes > 0) {
    const ssize_t got = getrandom(at, bytes, 0);
    if (got < 0 && errno == EINTR) continue;
    STRETTO_CHECK(got > 0, "no random bytes from the operating system");
    at += got;
    bytes -= static_cast<size_t>(got);
  }
}

Mac hmac(std::string_view secret, std::span<const std::byte> text) {
  Mac mac;
  unsigned size = mac.size();
  const unsigned char* done = HMAC(EVP_sha256(), secret.data(), static_cast<int>(secret.size()),
                                   reinterpret_cast<const unsigned char*>(text.data()), text.size(),
                                   reinterpret_cast<unsigned char*>(mac.data()), &size);
  STRETTO_CHECK(done && size == mac.size(), "libcrypto computed no HMAC-SHA-256");
  return mac;
}

}  // namespace

HelloBytes encode_hello(const Hello& hello) {
  Wire wire{.epoch = hello.epoch,
            .from = hello.from,
            .to = hello.to,
            .stream = hello.stream,
            .streams = hello.streams,
            .transport = static_cast<uint8_t>(hello.transport),
            .tags = hello.tags,
            .zero = {},
            .nonce = hello.nonce};
  std::memcpy(wire.magic, kMagic, sizeof kMagic);
  HelloBytes bytes;
  std::memcpy(bytes.data(), &wire, sizeof wire);
  return bytes;
}

std::optional<Hello> parse_hello(std::span<const std::byte, kHelloBytes> bytes) {
  Wire wire;
  std::memcpy(&wire, bytes.data(), sizeof wire);
  constexpr uint8_t kZero[sizeof wire.zero] = {};
  if (std::memcmp(wire.magic, kMagic, sizeof kMagic) != 0 ||
      wire.transport > static_cast<uint8_t>(Transport::kCall) || wire.tags > 1 ||
      std::memcmp(wire.zero, kZero, sizeof kZero) != 0 || wire.streams == 0 ||
      wire.stream >= wire.streams || wire.from < 0 || wire.to < 0)
    return std::nullopt;
  return Hello{.epoch = wire.epoch,
               .from = wire.from,
               .to = wire.to,
               .stream = wire.stream,
               .streams = wire.streams,
               .transport = static_cast<Transport>(wire.transport),
               .tags = wire.tags == 1,
               .nonce = wire.nonce};
}

Mac authenticate(std::string_view secret, Role role, const HelloBytes& hello, const Nonce& nonce) {
  std::array<std::byte, 1 + kHelloBytes + sizeof(Nonce)> text;
  text[0] = static_cast<std::byte>(role);
  std::memcpy(&text[1], hello.data(), hello.size());
  std::memcpy(&text[1 + kHelloBytes], nonce.data(), nonce.size());
  return hmac(secret, text);
}

// It is longer than the input of authenticate(), so that the two MACs can never be equal.
Mac seal(const Proof& proof, Role role, std::span<const std::byte> text) {
  STRETTO_CHECK(!text.empty(), "nothing to seal");
  std::vector<std::byte> all{static_cast<std::byte>(role)};
  all.insert(all.end(), proof.hello.begin(), proof.hello.end());
  all.insert(all.end(), proof.nonce.begin(), proof.nonce.end());
  all.insert(all.end(), text.begin(), text.end());
  return hmac(proof.secret, all);
}

bool equal(std::span<const std::byte> a, std::span<const std::byte> b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

Nonce random_nonce() {
  Nonce nonce;
  fill_random(nonce.data(), nonce.size());
  return nonce;
}

std::string random_secret() {
  std::string secret(32, '\0');
  fill_random(secret.data(), secret.size());
  return secret;
}

}  // namespace stretto::comm
