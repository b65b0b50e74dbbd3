// comm::Unordered for Python: documented where users see it, in stretto/_unordered.py.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "closable.h"
#include "dense_tensor.h"
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

  // From then on all calls throw InvalidArgument with this text.
  void close(std::string why = "named operations: closed");
  comm::Handle submit(const std::string& name, const std::string& description, comm::Group group,
                      const nanobind::list& operations);
  // Operations by the thousand: submit_again copies the operation that add_template was given for
  // `reduction` and a tensor of the same class, element type and shape; all but its name and its
  // memory, in which it works in place. The one returns whether it has kept the operation, and the
  // other nothing where it has none.
  bool add_template(nanobind::handle tensor, std::string_view reduction, std::string description,
                    comm::Group group, const nanobind::dict& operation);
  std::optional<comm::Handle> submit_again(std::string_view prefix, std::string_view name,
                                           nanobind::handle tensor, std::string_view reduction);
  comm::Handle submit_call(const std::string& name, const std::string& description,
                           nanobind::object start);
  comm::Handle submit_gradient(const std::string& name, const std::string& description,
                               CommGradients& gradients, const std::vector<SliceTuple>& slices,
                               const std::string& dtype, uintptr_t values, int64_t step,
                               double loss_scale, double timeout_s);
  void set_timeout(double timeout_s) { Use(unordered_)->set_timeout(timeout_s); }
  comm::Handle join() { return Use(unordered_)->join(); }
  int last_joined() { return Use(unordered_)->last_joined(); }
  bool poll(comm::Handle handle);
  bool wait(comm::Handle handle, double timeout_s);
  // Waits without a limit, and returns the operation's error.
  std::exception_ptr end_of(comm::Handle handle);
  // Throws in a forked child, where the threads that wait are not.
  void check_process() const {
    if (unordered_.forked()) check_open();
  }
  void leave() { Use(unordered_)->leave(); }
  bool wait_left(double timeout_s);

 private:
  void check_open() const;
  bool takes_name(const comm::Operation& operation) const;

  using Use = Closable<comm::Unordered>::Use;

  using Templates = std::unordered_map<std::string, std::shared_ptr<const comm::Recurring>>;

  std::shared_ptr<comm::Engine> engine_;
  std::string closed_;      // why; empty: open
  TensorClasses classes_;   // of tensors in `templates_`
  Templates templates_;     // by key_of()
  std::string key_, name_;  // the last ones, for their memory
  Closable<comm::Unordered> unordered_{"named operations"};
};

void bind_unordered(nanobind::module_& m);

}  // namespace stretto::python
