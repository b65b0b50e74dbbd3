// A named operation that works in place on one tensor: what training waits for by the thousand.
#pragma once

#include <nanobind/nanobind.h>

#include <exception>
#include <utility>

#include "unordered.h"

namespace stretto::python {

// Behaves as Handle of stretto/horovod/_handles.py. Needs the interpreter's lock. Its class in
// Python is written without nanobind, which would keep every object in a table of all.
class NamedHandle {
 public:
  // Takes over the operation. `abandoned` gets (handle, tensor, None) when nobody has waited for
  // it, because the engine may still write there.
  NamedHandle(nanobind::object owner, comm::Handle handle, nanobind::object tensor,
              nanobind::list abandoned) noexcept
      : owner_(std::move(owner)),
        tensor_(std::move(tensor)),
        abandoned_(std::move(abandoned)),
        handle_(handle) {}
  NamedHandle(const NamedHandle&) = delete;
  NamedHandle& operator=(const NamedHandle&) = delete;
  ~NamedHandle() {
    if (!over_) give_up();
  }

  // False as long as another thread waits.
  bool done();
  // The tensor. Throws the operation's error, each time and on every thread.
  nanobind::object wait();

 private:
  void give_up() noexcept;
  void abandon();
  CommUnordered& unordered() const { return *nanobind::inst_ptr<CommUnordered>(owner_); }

  nanobind::object owner_;  // of type CommUnordered
  nanobind::object tensor_;
  nanobind::list abandoned_;
  comm::Handle handle_;
  std::exception_ptr error_;  // Python's object would refer to its users, and they to this
  bool waited_for_ = false;   // a thread is inside wait()
  bool over_ = false;
};

// As an object of Python. The arguments are those of the constructor.
nanobind::object named_handle(nanobind::object owner, comm::Handle handle, nanobind::object tensor,
                              nanobind::list abandoned);

void bind_named_handle(nanobind::module_& m);

}  // namespace stretto::python
