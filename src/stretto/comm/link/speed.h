// How fast the interface of a socket is, as far as the kernel knows.
#pragma once

#include <string>

namespace stretto::comm {

// The speed of an interface in Mbit/s, or -1 when the kernel does not say, as for loopback devices
// and most virtual cards.
int interface_speed_mbit(const std::string& name, const std::string& folder = "/sys/class/net");
// The speed of the interface that has the socket's local address, or -1 when it is unknown.
int socket_speed_mbit(int fd);

}  // namespace stretto::comm
