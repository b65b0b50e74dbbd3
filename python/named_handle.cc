#include "named_handle.h"

#include <chrono>
#include <thread>

#include "errors.h"

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
  if (!over_) abandoned_.append(tensor_);
}

// While another thread waits, the engine may have forgotten the handle already.
bool NamedHandle::done() { return over_ || (!waited_for_ && unordered().poll(handle_)); }

nb::object NamedHandle::wait() {
  while (waited_for_ && !over_) nap();
  if (!over_) {
    const Flag flag(waited_for_);
    error_ = unordered().end_of(handle_);  // Ctrl-C leaves the operation as it was
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
