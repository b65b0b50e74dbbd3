// comm::Gradients for Python: documented where users see it, in stretto/comm.py.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "closable.h"
#include "stretto/comm/gradient/gradients.h"

namespace stretto::python {

// Name, first element, count, rows, columns.
using SliceTuple = std::tuple<std::string, int64_t, int64_t, int64_t, int64_t>;

comm::Bucket bucket_of(const std::vector<SliceTuple>& slices, const std::string& dtype,
                       uintptr_t values, int64_t step, double loss_scale, double timeout_s);

class CommGradients {
 public:
  // Keeps the engine alive until it is closed.
  CommGradients(std::shared_ptr<comm::Engine> engine, const std::string& name,
                std::vector<int> ranks, const std::string& codec, const comm::Options& options);
  ~CommGradients() { close(); }

  void close();
  comm::Handle submit(const std::vector<SliceTuple>& slices, const std::string& dtype,
                      uintptr_t values, int64_t step, double loss_scale, double timeout_s);
  std::vector<std::pair<comm::Handle, nanobind::object>> next_completions(double timeout_s);
  void interrupt() { Closable<comm::Gradients>::Use(gradients_)->interrupt(); }
  // For those who submit later, on another thread; to be let go before the engine is closed.
  std::shared_ptr<comm::Gradients> shared() { return gradients_.shared(); }

 private:
  std::shared_ptr<comm::Engine> engine_;
  Closable<comm::Gradients> gradients_{"the gradients"};
};

void bind_gradients(nanobind::module_& m);

}  // namespace stretto::python
