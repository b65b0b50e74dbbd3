#include "stretto/comm/link/handshake.h"

#include <gtest/gtest.h>

namespace stretto::comm {
namespace {

Hello sample() {
  return {.epoch = 3, .from = 2, .to = 1, .stream = 1, .streams = 4, .nonce = random_nonce()};
}

TEST(Handshake, HelloComesBackAsItWas) {
  const Hello in = sample();
  const auto out = parse_hello(encode_hello(in));
  ASSERT_TRUE(out);
  EXPECT_EQ(out->epoch, in.epoch);
  EXPECT_EQ(out->from, in.from);
  EXPECT_EQ(out->to, in.to);
  EXPECT_EQ(out->stream, in.stream);
  EXPECT_EQ(out->streams, in.streams);
  EXPECT_EQ(out->nonce, in.nonce);
}

TEST(Handshake, MalformedHelloIsRefused) {
  const HelloBytes good = encode_hello(sample());
  for (size_t at : {0u, 7u, 15u, 24u, 27u}) {  // magic, sign of `from`, transport, zeros
    HelloBytes bad = good;
    bad[at] ^= std::byte{0x82};
    EXPECT_FALSE(parse_hello(bad)) << "byte " << at;
  }
  Hello hello = sample();
  hello.stream = 4;
  EXPECT_FALSE(parse_hello(encode_hello(hello)));
}

TEST(Handshake, MacDependsOnEverything) {
  const HelloBytes hello = encode_hello(sample());
  const Nonce nonce = random_nonce();
  const Mac mac = authenticate("secret", Role::kConnector, hello, nonce);
  EXPECT_TRUE(equal(mac, authenticate("secret", Role::kConnector, hello, nonce)));
  EXPECT_FALSE(equal(mac, authenticate("Secret", Role::kConnector, hello, nonce)));
  EXPECT_FALSE(equal(mac, authenticate("secret", Role::kAcceptor, hello, nonce)));
  EXPECT_FALSE(equal(mac, authenticate("secret", Role::kConnector, encode_hello(sample()), nonce)));
  EXPECT_FALSE(equal(mac, authenticate("secret", Role::kConnector, hello, random_nonce())));
}

TEST(Handshake, SecretsAreFresh) { EXPECT_NE(random_secret(), random_secret()); }

}  // namespace
}  // namespace stretto::comm
