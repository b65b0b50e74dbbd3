// Threads that live as long as the object that starts them.
#pragma once

#include <functional>
#include <string_view>
#include <thread>

namespace stretto {

// Runs `work` on a new thread. Throws Unsupported naming `what` the thread is for when the
// system starts no more threads.
std::thread start_thread(std::string_view what, std::function<void()> work);

}  // namespace stretto
