#include "stretto/comm/engine/job_hosts.h"

#include <gtest/gtest.h>

#include "stretto/base/error.h"

namespace stretto::comm {
namespace {

TEST(JobHosts, AreNumberedByTheirLowestRank) {
  const JobHosts hosts = find_job_hosts({"b", "a", "b", "c"}, {"r", "s", "r", "r"});
  EXPECT_EQ(hosts.ranks, (std::vector<std::vector<int>>{{0, 2}, {1}, {3}}));
  EXPECT_EQ(hosts.host, (std::vector<int>{0, 1, 0, 2}));
  EXPECT_EQ(hosts.rack, (std::vector<int>{0, 1, 0, 0}));
}

TEST(JobHosts, PlaceTheRanksOfAGroupInItsOrder) {
  const JobHosts hosts = find_job_hosts({"b", "a", "b", "c"}, {"r", "s", "r", "r"});
  const Placement placement = hosts.placement(std::vector<int>{3, 2, 0});
  EXPECT_EQ(placement.hosts().host, (std::vector<int>{0, 1, 1}));
  EXPECT_EQ(placement.hosts().racks(), 1);
}

TEST(JobHosts, AHostIsInOneRack) {
  try {
    find_job_hosts({"b", "a", "b"}, {"r", "r", "s"});
    FAIL() << "two racks for host b";
  } catch (const InvalidArgument& e) {
    EXPECT_STREQ(e.what(),
                 "STRETTO_RACK: ranks 0 and 2 are on one host, but their racks are 'r' and 's'");
  }
}

}  // namespace
}  // namespace stretto::comm
