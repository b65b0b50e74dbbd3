// For tests with root: hosts made of network namespaces, whose cables can be pulled.
#pragma once

#include <fcntl.h>
#include <fmt/core.h>
#include <sched.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "stretto/base/error.h"
#include "stretto/comm/system/fd.h"

namespace stretto::comm::testing {

// `hosts` namespaces with cards eth0, eth1, ... whose other ends meet in one bridge per rail.
class Namespaces {
 public:
  // Why there can be none here; empty when there can.
  static std::string unavailable() {
    if (geteuid() != 0) return "network namespaces need root";
    if (run("command -v ip") != 0) return "no `ip` (package iproute2)";
    const std::string probe = fmt::format("stprobe{}", getpid());
    const bool works =
        run("ip netns add " + probe) == 0 &&
        run(fmt::format("ip -n {} link add br0 type bridge", probe)) == 0 &&
        run(fmt::format("ip -n {0} link add eth0 type veth peer name eth1 netns {0}", probe)) == 0;
    run("ip netns del " + probe);
    return works ? "" : "no network namespaces, bridges or veth here";
  }

  Namespaces(int hosts, int rails) : tag_(fmt::format("st{}", getpid())), hosts_(hosts) {
    must(fmt::format("ip netns add {}", switch_()));
    for (int rail = 0; rail < rails; ++rail) {
      must(fmt::format("ip -n {} link add br{} type bridge", switch_(), rail));
      must(fmt::format("ip -n {} link set br{} up", switch_(), rail));
    }
    for (int host = 0; host < hosts; ++host) {
      must(fmt::format("ip netns add {}", name(host)));
      must(fmt::format("ip -n {} link set lo up", name(host)));
      for (int rail = 0; rail < rails; ++rail) connect(host, rail);
    }
  }
  ~Namespaces() {
    for (int host = 0; host < hosts_; ++host) run(fmt::format("ip netns del {}", name(host)));
    run(fmt::format("ip netns del {}", switch_()));
  }

  // Moves the calling thread.
  void enter(int host) const {
    const Fd fd(open(fmt::format("/var/run/netns/{}", name(host)).c_str(), O_RDONLY | O_CLOEXEC));
    STRETTO_CHECK(fd && setns(fd.get(), CLONE_NEWNET) == 0, "cannot enter {}", name(host));
  }

  // The bridge drops what comes and what should go; the host's card stays up.
  void isolate(int host, int rail = 0) const {
    must(fmt::format("ip -n {} link set p{}r{} nomaster", switch_(), host, rail));
  }

 private:
  static int run(const std::string& command) {
    return std::system((command + " >/dev/null 2>&1").c_str());
  }
  static void must(const std::string& command) {
    STRETTO_CHECK(run(command) == 0, "failed: {}", command);
  }
  std::string name(int host) const { return fmt::format("{}h{}", tag_, host); }
  std::string switch_() const { return tag_ + "sw"; }

  void connect(int host, int rail) const {
    must(fmt::format("ip link add eth{1} netns {0} type veth peer name p{3}r{1} netns {2}",
                     name(host), rail, switch_(), host));
    must(fmt::format("ip -n {} addr add 10.{}.0.{}/24 dev eth{}", name(host), 70 + rail, host + 1,
                     rail));
    must(fmt::format("ip -n {} link set eth{} up", name(host), rail));
    must(fmt::format("ip -n {0} link set p{1}r{2} master br{2} up", switch_(), host, rail));
  }

  const std::string tag_;
  const int hosts_;
};

}  // namespace stretto::comm::testing
