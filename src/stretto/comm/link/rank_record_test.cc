#include "stretto/comm/link/rank_record.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>

#include "stretto/base/error.h"
#include "stretto/comm/link/links_testing.h"

namespace stretto::comm {
namespace {

RankRecord sample() {
  return {.addresses = {{"eth0", "10.0.0.1"}, {"eth0", "fe80::1%eth0"}},
          .port = 4242,
          .listens_everywhere = false,
          .host = "node7",
          .machine = "boot/4026531840",
          .local_name = "stretto-00ff",
          .agreement = {{"the size of the job", "2"}},
          .rdma = {.rails = {{"mlx5_0:1", true}}, .reason = ""}};
}

TEST(RankRecord, ComesBackAsItWas) {
  std::string reason;
  const auto back = parse_record(encode_record(sample()), &reason);
  ASSERT_TRUE(back) << reason;
  EXPECT_EQ(encode_record(*back), encode_record(sample()));
  EXPECT_EQ(back->addresses.at(1).text, "fe80::1%eth0");
  RankRecord odd = sample();
  odd.host = "caf\xe9";  // Latin-1
  EXPECT_TRUE(parse_record(encode_record(odd), &reason)) << reason;
}

TEST(RankRecord, WhatIsOutOfBoundsIsRefused) {
  using nlohmann::json;
  const json good = json::parse(encode_record(sample()));
  const auto refused = [&](const char* name, const json& value) {
    json bad = good;
    bad[name] = value;
    std::string reason;
    EXPECT_FALSE(parse_record(bad.dump(), &reason)) << name << ": " << value;
    EXPECT_NE(reason, "");
    bad.erase(name);
    EXPECT_FALSE(parse_record(bad.dump(), &reason)) << "without " << name;
    return reason;
  };
  for (const json& port : {json(0), json(65536), json(-1), json(1e30), json("4242"), json()})
    refused("port", port);
  refused("everywhere", 1);
  refused("host", std::string(5000, 'x'));
  refused("machine", 7);
  refused("local_name", json::array());
  refused("agreement", json(std::vector<std::vector<std::string>>(1000, {"a", "b"})));
  refused("agreement", json({{"a"}}));
  refused("addresses", json({{"eth0", "example.com"}}));
  refused("addresses", json({{"eth0", 10}}));
  refused("addresses", json::object({{"0", "10.0.0.1"}}));
  refused("rdma", json({{"mlx5_0:1", "yes"}}));
  std::string reason;
  EXPECT_FALSE(parse_record(std::string(kMaxRecord + 1, ' '), &reason));
  EXPECT_EQ(reason, "it has 65537 bytes; the limit is 65536");
  EXPECT_FALSE(parse_record(std::string(kMaxRecord, '['), &reason)) << "a deep nest";
}

TEST(RankRecord, AnyBytesAreRefusedOrRead) {
  const std::string good = encode_record(sample());
  for (unsigned seed = 0; seed < 2000; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    std::string bad = good;
    for (unsigned i = 0; i <= seed % 5; ++i)
      bad[random() % bad.size()] = static_cast<char>(random());
    if (seed % 3 == 0) bad.resize(random() % bad.size());
    std::string reason;
    const auto record = parse_record(bad, &reason);
    EXPECT_TRUE(record || !reason.empty());
    if (record) {
      EXPECT_TRUE(record->port >= 1 && record->port <= 65535);
    }
  }
}

TEST(RankRecord, ADamagedOneNamesItsRank) {
  const auto store = memory_store();
  store->set("stretto/0/rank/1", R"({"port": 99999999})");
  try {
    const Options options = testing::patient(1, 1);
    Links links(*store, {.rank = 0, .size = 2}, options);
    ADD_FAILURE() << "no error";
  } catch (const CommError& e) {
    EXPECT_EQ(e.rank(), 1);
    EXPECT_STREQ(e.what(),
                 "rank 1: what it published in the store is damaged: port 99999999 does not exist");
  }
}

}  // namespace
}  // namespace stretto::comm
