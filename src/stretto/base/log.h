// What the library has to say that no caller asked for. It never prints: one callback takes the
// messages, and without a callback they are dropped.
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace stretto {

enum class LogLevel { kInfo, kWarning };

std::string_view log_level_name(LogLevel level);  // "info", "warning"

// Called from any thread, also while the caller holds locks of its own: it must not call Stretto
// and must not throw.
using LogCallback = std::function<void(LogLevel level, std::string_view message)>;

// Replaces the callback and returns the previous one; an empty callback drops messages.
// Thread-safe: a call that is under way on another thread ends with the callback it began with.
LogCallback set_log(LogCallback callback);

void log_message(LogLevel level, std::string_view message);

// The same, but a message that this process has given to a callback before is dropped.
void log_once(LogLevel level, const std::string& message);

}  // namespace stretto
