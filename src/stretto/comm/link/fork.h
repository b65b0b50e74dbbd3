// What a forked child has of an engine: nothing. A data loader's worker that kept sockets open
// would keep a rank alive that was killed, as far as the others can see.
#pragma once

#include <cstdint>

namespace stretto::comm {

// Children that fork() makes from now on close this descriptor before anything else runs in them.
// Until keep_in_children, which has to come before it is closed here. From any thread.
void close_in_children(int descriptor);
void keep_in_children(int descriptor);

// How many forks lie between the process that first called this or close_in_children, and this one.
// What has noted another number was made by a parent: its threads and descriptors are not here.
uint64_t forks();

}  // namespace stretto::comm
