// Work that several threads take from a common list.
#pragma once

#include <functional>

namespace stretto {

// Calls `work` on this thread and on at most `count` - 1 others at the same time, and returns when
// all calls have. `work` takes tasks from a list of its own until none is left, so that fewer
// threads only take longer: those that the system refuses to start are done without. Rethrows the
// first exception of any call.
void run_parallel(int count, const std::function<void()>& work);

}  // namespace stretto
