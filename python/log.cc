#include "log.h"

#include <nanobind/nanobind.h>

#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "stretto/base/log.h"

namespace nb = nanobind;

namespace stretto::python {
namespace {

struct Queue {
  std::mutex mutex;
  std::vector<std::pair<LogLevel, std::string>> messages;
  bool scheduled = false;
};

// Never destroyed: the engine's threads may log while the interpreter ends.
Queue& the_queue() {
  static Queue* queue = new Queue;
  return *queue;
}

// On the main thread, with the interpreter's lock.
int deliver(void*) {
  std::vector<std::pair<LogLevel, std::string>> messages;
  {
    Queue& queue = the_queue();
    const std::lock_guard lock(queue.mutex);
    messages.swap(queue.messages);
    queue.scheduled = false;
  }
  try {
    const nb::object logger = nb::module_::import_("logging").attr("getLogger")("stretto");
    for (const auto& [level, message] : messages) {
      const char* method = level == LogLevel::kWarning ? "warning" : "info";
      // Names of files may have bytes that are no UTF-8.
      const auto text = nb::steal<nb::str>(PyUnicode_DecodeUTF8(
          message.data(), static_cast<Py_ssize_t>(message.size()), "backslashreplace"));
      if (!text.is_valid()) nb::raise_python_error();
      logger.attr(method)("%s", text);
    }
  } catch (nb::python_error& error) {
    // A logger of the user's that fails must not break what happens to run; Ctrl-C must.
    if (!error.matches(PyExc_Exception)) {
      error.restore();
      return -1;
    }
    error.discard_as_unraisable("stretto: logging a message");
  }
  return 0;
}

}  // namespace

// Messages come from any thread, some with locks held that a Python thread may wait for. So nobody
// waits for the interpreter's lock here: the main thread delivers them soon.
void route_log_to_python() {
  set_log([](LogLevel level, std::string_view message) {
    Queue& queue = the_queue();
    const std::lock_guard lock(queue.mutex);
    queue.messages.emplace_back(level, message);
    if (!queue.scheduled) queue.scheduled = Py_AddPendingCall(deliver, nullptr) == 0;
  });
}

}  // namespace stretto::python
