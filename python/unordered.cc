#include "unordered.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <utility>

#include "comm.h"
#include "stretto/base/error.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace stretto::python {

using namespace stretto::comm;

namespace {

// A callable that C++ threads may hold: touched with the interpreter's lock alone.
class Callable {
 public:
  explicit Callable(nb::object function) : function_(new nb::object(std::move(function))) {}
  Callable(Callable&& other) noexcept : function_(std::exchange(other.function_, nullptr)) {}
  Callable& operator=(Callable&&) = delete;
  ~Callable() {
    if (!function_) return;
    nb::gil_scoped_acquire gil;
    delete function_;
  }
  const nb::object& operator*() const { return *function_; }

 private:
  nb::object* function_;
};

std::shared_ptr<Callable> shared(nb::object function) {
  return std::make_shared<Callable>(std::move(function));
}

// Errors of Python become text, because the Python side raises the error itself.
template <typename... Args>
void call(const Callable& function, Args&&... args) {
  nb::gil_scoped_acquire gil;
  try {
    (*function)(std::forward<Args>(args)...);
  } catch (const nb::python_error& e) {
    throw InvalidArgument(e.what());
  }
}

int64_t number(const nb::dict& words, const char* key) {
  return words.contains(key) ? nb::cast<int64_t>(words[key]) : 0;
}

std::string text(const nb::dict& words, const char* key) {
  return words.contains(key) ? nb::cast<std::string>(words[key]) : "";
}

std::vector<int64_t> numbers(const nb::dict& words, const char* key) {
  return words.contains(key) ? nb::cast<std::vector<int64_t>>(words[key]) : std::vector<int64_t>{};
}

// The keywords of CommEngine::submit.
Operation operation_of(const nb::dict& words) {
  return {.kind = static_cast<Kind>(number(words, "kind")),
          .dtype = parse_dtype(text(words, "dtype")),
          .reduction = words.contains("reduction")
                           ? static_cast<ReduceOp>(number(words, "reduction"))
                           : Operation{}.reduction,
          .root = static_cast<int>(number(words, "root")),
          .count = number(words, "count"),
          .input = reinterpret_cast<const void*>(
              words.contains("input") ? nb::cast<uintptr_t>(words["input"]) : 0),
          .output = reinterpret_cast<void*>(
              words.contains("output") ? nb::cast<uintptr_t>(words["output"]) : 0),
          .input_counts = numbers(words, "input_counts"),
          .output_counts = numbers(words, "output_counts"),
          .codec = text(words, "codec"),
          .name = text(words, "name")};
}

}  // namespace

CommUnordered::CommUnordered(std::shared_ptr<Engine> engine, const std::string& name,
                             std::vector<int> ranks, double stall_s, nb::object stalled,
                             nb::object stand_in)
    : engine_(std::move(engine)) {
  const auto on_stall = shared(std::move(stalled)), on_stand_in = shared(std::move(stand_in));
  UnorderedOptions options{.stall_s = stall_s,
                           .stalled =
                               [on_stall](const Stall& stall) {
                                 nb::gil_scoped_acquire gil;
                                 call(*on_stall, stall.name, stall.waiting_s, stall.missing);
                               },
                           .stand_in = [on_stand_in](const std::string& description) -> Rest {
                             call(*on_stand_in, description);
                             return {};
                           }};
  std::shared_ptr<Unordered> unordered;
  {
    nb::gil_scoped_release released;
    unordered = std::make_shared<Unordered>(*engine_, name, std::move(ranks), std::move(options));
  }
  unordered_.open(std::move(unordered));
}

void CommUnordered::close() {
  unordered_.close([](Unordered&) {});
  std::shared_ptr<Engine> engine = std::move(engine_);
  engine_.reset();
  nb::gil_scoped_release released;
  engine.reset();
}

// For timelines and reports. With a codec a name would also keep what encodings lose.
void CommUnordered::give_name(Operation& operation, std::string_view name) const {
  const std::string& codec = operation.codec.empty() ? engine_->options().codec : operation.codec;
  if (operation.name.empty() && codec == "none") operation.name = name;
}

Handle CommUnordered::submit(const std::string& name, const std::string& description, Group group,
                             const nb::list& operations) {
  std::vector<Operation> all;
  for (const nb::handle words : operations) {
    all.push_back(operation_of(nb::cast<nb::dict>(words)));
    give_name(all.back(), name);
  }
  const Use unordered(unordered_);
  return unordered->submit(name, description, group, std::move(all));
}

size_t CommUnordered::add_template(std::string description, Group group,
                                   const nb::dict& operation) {
  templates_.push_back({std::move(description), group, operation_of(operation)});
  return templates_.size() - 1;
}

Handle CommUnordered::submit_again(std::string_view name, size_t like, uintptr_t address) {
  const Use unordered(unordered_);
  if (like >= templates_.size()) throw_invalid("submit_again: there is no template {}", like);
  const Template& known = templates_[like];
  std::vector<Operation> operations(1, known.operation);
  operations[0].input = operations[0].output = reinterpret_cast<void*>(address);
  give_name(operations[0], name);
  return unordered->submit(name, known.description, known.group, std::move(operations));
}

Handle CommUnordered::submit_call(const std::string& name, const std::string& description,
                                  nb::object start) {
  return Use(unordered_)->submit(name, description, [start = shared(std::move(start))]() -> Rest {
    call(*start);
    return {};
  });
}

Handle CommUnordered::submit_gradient(const std::string& name, const std::string& description,
                                      CommGradients& gradients,
                                      const std::vector<SliceTuple>& slices,
                                      const std::string& dtype, uintptr_t values, int64_t step,
                                      double loss_scale) {
  const Use unordered(unordered_);
  return unordered->submit(name, description,
                           [to = gradients.shared(),
                            bucket = bucket_of(slices, dtype, values, step, loss_scale)]() -> Rest {
                             const Handle handle = to->submit(bucket);
                             return [to, handle](double timeout_s) {
                               return to->wait(handle, timeout_s);
                             };
                           });
}

bool CommUnordered::poll(Handle handle) {
  const Use unordered(unordered_);
  nb::gil_scoped_release released;
  return unordered->poll(handle);
}

bool CommUnordered::wait(Handle handle, double timeout_s) {
  const Use unordered(unordered_);
  if (unordered->take_over(handle)) return true;
  return wait_in_slices(
      timeout_s, [&](double slice) { return unordered->wait(handle, slice); },
      [&] { unordered.check(); });
}

bool CommUnordered::wait_left(double timeout_s) {
  const Use unordered(unordered_);
  return wait_in_slices(
      timeout_s, [&](double slice) { return unordered->wait_left(slice); },
      [&] { unordered.check(); });
}

void bind_unordered(nb::module_& m) {
  nb::class_<CommUnordered>(m, "CommUnordered")
      .def("close", &CommUnordered::close)
      .def("submit", &CommUnordered::submit, "name"_a, "description"_a, "group"_a, "operations"_a)
      .def("add_template", &CommUnordered::add_template, "description"_a, "group"_a, "operation"_a)
      .def("submit_again", &CommUnordered::submit_again, "name"_a, "like"_a, "address"_a)
      .def("submit_call", &CommUnordered::submit_call, "name"_a, "description"_a, "start"_a)
      .def("submit_gradient", &CommUnordered::submit_gradient, "name"_a, "description"_a,
           "gradients"_a, "slices"_a, "dtype"_a, "values"_a, "step"_a, "loss_scale"_a = 1.0)
      .def("join", &CommUnordered::join)
      .def("last_joined", &CommUnordered::last_joined)
      .def("poll", &CommUnordered::poll, "handle"_a)
      .def("wait", &CommUnordered::wait, "handle"_a, "timeout_s"_a = -1.0)
      .def("leave", &CommUnordered::leave)
      .def("wait_left", &CommUnordered::wait_left, "timeout_s"_a = -1.0);
}

}  // namespace stretto::python
