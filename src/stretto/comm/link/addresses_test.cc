// Which interfaces and ports a rank uses. The tests with several interfaces make them in a network
// namespace of their own.
#include "stretto/comm/link/addresses.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>

#include <algorithm>
#include <set>

#include "stretto/base/error.h"
#include "stretto/comm/link/attempt.h"
#include "stretto/comm/link/links_testing.h"
#include "stretto/comm/link/tcp.h"
#include "stretto/comm/system/fd.h"
#include "stretto/comm/system/namespaces_testing.h"
#include "stretto/comm/system/processes_testing.h"

namespace stretto::comm {
namespace {

using testing::Child;
using testing::kPatience_s;
using testing::Namespaces;
using testing::Processes;

Options with(std::vector<std::string> interfaces) {
  Options options;
  options.interfaces = std::move(interfaces);
  return options;
}

std::string texts(const std::vector<Address>& addresses) {
  std::string all;
  for (const Address& a : addresses) all += (all.empty() ? "" : " ") + a.text;
  return all;
}

std::string error_of(const Options& options) {
  try {
    check(options);
    return texts(local_addresses(options));
  } catch (const InvalidArgument& e) {
    return e.what();
  }
}

TEST(Addresses, WrongEntriesAreRefused) {
  EXPECT_EQ(error_of(with({"10.0.0.0/33"})),
            "STRETTO_INTERFACES: '10.0.0.0/33' is not a network such as 10.0.0.0/8");
  EXPECT_EQ(error_of(with({"eth/8"})),
            "STRETTO_INTERFACES: 'eth/8' is not a network such as 10.0.0.0/8");
  EXPECT_EQ(error_of(with({"eth0", "^lo"})),
            "STRETTO_INTERFACES: '^' excludes all that follow, so it must come first");
  EXPECT_EQ(error_of(with({"^"})), "STRETTO_INTERFACES: '^' without a name");
  EXPECT_NE(error_of(with({"nosuch"})).find("expected interfaces that are up and have an address"),
            std::string::npos);
  for (const char* ports : {"1", "-5", "5-", "9-8", "0-9", "1-65536", "a-b", "1-2x"}) {
    Options options;
    options.ports = ports;
    EXPECT_EQ(error_of(options),
              fmt::format("STRETTO_PORTS: expected LOW-HIGH, two ports from 1 to 65535, got '{}'",
                          ports));
  }
}

// In a child, because a namespace with its interfaces is entered.
std::string in_a_namespace(const std::function<std::string()>& body) {
  Namespaces namespaces(1, 2);  // lo, eth0 with 10.70.0.1, eth1 with 10.71.0.1
  Processes processes;
  processes.start(0, [&](const Child& child) {
    namespaces.enter(0);
    child.say(body());
  });
  return processes.line(0, kPatience_s);
}

TEST(Addresses, NamesPrefixesNetworksAndExclusionsChoose) {
  const std::string missing = Namespaces::unavailable();
  if (!missing.empty()) GTEST_SKIP() << missing;
  EXPECT_EQ(
      in_a_namespace([] {
        std::string all;
        for (const auto& entries : std::vector<std::vector<std::string>>{{"eth1"},
                                                                         {"eth"},
                                                                         {"eth1", "eth0"},
                                                                         {"10.71.0.0/16"},
                                                                         {"10.0.0.0/8"},
                                                                         {"lo", "10.70.0.0/24"}})
          all += error_of(with(entries)) + "; ";
        std::set<std::string> left;
        for (const Address& a : local_addresses(with({"^lo", "eth1"}))) left.insert(a.interface);
        for (const std::string& name : left) all += name + " ";
        return all + error_of(with({"^eth", "l"}));
      }),
      "10.71.0.1; 10.70.0.1 10.71.0.1; 10.71.0.1 10.70.0.1; 10.71.0.1; 10.70.0.1 10.71.0.1; "
      "127.0.0.1 10.70.0.1; eth0 STRETTO_INTERFACES: '^eth,l' leaves no interface of "
      "eth0, eth1, lo");
}

bool accepts(const char* address, int port) {
  const Fd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in at{.sin_family = AF_INET, .sin_port = htons(static_cast<uint16_t>(port))};
  inet_pton(AF_INET, address, &at.sin_addr);
  return connect(fd.get(), reinterpret_cast<const sockaddr*>(&at), sizeof at) == 0;
}

TEST(Addresses, ARankListensWhereItsInterfacesAre) {
  int port = 0;
  Options options;
  const auto everywhere = listen_tcp(options, local_addresses(options), 0, &port);
  EXPECT_TRUE(accepts("127.0.0.1", port) && accepts("127.0.0.2", port));
  options = with({"lo"});
  const auto lo = listen_tcp(options, local_addresses(options), 0, &port);
  EXPECT_EQ(lo.size(), 1u);
  EXPECT_TRUE(accepts("127.0.0.1", port));
  EXPECT_FALSE(accepts("127.0.0.2", port)) << "the same interface, but not the address";
  const std::string missing = Namespaces::unavailable();
  if (!missing.empty()) GTEST_SKIP() << missing;
  EXPECT_EQ(in_a_namespace([] {
              int at = 0;
              const Options both = with({"^lo"});
              const auto fds = listen_tcp(both, local_addresses(both), 0, &at);
              return fmt::format("{} {} {}", accepts("10.70.0.1", at), accepts("10.71.0.1", at),
                                 accepts("127.0.0.1", at));
            }),
            "true true false");
}

TEST(Addresses, PortsOfTheRangeAreTakenOneByOne) {
  int low = 0;
  {  // two that were free a moment ago
    Options any = with({"lo"});
    std::vector<Fd> next;
    for (int tries = 0; tries < 100 && next.empty(); ++tries) {
      const auto one = listen_tcp(any, local_addresses(any), 0, &low);
      any.ports = fmt::format("{0}-{0}", low + 1);
      try {
        int port = 0;
        next = listen_tcp(any, local_addresses(any), 0, &port);
      } catch (const CommError&) {
      }
      any.ports = "";
    }
  }
  Options options = with({"lo"});
  options.ports = fmt::format("{}-{}", low, low + 1);
  int ports[3] = {};
  const auto first = listen_tcp(options, local_addresses(options), 7, &ports[0]);
  const auto second = listen_tcp(options, local_addresses(options), 7, &ports[1]);
  EXPECT_EQ(ports[0] + ports[1], 2 * low + 1);
  try {
    listen_tcp(options, local_addresses(options), 0, &ports[2]);
    ADD_FAILURE() << "no error";
  } catch (const CommError& e) {
    EXPECT_EQ(std::string(e.what()),
              fmt::format("tcp: cannot listen on a port of STRETTO_PORTS={}: Address already in "
                          "use; every rank of a host needs a port of its own",
                          options.ports));
  }
}

TEST(Addresses, AreWrittenAsPeopleWriteThem) {
  for (const auto& [address, written] : {std::pair{"10.0.0.1", "10.0.0.1:42"},
                                         {"::ffff:10.0.0.1", "10.0.0.1:42"},
                                         {"fd00::1", "[fd00::1]:42"}}) {
    SocketAddress at;
    ASSERT_TRUE(parse_address(address, 42, &at));
    EXPECT_EQ(address_text(at.get(), at.length, true), written);
    EXPECT_EQ(with_port(address_text(at.get(), at.length, false), 42), written);
  }
}

TEST(Addresses, ALinkLocalAddressGetsTheZoneOfThisHost) {
  const std::vector<Address> own{
      {"eth5", "10.0.0.5"}, {"eth5", "fe80::5%eth5"}, {"eth6", "fe80::6%eth6"}};
  const std::vector<Address> theirs{{"eth0", "fe80::1%eth0"}};
  EXPECT_EQ(choose_route(own, theirs, false, false, 0, 0).to, "fe80::1%eth5");
  EXPECT_EQ(choose_route(own, theirs, false, false, 0, 1).to, "fe80::1%eth6");
  EXPECT_EQ(choose_route({{"eth6", "fe80::6%eth6"}}, theirs, true, false, 0, 0).to, "fe80::1%eth6");
  EXPECT_EQ(choose_route(own, {{"eth0", "fd00::1"}}, false, false, 0, 0).to, "fd00::1");
}

}  // namespace
}  // namespace stretto::comm
