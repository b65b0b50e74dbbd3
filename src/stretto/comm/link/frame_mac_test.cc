#include "stretto/comm/link/frame_mac.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <vector>

#include "stretto/comm/link/speed.h"

namespace stretto::comm {
namespace {

Proof proof(std::string secret = "secret") {
  Proof p{.secret = std::move(secret)};
  p.hello = encode_hello({.from = 1, .to = 0});
  p.nonce.fill(std::byte{9});
  return p;
}

std::vector<std::byte> bytes(size_t size) {
  std::vector<std::byte> all(size);
  for (size_t i = 0; i < size; ++i) all[i] = static_cast<std::byte>(i * 7);
  return all;
}

// Computed by an implementation of AES and GHASH from their specifications, which gives the tag of
// test case 1 of the GCM specification (McGrew and Viega). Its nonce, zero, is never used here.
TEST(FrameMac, IsGmac) {
  FrameMac mac(FrameKey{});
  std::vector<std::byte> text(20);
  for (size_t i = 0; i < text.size(); ++i) text[i] = static_cast<std::byte>(i);
  mac.add(text);
  const FrameTag tag = mac.tag();
  const std::vector<int> expected{0xe1, 0x2d, 0x13, 0x41, 0xca, 0x1a, 0x7b, 0x57,
                                  0x0d, 0xad, 0xb4, 0x02, 0x97, 0x6a, 0x97, 0x3f};
  for (size_t i = 0; i < tag.size(); ++i) EXPECT_EQ(static_cast<int>(tag[i]), expected[i]) << i;
}

TEST(FrameMac, TheOtherSideAcceptsWhatThisOneSends) {
  const FrameKeys here = frame_keys(proof(), Role::kConnector),
                  there = frame_keys(proof(), Role::kAcceptor);
  EXPECT_EQ(here.sends, there.receives);
  EXPECT_EQ(here.receives, there.sends);
  EXPECT_NE(here.sends, here.receives);
  EXPECT_NE(here.sends, frame_keys(proof("other"), Role::kConnector).sends);
  FrameMac sender(here.sends), receiver(there.receives);
  for (const size_t size : {0, 1, 104, 5000}) {
    const auto text = bytes(size);
    sender.add(text);
    receiver.add(std::span(text).first(size / 3));  // in parts
    receiver.add(std::span(text).subspan(size / 3));
    EXPECT_TRUE(receiver.matches(sender.tag())) << size;
  }
}

TEST(FrameMac, ChangedRepeatedAndReorderedPartsAreNoticed) {
  const FrameKey key{};
  const auto text = bytes(200);
  for (size_t bit = 0; bit < 8 * text.size(); bit += 13) {
    FrameMac sender(key), receiver(key);
    auto changed = text;
    changed[bit / 8] ^= static_cast<std::byte>(1u << (bit % 8));
    sender.add(text);
    receiver.add(changed);
    EXPECT_FALSE(receiver.matches(sender.tag())) << bit;
  }
  FrameMac sender(key), receiver(key);
  sender.add(text);
  const FrameTag first = sender.tag();
  sender.add(text);
  const FrameTag second = sender.tag();
  receiver.add(text);
  EXPECT_TRUE(receiver.matches(first));
  receiver.add(text);
  EXPECT_FALSE(receiver.matches(first)) << "repeated";
  FrameMac late(key);
  late.add(text);
  EXPECT_FALSE(late.matches(second)) << "the first one was dropped";
}

TEST(FrameMac, TagsAreForSlowLinksBetweenMachinesUnlessAskedFor) {
  const auto wants = [](MacUse use, Transport transport, bool same_machine, int speed_mbit) {
    Options options;
    options.mac = use;
    return wants_tags(options, transport, same_machine, speed_mbit);
  };
  EXPECT_TRUE(wants(MacUse::kAuto, Transport::kTcp, false, 1000));
  EXPECT_FALSE(wants(MacUse::kAuto, Transport::kTcp, false, 10'000));
  EXPECT_FALSE(wants(MacUse::kAuto, Transport::kTcp, false, -1)) << "nobody knows what it costs";
  EXPECT_FALSE(wants(MacUse::kAuto, Transport::kTcp, true, 1000));
  EXPECT_TRUE(wants(MacUse::kOn, Transport::kTcp, true, -1));
  EXPECT_TRUE(wants(MacUse::kOn, Transport::kTcp, false, 400'000));
  EXPECT_FALSE(wants(MacUse::kOff, Transport::kTcp, false, 100));
  for (const Transport transport : {Transport::kShm, Transport::kRdma})
    EXPECT_FALSE(wants(MacUse::kOn, transport, false, 100));
}

TEST(FrameMac, TheKernelSaysHowFastAnInterfaceIs) {
  char folder[] = "/tmp/stretto-speed-XXXXXX";
  ASSERT_NE(mkdtemp(folder), nullptr);
  const auto speed = [&](const std::string& text) {
    std::filesystem::create_directories(std::string(folder) + "/card");
    std::ofstream(std::string(folder) + "/card/speed") << text;
    return interface_speed_mbit("card", folder);
  };
  EXPECT_EQ(speed("1000\n"), 1000);
  EXPECT_EQ(speed("-1\n"), -1);
  EXPECT_EQ(speed(""), -1);
  EXPECT_EQ(interface_speed_mbit("none", folder), -1);
  EXPECT_EQ(interface_speed_mbit("lo"), -1);
  std::filesystem::remove_all(folder);
  EXPECT_EQ(socket_speed_mbit(-1), -1);
}

}  // namespace
}  // namespace stretto::comm
