// Errors of C++ as Python exceptions. Their classes are stretto/_errors.py, so that Python code
// raises the same ones.
#pragma once

#include <nanobind/nanobind.h>

#include <exception>

namespace stretto::python {

// The exception object for `error`: stretto.Error's subclass of the same meaning, with its
// attributes. What is no error of Stretto becomes InternalError. Needs the interpreter's lock.
nanobind::object python_exception(const std::exception_ptr& error);

// Makes it Python's current exception. Needs the interpreter's lock.
void set_python_error(const std::exception_ptr& error);

// The same, and throws it. Needs the interpreter's lock.
[[noreturn]] void raise_python(const std::exception_ptr& error);

// From here on every bound function turns Stretto's errors into these exceptions.
void bind_errors();

}  // namespace stretto::python
