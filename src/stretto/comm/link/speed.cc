#include "stretto/comm/link/speed.h"

#include <ifaddrs.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <charconv>
#include <cstring>
#include <memory>

#include "stretto/base/error.h"
#include "stretto/base/file.h"

namespace stretto::comm {
namespace {

bool same_address(const sockaddr* a, const sockaddr* b) {
  if (!a || a->sa_family != b->sa_family) return false;
  if (a->sa_family == AF_INET)
    return std::memcmp(&reinterpret_cast<const sockaddr_in*>(a)->sin_addr,
                       &reinterpret_cast<const sockaddr_in*>(b)->sin_addr, sizeof(in_addr)) == 0;
  return a->sa_family == AF_INET6 &&
         std::memcmp(&reinterpret_cast<const sockaddr_in6*>(a)->sin6_addr,
                     &reinterpret_cast<const sockaddr_in6*>(b)->sin6_addr, sizeof(in6_addr)) == 0;
}

}  // namespace

int interface_speed_mbit(const std::string& name, const std::string& folder) {
  try {
    const std::string text = read_file(folder + "/" + name + "/speed");
    int mbit = -1;
    std::from_chars(text.data(), text.data() + text.size(), mbit);
    return mbit > 0 ? mbit : -1;
  } catch (const FormatError&) {  // there is no such file, or reading it is an error
    return -1;
  }
}

int socket_speed_mbit(int fd) {
  sockaddr_storage own{};
  socklen_t length = sizeof own;
  ifaddrs* list = nullptr;
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&own), &length) != 0 || getifaddrs(&list) != 0)
    return -1;
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owned(list, &freeifaddrs);
  for (const ifaddrs* i = list; i; i = i->ifa_next) {
    if (same_address(i->ifa_addr, reinterpret_cast<const sockaddr*>(&own)))
      return interface_speed_mbit(i->ifa_name);
  }
  return -1;
}

}  // namespace stretto::comm
