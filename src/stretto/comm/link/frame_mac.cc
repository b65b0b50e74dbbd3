#include "stretto/comm/link/frame_mac.h"

#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <openssl/params.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <string_view>

#include "stretto/base/error.h"

namespace stretto::comm {
namespace {

constexpr size_t kNonceBytes = 12;
// With STRETTO_MAC=auto, the fastest interface whose frames carry tags: on faster ones they cost
// more than 3 % of an all-reduce. docs/design/gradient-engine.md has the measurements.
constexpr int kMostAutoMbit = 1000;

FrameKey key_of(const Proof& proof, Role sender) {
  constexpr std::string_view kPurpose = "frames";
  const Mac mac = seal(proof, sender, std::as_bytes(std::span(kPurpose)));
  FrameKey key;
  std::memcpy(key.data(), mac.data(), key.size());
  return key;
}

const unsigned char* octets(std::span<const std::byte> bytes) {
  return reinterpret_cast<const unsigned char*>(bytes.data());
}

void check(int outcome) { STRETTO_CHECK(outcome == 1, "libcrypto computed no GMAC"); }

}  // namespace

bool wants_tags(const Options& options, Transport transport, bool same_machine, int speed_mbit) {
  if (transport != Transport::kTcp || options.mac == MacUse::kOff) return false;
  if (options.mac == MacUse::kOn) return true;
  return !same_machine && speed_mbit > 0 && speed_mbit <= kMostAutoMbit;
}

FrameKeys frame_keys(const Proof& proof, Role role) {
  const FrameKey connector = key_of(proof, Role::kConnector),
                 acceptor = key_of(proof, Role::kAcceptor);
  if (role == Role::kConnector) return {connector, acceptor};
  return {acceptor, connector};
}

void FrameMac::Free::operator()(evp_cipher_ctx_st* context) const { EVP_CIPHER_CTX_free(context); }

FrameMac::FrameMac(const FrameKey& key) : context_(EVP_CIPHER_CTX_new()) {
  STRETTO_CHECK(context_ != nullptr, "libcrypto has no memory");
  check(EVP_EncryptInit_ex(context_.get(), EVP_aes_128_gcm(), nullptr, octets(key), nullptr));
}

void FrameMac::prepare() {
  if (begun_) return;
  unsigned char nonce[kNonceBytes] = {};
  ++count_;
  std::memcpy(nonce, &count_, sizeof count_);
  check(EVP_EncryptInit_ex(context_.get(), nullptr, nullptr, nullptr, nonce));
  begun_ = true;
}

void FrameMac::add(std::span<const std::byte> bytes) {
  prepare();
  while (!bytes.empty()) {
    const size_t step = std::min<size_t>(bytes.size(), std::numeric_limits<int>::max());
    int none = 0;
    check(EVP_EncryptUpdate(context_.get(), nullptr, &none, octets(bytes), static_cast<int>(step)));
    bytes = bytes.subspan(step);
  }
}

FrameTag FrameMac::tag() {
  prepare();
  begun_ = false;
  FrameTag tag;
  int none = 0;
  check(EVP_EncryptFinal_ex(context_.get(), reinterpret_cast<unsigned char*>(tag.data()), &none));
  // EVP_CIPHER_CTX_ctrl does the same through a search for the parameter, a tenth of a tag's time.
  OSSL_PARAM wanted[] = {
      OSSL_PARAM_construct_octet_string(OSSL_CIPHER_PARAM_AEAD_TAG, tag.data(), tag.size()),
      OSSL_PARAM_construct_end()};
  check(EVP_CIPHER_CTX_get_params(context_.get(), wanted));
  return tag;
}

bool FrameMac::matches(std::span<const std::byte, kTagBytes> expected) {
  return equal(tag(), expected);
}

}  // namespace stretto::comm
