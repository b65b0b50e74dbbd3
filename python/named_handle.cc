#include "named_handle.h"

#include <chrono>
#include <new>
#include <thread>

#include "errors.h"
#include "stretto/base/error.h"

namespace nb = nanobind;

namespace stretto::python {

using comm::Handle;

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

// What Python sees.
struct Object {
  PyObject_HEAD NamedHandle value;
};

NamedHandle& value_of(PyObject* self) { return reinterpret_cast<Object*>(self)->value; }

// The result of a method, or null and Python's exception.
template <typename Method>
PyObject* returned(Method&& method) noexcept {
  try {
    return method().release().ptr();
  } catch (nb::python_error& error) {
    error.restore();
  } catch (...) {
    set_python_error(std::current_exception());
  }
  return nullptr;
}

PyObject* done(PyObject* self, PyObject*) noexcept {
  return returned([&] { return nb::bool_(value_of(self).done()); });
}

PyObject* wait(PyObject* self, PyObject*) noexcept {
  return returned([&] { return value_of(self).wait(); });
}

void destroy(PyObject* self) noexcept {
  PyObject* const type = reinterpret_cast<PyObject*>(Py_TYPE(self));
  value_of(self).~NamedHandle();
  PyObject_Free(self);
  Py_DECREF(type);
}

// Made once, and kept until the process ends.
PyTypeObject* handle_type = nullptr;

}  // namespace

// In the middle of anything, also while an exception is on its way.
void NamedHandle::give_up() noexcept {
  const nb::error_scope kept;
  try {
    abandon();
  } catch (const std::exception&) {  // no memory for the list
  }
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

nb::object named_handle(nb::object owner, Handle handle, nb::object tensor, nb::list abandoned) {
  Object* const object = PyObject_New(Object, handle_type);
  if (!object) throw nb::python_error();
  new (&object->value)
      NamedHandle(std::move(owner), handle, std::move(tensor), std::move(abandoned));
  return nb::steal(reinterpret_cast<PyObject*>(object));
}

void bind_named_handle(nb::module_& m) {
  static PyMethodDef methods[] = {{"done", done, METH_NOARGS, nullptr},
                                  {"wait", wait, METH_NOARGS, nullptr},
                                  {nullptr, nullptr, 0, nullptr}};
  static PyType_Slot slots[] = {
      {Py_tp_dealloc, reinterpret_cast<void*>(destroy)}, {Py_tp_methods, methods}, {0, nullptr}};
  static PyType_Spec spec = {.name = "stretto._stretto._NamedHandle",
                             .basicsize = sizeof(Object),
                             .itemsize = 0,
                             .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                             .slots = slots};
  const nb::object type = nb::steal(PyType_FromSpec(&spec));
  if (!type.is_valid()) throw nb::python_error();
  handle_type = reinterpret_cast<PyTypeObject*>(type.inc_ref().ptr());
  m.attr("_NamedHandle") = type;
}

}  // namespace stretto::python
