#include "errors.h"

#include <nanobind/stl/string.h>

#include "stretto/base/error.h"

namespace nb = nanobind;

namespace stretto::python {
namespace {

// nanobind asks every translator in turn: what is not ours passes on to the next.
void translate(const std::exception_ptr& error, void*) {
  try {
    std::rethrow_exception(error);
  } catch (const Error&) {
    set_python_error(error);
  }
}

}  // namespace

nb::object python_exception(const std::exception_ptr& error) {
  const nb::object errors = nb::module_::import_("stretto._errors");
  try {
    std::rethrow_exception(error);
  } catch (const InvalidArgument& e) {
    return errors.attr("InvalidArgumentError")(e.what());
  } catch (const Unsupported& e) {
    return errors.attr("UnsupportedError")(e.what());
  } catch (const FormatError& e) {
    return errors.attr("format_error")(e.what(), e.file(), e.offset(), e.code());
  } catch (const CommError& e) {
    return errors.attr("CommError")(e.what(), e.rank(), e.link());
  } catch (const std::exception& e) {
    return errors.attr("InternalError")(e.what());
  }
}

void set_python_error(const std::exception_ptr& error) {
  const nb::object exception = python_exception(error);
  PyErr_SetObject(exception.type().ptr(), exception.ptr());
}

void raise_python(const std::exception_ptr& error) {
  set_python_error(error);
  throw nb::python_error();
}

void bind_errors() { nb::register_exception_translator(translate); }

}  // namespace stretto::python
