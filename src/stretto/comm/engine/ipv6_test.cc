// Ranks on hosts that have IPv6 addresses only; link/addresses_test.cc has what needs no engine.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>

#include "stretto/base/error.h"
#include "stretto/comm/engine/engine.h"
#include "stretto/comm/system/namespaces_testing.h"
#include "stretto/comm/system/processes_testing.h"

namespace stretto::comm {
namespace {

using testing::Child;
using testing::Folder;
using testing::Namespaces;
using testing::Processes;

constexpr double kPatience_s = 120;  // for a busy machine

// Two hosts that have IPv6 only; `address` is a format for the number of the host.
void expect_a_sum_over_ipv6(const char* address, const std::vector<std::string>& interfaces) {
  SCOPED_TRACE(address);
  Namespaces namespaces(2, 1);
  const Folder folder;
  Processes processes;
  for (int rank = 0; rank < 2; ++rank) {
    processes.start(rank, [&](const Child& child) {
      namespaces.enter(rank);
      const std::string own = fmt::format(fmt::runtime(address), rank + 1);
      STRETTO_CHECK(std::system("ip -4 addr flush dev eth0") == 0 &&
                        std::system("ip -6 addr flush dev eth0") == 0 &&
                        std::system(("ip addr add " + own + "/64 dev eth0 nodad").c_str()) == 0,
                    "cannot set the address");
      Options options;
      options.interfaces = interfaces;
      options.connect_timeout_s = options.silent_limit_s = kPatience_s;
      auto engine = Engine::create(file_store(folder.path), {.rank = rank, .size = 2}, options);
      float x = 1.0f + static_cast<float>(rank);
      engine->wait(engine->submit(
          kWorld, {.reduction = ReduceOp::kSum, .count = 1, .input = &x, .output = &x}));
      const std::string name = engine->statistics().links.at(0).streams.at(0).name;
      child.say(fmt::format("{} {}", x, name.substr(0, name.find("::"))));
      child.await_nudge();
    });
  }
  const std::string expected =
      "3 tcp [" + std::string(address).substr(0, std::string(address).find("::"));
  for (int rank = 0; rank < 2; ++rank) EXPECT_EQ(processes.line(rank, kPatience_s), expected);
  for (int rank = 0; rank < 2; ++rank) processes.nudge(rank);
}

TEST(IPv6, RanksMeetOverIt) {
  const std::string missing = Namespaces::unavailable();
  if (!missing.empty()) GTEST_SKIP() << missing;
  if (access("/proc/sys/net/ipv6", F_OK) != 0)
    GTEST_SKIP() << "no IPv6 for network namespaces here";
  expect_a_sum_over_ipv6("fd00::{}", {});
  expect_a_sum_over_ipv6("fd00::{}", {"fd00::/8"});
  expect_a_sum_over_ipv6("fe80::{}", {});
  expect_a_sum_over_ipv6("fe80::{}", {"eth0"});
}

}  // namespace
}  // namespace stretto::comm
