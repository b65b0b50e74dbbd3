// For objects that own threads: fork() copies such an object, but not its threads.
#pragma once

#include <cstdint>

namespace stretto {

// How often the process forked since it first called this. An object that has stored another number
// was made by a parent process: its threads are not here, and its locks may be locked for ever.
uint64_t forks();

}  // namespace stretto
