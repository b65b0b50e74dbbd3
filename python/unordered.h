// comm::Unordered for Python: documented where users see it, in stretto/_unordered.py.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "closable.h"
#include "gradients.h"
#include "stretto/comm/negotiate/unordered.h"

namespace stretto::python {

// Callables of Python are called on the thread of the Unordered, with the interpreter's lock.
class CommUnordered {
 public:
  // Keeps the engine alive until it is closed.
  CommUnordered(std::shared_ptr<comm::Engine> engine, const std::string& name,
                std::vector<int> ranks, double stall_s, nanobind::object stalled,
                nanobind::object stand_in);
  ~CommUnordered() { close(); }

  void close();
  comm::Handle submit(const std::string& name, const std::string& description, comm::Group group,
                      const nanobind::list& operations);
  // For submit_again, which copies the operation: all but its name and its memory, in place.
  size_t add_template(std::string description, comm::Group group, const nanobind::dict& operation);
  comm::Handle submit_again(std::string_view name, size_t like, uintptr_t address);
  comm::Handle submit_call(const std::string& name, const std::string& description,
                           nanobind::object start);
  comm::Handle submit_gradient(const std::string& name, const std::string& description,
                               CommGradients& gradients, const std::vector<SliceTuple>& slices,
                               const std::string& dtype, uintptr_t values, int64_t step,
                               double loss_scale);
  comm::Handle join() { return Use(unordered_)->join(); }
  int last_joined() { return Use(unordered_)->last_joined(); }
  bool poll(comm::Handle handle);
  bool wait(comm::Handle handle, double timeout_s);
  void leave() { Use(unordered_)->leave(); }
  bool wait_left(double timeout_s);

 private:
  void give_name(comm::Operation& operation, std::string_view name) const;

  using Use = Closable<comm::Unordered>::Use;

  struct Template {
    std::string description;
    comm::Group group;
    comm::Operation operation;
  };

  std::shared_ptr<comm::Engine> engine_;
  std::vector<Template> templates_;
  Closable<comm::Unordered> unordered_{"named operations"};
};

void bind_unordered(nanobind::module_& m);

}  // namespace stretto::python
