#include "named_handle.h"

#include <chrono>
#include <thread>

#include "errors.h"
#include "stretto/base/error.h"

namespace nb = nanobind;

namespace stretto::python {
namespace {

// True while it lives.
class Flag {
 public:
  explicit Flag(bool& flag) : flag_(flag) { flag_ = true; }
  ~Flag() { flag_ = false; }
  Flag(const Flag&) = delete;
  Flag& operator=(const Flag&) = delete;

 private:
  bool& flag_;
};

// Lets other threads of Python run.
void nap() {
  {
    nb::gil_scoped_release released;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  if (PyErr_CheckSignals() != 0) throw nb::python_error();
}

}  // namespace

NamedHandle::~NamedHandle() {
  if (!over_) abandon();
}

void NamedHandle::abandon() { abandoned_.append(nb::make_tuple(handle_, tensor_, nb::none())); }

bool NamedHandle::done() {
  if (over_) return true;
  try {
    return !waited_for_ && unordered().poll(handle_);
  } catch (const InvalidArgument&) {
    unordered().check_process();
    // A thread that has begun to wait meanwhile may have taken the operation over.
    if (waited_for_ || over_) return over_;
    throw;
  }
}

nb::object NamedHandle::wait() {
  while (waited_for_ && !over_) {
    unordered().check_process();
    nap();
  }
  if (!over_) {
    const Flag flag(waited_for_);
    try {
      error_ = unordered().end_of(handle_);
    } catch (const nb::python_error&) {  // Ctrl-C leaves the operation as it was
      throw;
    } catch (const Error&) {  // it was closed; the other threads get this error, too
      error_ = std::current_exception();
      abandon();
    }
    over_ = true;
  }
  if (error_) raise_python(error_);
  return tensor_;
}

void bind_named_handle(nb::module_& m) {
  nb::class_<NamedHandle>(m, "NamedHandle")
      .def("done", &NamedHandle::done)
      .def("wait", &NamedHandle::wait);
}

}  // namespace stretto::python
