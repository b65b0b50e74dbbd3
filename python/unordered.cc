#include "unordered.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <utility>

#include "comm.h"
#include "named_handle.h"
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

constexpr size_t kMostTemplates = 4096;

// Differs between tensors whose operations have different templates.
void key_of(const DenseTensor& tensor, std::string_view reduction, std::string* key) {
  *key = reduction;
  *key += static_cast<char>(tensor.dtype);
  key->append(reinterpret_cast<const char*>(tensor.shape.data()), tensor.shape.size_bytes());
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

void CommUnordered::close(std::string why) {
  closed_ = std::move(why);
  unordered_.close([](Unordered&) {});
  std::shared_ptr<Engine> engine = std::move(engine_);
  engine_.reset();
  nb::gil_scoped_release released;
  engine.reset();
}

void CommUnordered::check_open() const {
  if (!closed_.empty()) throw_invalid("{}", closed_);
}

// For timelines and reports. With a codec a name would also keep what encodings lose.
bool CommUnordered::takes_name(const Operation& operation) const {
  const std::string& codec = operation.codec.empty() ? engine_->options().codec : operation.codec;
  return operation.name.empty() && codec == "none";
}

Handle CommUnordered::submit(const std::string& name, const std::string& description, Group group,
                             const nb::list& operations) {
  std::vector<Operation> all;
  for (const nb::handle words : operations) {
    all.push_back(operation_of(nb::cast<nb::dict>(words)));
    if (takes_name(all.back())) all.back().name = name;
  }
  const Use unordered(unordered_);
  return unordered->submit(name, description, group, std::move(all));
}

bool CommUnordered::add_template(nb::handle tensor, std::string_view reduction,
                                 std::string description, Group group, const nb::dict& operation) {
  if (templates_.size() >= kMostTemplates) return false;  // shapes that never come again
  if (!classes_.add(tensor)) return false;
  const std::optional<DenseTensor> dense = classes_.dense(tensor);
  if (!dense) return false;
  key_of(*dense, reduction, &key_);
  Recurring what{
      .description = std::move(description), .group = group, .operation = operation_of(operation)};
  what.named = takes_name(what.operation);
  templates_.insert_or_assign(key_, std::make_shared<const Recurring>(std::move(what)));
  return true;
}

std::optional<Handle> CommUnordered::submit_again(std::string_view prefix, std::string_view name,
                                                  nb::handle tensor, std::string_view reduction) {
  check_open();
  const Use unordered(unordered_);
  const std::optional<DenseTensor> dense = classes_.dense(tensor);
  if (!dense) return std::nullopt;
  key_of(*dense, reduction, &key_);
  const auto found = templates_.find(key_);
  if (found == templates_.end()) return std::nullopt;
  name_.assign(prefix).append(name);
  return unordered->submit(name_, found->second, dense->data);
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
                                      double loss_scale, double timeout_s) {
  const Use unordered(unordered_);
  return unordered->submit(
      name, description,
      [to = gradients.shared(),
       bucket = bucket_of(slices, dtype, values, step, loss_scale, timeout_s)]() -> Rest {
        const Handle handle = to->submit(bucket);
        return [to, handle](double limit_s) { return to->wait(handle, limit_s); };
      });
}

bool CommUnordered::poll(Handle handle) {
  check_open();
  const Use unordered(unordered_);
  nb::gil_scoped_release released;
  return unordered->poll(handle);
}

bool CommUnordered::wait(Handle handle, double timeout_s) {
  check_open();
  const Use unordered(unordered_);
  if (unordered->take_over(handle)) return true;
  return wait_in_slices(
      timeout_s, [&](double slice) { return unordered->wait(handle, slice); },
      [&] { unordered.check(); });
}

std::exception_ptr CommUnordered::end_of(Handle handle) {
  check_open();
  const Use unordered(unordered_);
  std::exception_ptr error;
  if (unordered->take_over(handle)) return error;
  wait_in_slices(
      -1,
      [&](double slice) {
        try {
          return unordered->wait(handle, slice);
        } catch (...) {
          error = std::current_exception();
          return true;
        }
      },
      [&] { unordered.check(); });
  return error;
}

bool CommUnordered::wait_left(double timeout_s) {
  const Use unordered(unordered_);
  return wait_in_slices(
      timeout_s, [&](double slice) { return unordered->wait_left(slice); },
      [&] { unordered.check(); });
}

// Outside of the class, for only here the Python object that it belongs to is known. None: there is
// no template.
nb::object submit_again(nb::handle_t<CommUnordered> self, std::string_view prefix, nb::handle name,
                        nb::object tensor, std::string_view reduction, nb::list abandoned) {
  const nb::str text(name);
  const auto handle =
      nb::inst_ptr<CommUnordered>(self)->submit_again(prefix, text.c_str(), tensor, reduction);
  if (!handle) return nb::none();
  return named_handle(nb::borrow(self), *handle, std::move(tensor), std::move(abandoned));
}

void bind_unordered(nb::module_& m) {
  nb::class_<CommUnordered>(m, "CommUnordered")
      .def("close", &CommUnordered::close, "why"_a)
      .def("submit", &CommUnordered::submit, "name"_a, "description"_a, "group"_a, "operations"_a)
      .def("add_template", &CommUnordered::add_template, "tensor"_a, "reduction"_a, "description"_a,
           "group"_a, "operation"_a)
      .def("submit_again", &submit_again, "prefix"_a, "name"_a, "tensor"_a.none(), "reduction"_a,
           "abandoned"_a)
      .def("submit_call", &CommUnordered::submit_call, "name"_a, "description"_a, "start"_a)
      .def("submit_gradient", &CommUnordered::submit_gradient, "name"_a, "description"_a,
           "gradients"_a, "slices"_a, "dtype"_a, "values"_a, "step"_a, "loss_scale"_a = 1.0,
           "timeout_s"_a = 0.0)
      .def("set_timeout", &CommUnordered::set_timeout, "timeout_s"_a)
      .def("join", &CommUnordered::join)
      .def("last_joined", &CommUnordered::last_joined)
      .def("poll", &CommUnordered::poll, "handle"_a)
      .def("wait", &CommUnordered::wait, "handle"_a, "timeout_s"_a = -1.0)
      .def("leave", &CommUnordered::leave)
      .def("wait_left", &CommUnordered::wait_left, "timeout_s"_a = -1.0);
}

}  // namespace stretto::python
