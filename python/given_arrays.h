// Arrays of NumPy and PyTorch as they come in calls: read where they are, without an object made
// for each, because operators are called for microseconds of work.
#pragma once

#include <nanobind/nanobind.h>

#include <string>
#include <vector>

#include "frameworks.h"
#include "stretto/runtime/direct/arguments.h"
#include "stretto/tensor/tensor.h"

namespace stretto::python {

// An input of a call, for the time of that call: what it refers to is kept alive.
class GivenArray {
 public:
  // What it is in errors. The text is made when there is one.
  struct What {
    virtual ~What() = default;
    virtual std::string text() const = 0;
  };

  GivenArray() = default;
  ~GivenArray() { release(); }
  GivenArray(GivenArray&& other) noexcept;
  GivenArray& operator=(GivenArray&&) = delete;

  runtime::direct::Argument argument;
  Framework framework = Framework::kNone;
  // A number or a list of numbers, whose type follows from the other inputs.
  nanobind::object numbers;

  // Reads an array, or copies what is not dense. Throws InvalidArgument beginning with `what`.
  // `written`: it is to be written to, so it must be dense and writable.
  void read(nanobind::handle value, const What& what, bool written = false);
  // Makes what `numbers` holds of the given type.
  void make_numbers(DType dtype, const What& what);

 private:
  bool read_numpy(nanobind::handle value, const What& what, bool written);
  bool read_torch(nanobind::handle value, const What& what, bool written);
  bool read_bits(nanobind::handle value);
  bool write_bits(nanobind::handle value, const What& what);
  void read_other(nanobind::handle value, const What& what, bool written);
  void release();

  Py_buffer view_{};
  bool has_view_ = false;
  nanobind::object kept_;
  Tensor values_;
};

}  // namespace stretto::python
