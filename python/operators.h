// Single operators for Python: stretto.ops.
#pragma once

#include <nanobind/nanobind.h>

#include <utility>

#include "frameworks.h"
#include "stretto/ops.h"

namespace stretto::python {

// stretto.ops.Constant.
struct OperatorConstant {
  explicit OperatorConstant(nanobind::handle values);
  ops::Constant constant;
  Framework framework;

 private:
  explicit OperatorConstant(std::pair<Tensor, Framework> read)
      : constant(read.first), framework(read.second) {}
  static std::pair<Tensor, Framework> read(nanobind::handle values);
};

struct OperatorContext {
  explicit OperatorContext(const ops::ContextOptions& options) : context(options) {}
  ops::Context context;
};

void bind_operators(nanobind::module_& m);
void bind_bound_operator(nanobind::module_& m);

}  // namespace stretto::python
