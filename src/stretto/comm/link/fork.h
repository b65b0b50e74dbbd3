// Closes the engine's descriptors in forked children. If a data loader's worker kept the sockets of
// a killed rank open, the other ranks would not notice its death.
#pragma once

#include <cstdint>

namespace stretto::comm {

// Makes children of later fork() calls close this descriptor first, until keep_in_children(), which
// must be called before the descriptor is closed here. From any thread.
void close_in_children(int descriptor);
void keep_in_children(int descriptor);

// How often the process forked since it first called a function of this header. An object that has
// stored another number was made by a parent process: its threads and descriptors are not here.
uint64_t forks();

}  // namespace stretto::comm
