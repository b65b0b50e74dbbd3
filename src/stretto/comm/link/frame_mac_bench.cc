// What authenticating bytes costs on one core, for the sizes of a small message and of a chunk:
// GMAC, which frames use, and what was considered instead.
#include "stretto/comm/link/frame_mac.h"

#include <benchmark/benchmark.h>
#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <openssl/params.h>

#include <memory>
#include <string>
#include <vector>

namespace stretto::comm {
namespace {

void set_rate(benchmark::State& state) {
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations()) * state.range(0));
}

void gmac(benchmark::State& state) {
  const std::vector<std::byte> data(static_cast<size_t>(state.range(0)), std::byte{7});
  FrameMac mac(FrameKey{});
  for (auto _ : state) {
    mac.add(data);
    benchmark::DoNotOptimize(mac.tag());
  }
  set_rate(state);
}

// `digest`: of an HMAC; null for other MACs.
void other(benchmark::State& state, const char* name, const char* digest) {
  const std::vector<unsigned char> data(static_cast<size_t>(state.range(0)), 7), key(32, 1);
  const std::unique_ptr<EVP_MAC, decltype(&EVP_MAC_free)> method(
      EVP_MAC_fetch(nullptr, name, nullptr), EVP_MAC_free);
  if (!method) {
    state.SkipWithError("OpenSSL does not have it");
    return;
  }
  const std::unique_ptr<EVP_MAC_CTX, decltype(&EVP_MAC_CTX_free)> context(
      EVP_MAC_CTX_new(method.get()), EVP_MAC_CTX_free);
  std::string text = digest ? digest : "";
  const OSSL_PARAM parameters[] = {
      OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, text.data(), 0),
      OSSL_PARAM_construct_end()};
  const OSSL_PARAM none[] = {OSSL_PARAM_construct_end()};
  unsigned char tag[EVP_MAX_MD_SIZE];
  for (auto _ : state) {
    size_t size = 0;
    EVP_MAC_init(context.get(), key.data(), key.size(), digest ? parameters : none);
    EVP_MAC_update(context.get(), data.data(), data.size());
    EVP_MAC_final(context.get(), tag, &size, sizeof tag);
    benchmark::DoNotOptimize(tag);
  }
  set_rate(state);
}

void sizes(benchmark::internal::Benchmark* b) { b->Arg(104)->Arg(4 << 10)->Arg(256 << 10); }

BENCHMARK(gmac)->Name("mac/GMAC")->Apply(sizes);
BENCHMARK_CAPTURE(other, hmac, "HMAC", "SHA256")->Name("mac/HMAC-SHA-256")->Apply(sizes);
BENCHMARK_CAPTURE(other, blake2b, "BLAKE2BMAC", nullptr)->Name("mac/BLAKE2b")->Apply(sizes);
BENCHMARK_CAPTURE(other, poly1305, "POLY1305", nullptr)->Name("mac/Poly1305")->Apply(sizes);

}  // namespace
}  // namespace stretto::comm
