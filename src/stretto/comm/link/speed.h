// How fast the interface of a socket is, as far as the kernel knows.
#pragma once

#include <string>

namespace stretto::comm {

// In Mbit/s; -1: the kernel does not say, as for loopback devices and most virtual cards.
int interface_speed_mbit(const std::string& name, const std::string& folder = "/sys/class/net");
// Of the interface that has the socket's local address; -1: unknown.
int socket_speed_mbit(int fd);

}  // namespace stretto::comm
