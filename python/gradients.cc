#include "gradients.h"

#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <array>

#include "comm.h"
#include "stretto/base/error.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace stretto::python {

using namespace stretto::comm;

using Use = Closable<Gradients>::Use;

CommGradients::CommGradients(std::shared_ptr<Engine> engine, const std::string& name,
                             std::vector<int> ranks, const std::string& codec,
                             const Options& options)
    : engine_(std::move(engine)) {
  gradients_.open(std::make_shared<Gradients>(*engine_, name, std::move(ranks), codec, options));
}

void CommGradients::close() {
  gradients_.close([](Gradients& gradients) { gradients.interrupt(); });
  std::shared_ptr<Engine> engine = std::move(engine_);
  engine_.reset();
  nb::gil_scoped_release released;
  engine.reset();
}

Bucket bucket_of(const std::vector<SliceTuple>& slices, const std::string& dtype, uintptr_t values,
                 int64_t step, double loss_scale, double timeout_s) {
  Bucket bucket{.slices = {},
                .dtype = parse_dtype(dtype),
                .values = reinterpret_cast<void*>(values),
                .step = step,
                .loss_scale = loss_scale,
                .timeout_s = timeout_s};
  for (const auto& [name, begin, count, rows, columns] : slices)
    bucket.slices.push_back({name, begin, count, rows, columns});
  return bucket;
}

Handle CommGradients::submit(const std::vector<SliceTuple>& slices, const std::string& dtype,
                             uintptr_t values, int64_t step, double loss_scale, double timeout_s) {
  const Use gradients(gradients_);
  return gradients->submit(bucket_of(slices, dtype, values, step, loss_scale, timeout_s),
                           Delivery::kQueue);
}

std::vector<std::pair<Handle, nb::object>> CommGradients::next_completions(double timeout_s) {
  std::array<Completion, 64> batch;
  size_t count = 0;
  const Use gradients(gradients_);
  {
    nb::gil_scoped_release released;
    count = gradients->next_completions(batch, timeout_s);
  }
  std::vector<std::pair<Handle, nb::object>> result;
  for (size_t i = 0; i < count; ++i) {
    result.emplace_back(batch[i].handle,
                        batch[i].error ? python_exception(batch[i].error) : nb::none());
  }
  return result;
}

void bind_gradients(nb::module_& m) {
  nb::class_<CommGradients>(m, "CommGradients")
      .def("close", &CommGradients::close)
      .def("submit", &CommGradients::submit, "slices"_a, "dtype"_a, "values"_a, "step"_a,
           "loss_scale"_a = 1.0, "timeout_s"_a = 0.0)
      .def("next_completions", &CommGradients::next_completions, "timeout_s"_a)
      .def("interrupt", &CommGradients::interrupt);
}

}  // namespace stretto::python
