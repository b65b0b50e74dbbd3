#include "stretto/comm/link/rdma_port.h"

#include <gtest/gtest.h>

#include "stretto/base/error.h"
#include "stretto/comm/link/verbs_testing.h"

namespace stretto::comm {
namespace {

using testing::Fabric;

std::vector<std::string> opened(const Options& options, std::string* reason) {
  std::vector<std::string> names;
  for (const auto& port : open_rdma_ports(options, reason)) names.push_back(port->name());
  return names;
}

TEST(RdmaPorts, AreFoundOrMissedByName) {
  using Names = std::vector<std::string>;
  Fabric fabric;
  Options options;
  std::string reason;
  EXPECT_EQ(opened(options, &reason), Names{});
  EXPECT_EQ(reason, "STRETTO_RDMA is off");
  options.rdma_provider = fabric.machine({});
  options.rdma = "auto";
  EXPECT_EQ(opened(options, &reason), Names{});
  EXPECT_EQ(reason, "this machine has no RDMA card");
  options.rdma_provider = fabric.machine({{.name = "m0", .active = false}, {.name = "m1"}});
  EXPECT_EQ(opened(options, &reason), Names{"m1:1"});
  EXPECT_EQ(reason, "");
  options.rdma = "m1,m1:1";
  EXPECT_EQ(opened(options, &reason), (Names{"m1:1", "m1:1"}));
  const std::pair<const char*, const char*> kWrong[] = {
      {"m0", "m0:1 is not active"},
      {"m1:2", "m1:2 has no such port"},
      {"m1,m7", "this machine has no RDMA card m7"},
      {"m1:x", "expected off, auto, or ports"},
      {"m1:0", "expected off, auto, or ports"},
      {"m1,", "expected off, auto, or ports"},
      {"", "expected off, auto, or ports"}};
  for (const auto& [text, expected] : kWrong) {
    options.rdma = text;
    try {
      open_rdma_ports(options, &reason);
      ADD_FAILURE() << text << ": no error";
    } catch (const InvalidArgument& e) {
      EXPECT_NE(std::string(e.what()).find(expected), std::string::npos) << e.what();
    }
  }
  EXPECT_EQ(fabric.objects(), 0);
}

TEST(RdmaPorts, TheAddressThatIsRoutedLikeTcpsIsChosen) {
  verbs::Gid none{}, ipv4{}, ipv6{}, local{};
  ipv4[10] = ipv4[11] = 0xff, ipv4[12] = 10;
  ipv6[0] = 0x20, ipv6[15] = 1;
  local[0] = 0xfe, local[1] = 0x80;
  EXPECT_EQ(gid_rank(none, true, "RoCE v2"), 0);
  EXPECT_GT(gid_rank(ipv4, true, "RoCE v2"), gid_rank(ipv6, true, "RoCE v2"));
  EXPECT_GT(gid_rank(ipv6, true, "RoCE v2"), gid_rank(local, true, "RoCE v2"));
  EXPECT_GT(gid_rank(local, true, "RoCE v2"), gid_rank(ipv4, true, "IB/RoCE v1"));
  EXPECT_GT(gid_rank(local, false, ""), 0);
}

TEST(RdmaPorts, BothSidesCountTheSameRails) {
  const RdmaRails none{.rails = {}, .reason = "STRETTO_RDMA is off"};
  const RdmaRails one{.rails = {{"m0:1", true}}, .reason = ""};
  const RdmaRails two{.rails = {{"m0:1", true}, {"m1:1", false}}, .reason = ""};
  const RdmaRails other{.rails = {{"m2:1", false}, {"m3:1", false}}, .reason = ""};
  std::string reason;
  EXPECT_EQ(count_rails(two, two, 3, &reason), 2);
  EXPECT_EQ(reason, "");
  EXPECT_EQ(count_rails(one, two, 3, &reason), 1);
  EXPECT_EQ(count_rails(two, one, 3, &reason), 1);
  EXPECT_EQ(count_rails(one, none, 3, &reason), 0);
  EXPECT_EQ(reason, "rank 3: STRETTO_RDMA is off");
  EXPECT_EQ(count_rails(none, one, 3, &reason), 0);
  EXPECT_EQ(reason, "STRETTO_RDMA is off");
  EXPECT_EQ(count_rails(two, other, 3, &reason), 0);
  EXPECT_EQ(reason, "m0:1 is Ethernet, m2:1 of rank 3 is InfiniBand");
}

}  // namespace
}  // namespace stretto::comm
