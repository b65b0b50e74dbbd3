#include "stretto/base/log.h"

#include <memory>
#include <mutex>
#include <set>
#include <utility>

namespace stretto {
namespace {

struct Log {
  std::mutex mutex;
  std::shared_ptr<const LogCallback> callback;
  std::set<std::string, std::less<>> said;
};

// Never destroyed: threads may still have something to say while the process ends.
Log& the_log() {
  static Log* log = new Log;
  return *log;
}

std::shared_ptr<const LogCallback> current() {
  Log& log = the_log();
  const std::lock_guard lock(log.mutex);
  return log.callback;
}

}  // namespace

std::string_view log_level_name(LogLevel level) {
  return level == LogLevel::kWarning ? "warning" : "info";
}

LogCallback set_log(LogCallback callback) {
  std::shared_ptr<const LogCallback> next;
  if (callback) next = std::make_shared<const LogCallback>(std::move(callback));
  Log& log = the_log();
  {
    const std::lock_guard lock(log.mutex);
    std::swap(log.callback, next);
  }
  return next ? *next : LogCallback();
}

void log_message(LogLevel level, std::string_view message) {
  if (const auto callback = current()) (*callback)(level, message);
}

void log_once(LogLevel level, const std::string& message) {
  const auto callback = current();
  if (!callback) return;
  {
    Log& log = the_log();
    const std::lock_guard lock(log.mutex);
    if (!log.said.insert(message).second) return;
  }
  (*callback)(level, message);
}

}  // namespace stretto
