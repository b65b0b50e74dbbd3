// Closes the engine's descriptors in forked children. If a data loader's worker kept the sockets of
// a killed rank open, the other ranks would not notice its death.
#pragma once

namespace stretto::comm {

// Makes children of later fork() calls close this descriptor first, until keep_in_children(), which
// must be called before the descriptor is closed here. From any thread.
void close_in_children(int descriptor);
void keep_in_children(int descriptor);

}  // namespace stretto::comm
