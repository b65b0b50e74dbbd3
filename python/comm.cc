// The gradient engine for Python: addresses and counts in, handles out. Buffers stay the caller's;
// who keeps them alive is stretto/comm.py and stretto/torch.
#include "comm.h"

#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <array>
#include <map>

#include "closable.h"
#include "comm_statistics.h"
#include "gradients.h"
#include "named_handle.h"
#include "python_signals.h"
#include "stretto/base/clock.h"
#include "stretto/base/error.h"
#include "stretto/base/interrupt.h"
#include "stretto/comm/engine/engine.h"
#include "stretto/comm/gradient/exchange.h"
#include "unordered.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace stretto::python {
namespace {

using namespace stretto::comm;

using Use = Closable<Engine>::Use;

constexpr size_t kCompletionBatch = 64;

// A Python object with set(key, bytes) and get(key, timeout_s) -> bytes.
class PythonStore : public Store {
 public:
  explicit PythonStore(nb::object store) : store_(std::move(store)) {}
  ~PythonStore() override {
    nb::gil_scoped_acquire gil;
    store_.reset();
  }

  void set(std::string_view key, std::string_view value) override {
    nb::gil_scoped_acquire gil;
    store_.attr("set")(nb::str(key.data(), key.size()), nb::bytes(value.data(), value.size()));
  }

  std::string get(std::string_view key, double timeout_s) override {
    nb::gil_scoped_acquire gil;
    try {
      const nb::object value = store_.attr("get")(nb::str(key.data(), key.size()), timeout_s);
      const auto bytes = nb::cast<nb::bytes>(value);
      return {static_cast<const char*>(bytes.data()), bytes.size()};
    } catch (const nb::python_error& e) {
      if (!e.matches(PyExc_Exception)) throw;  // Ctrl-C
      throw CommError(-1, "store", fmt::format("store: no '{}': {}", key, e.what()));
    }
  }

 private:
  nb::object store_;
};

// Asks another store in slices, so that Ctrl-C ends the wait for ranks that do not come.
class InterruptibleStore : public Store {
 public:
  explicit InterruptibleStore(std::shared_ptr<Store> store) : store_(std::move(store)) {}

  void set(std::string_view key, std::string_view value) override { store_->set(key, value); }

  std::string get(std::string_view key, double timeout_s) override {
    const double deadline = now_s() + timeout_s;
    while (true) {
      try {
        return store_->get(key, std::min(timeout_s, kSlice_s));
      } catch (const CommError& e) {
        if (now_s() >= deadline) throw CommError(e.rank(), e.link(), whole(e.what(), timeout_s));
      }
      check_signals();
    }
  }

 private:
  static constexpr double kSlice_s = 0.5;

  // The error with the time of all slices.
  static std::string whole(std::string text, double timeout_s) {
    const size_t at = text.rfind(" within ");
    return at == text.npos ? text : fmt::format("{} within {:g} s", text.substr(0, at), timeout_s);
  }

  std::shared_ptr<Store> store_;
};

std::shared_ptr<Store> store_of(const nb::object& store, bool serves) {
  if (!nb::isinstance<nb::str>(store)) return std::make_shared<PythonStore>(store);
  return std::make_shared<InterruptibleStore>(open_store(nb::cast<std::string>(store), serves));
}

// The engine, and the store it was opened with.
class CommEngine {
 public:
  CommEngine(const nb::object& store, int rank, int size, uint32_t epoch, const Options& options) {
    std::shared_ptr<Store> shared = store_of(store, rank == 0);
    if (nb::isinstance<nb::str>(store)) store_ = shared;
    std::shared_ptr<Engine> engine;
    {
      nb::gil_scoped_release released;
      const InterruptScope interrupt(check_signals);
      engine =
          Engine::create(std::move(shared), {.rank = rank, .size = size, .epoch = epoch}, options);
    }
    engine_.open(std::move(engine));
  }

  ~CommEngine() { close(); }

  // Threads that wait for an operation get a CommError when nothing reads or writes their memory
  // any more: in about a second at most.
  void close() {
    const bool forked = engine_.forked();
    engine_.close([](Engine& engine) { engine.close(); });
    std::shared_ptr<Store> store = std::move(store_);
    store_.reset();
    if (forked && store) new std::shared_ptr<Store>(std::move(store));  // its threads are not here
    nb::gil_scoped_release released;
    store.reset();
  }

  Use use() { return Use(engine_); }

  CommGradients* gradients(const std::string& name, std::vector<int> ranks,
                           const std::string& codec, const Options& options) {
    return new CommGradients(engine_.shared(), name, std::move(ranks), codec, options);
  }

  CommUnordered* unordered(const std::string& name, std::vector<int> ranks, double stall_s,
                           nb::object stalled, nb::object stand_in) {
    return new CommUnordered(engine_.shared(), name, std::move(ranks), stall_s, std::move(stalled),
                             std::move(stand_in));
  }

  Handle submit(Group group, uint8_t kind, const std::string& dtype, uint8_t reduction,
                int64_t count, uintptr_t input, uintptr_t output, int root, int peer, uint32_t tag,
                std::string codec, std::string name, bool queue, std::vector<int64_t> input_counts,
                std::vector<int64_t> output_counts, double timeout_s, bool rendezvous,
                bool blocking) {
    if (kind > static_cast<uint8_t>(Kind::kBarrier))
      throw_invalid("submit: kind: expected one of the numbers 0 to {} in stretto.comm, got {}",
                    static_cast<int>(Kind::kBarrier), kind);
    if (reduction > static_cast<uint8_t>(ReduceOp::kXor))
      throw_invalid(
          "submit: reduction: expected a place in stretto.comm.REDUCTIONS, 0 to {}, got {}",
          static_cast<int>(ReduceOp::kXor), reduction);
    const Operation operation{.kind = static_cast<Kind>(kind),
                              .dtype = parse_dtype(dtype),
                              .reduction = static_cast<ReduceOp>(reduction),
                              .root = root,
                              .peer = peer,
                              .tag = tag,
                              .count = count,
                              .input = reinterpret_cast<const void*>(input),
                              .output = reinterpret_cast<void*>(output),
                              .input_counts = std::move(input_counts),
                              .input_displacements = {},
                              .output_counts = std::move(output_counts),
                              .output_displacements = {},
                              .codec = std::move(codec),
                              .name = std::move(name),
                              .residual = nullptr,
                              .timeout_s = timeout_s,
                              .rendezvous = rendezvous,
                              .blocking = blocking};
    return start(group, operation, queue ? Delivery::kQueue : Delivery::kWait);
  }

  // All-reduces a tensor in place, exactly, and waits for it if `blocking`. False when the engine
  // cannot work on its memory. What submit() has as keywords takes longer to hand over than a small
  // all-reduce does. `begun` gets the handle as soon as there is one: whatever Python raises later,
  // its caller knows that the memory is in use.
  bool all_reduce(Group group, nb::handle tensor, uint8_t reduction, double timeout_s,
                  bool blocking, nb::list begun) {
    if (!classes_.add(tensor)) return false;
    const std::optional<DenseTensor> dense = classes_.dense(tensor);
    if (!dense) return false;
    int64_t count = 1;
    for (const int64_t size : dense->shape) count *= size;
    const Handle handle = start(group, {.kind = Kind::kAllReduce,
                                        .dtype = dense->dtype,
                                        .reduction = static_cast<ReduceOp>(reduction),
                                        .count = count,
                                        .input = dense->data,
                                        .output = dense->data,
                                        .codec = "none",
                                        .timeout_s = timeout_s,
                                        .blocking = blocking});
    begun.append(handle);
    if (blocking) wait(handle, -1);
    return true;
  }

  void step(Group group) {
    const Use engine = use();
    nb::gil_scoped_release released;
    engine->step(group);
  }

  nb::dict link_model(Group group) {
    const Use engine = use();
    GroupLinks links;
    {
      nb::gil_scoped_release released;
      links = engine->link_model(group);
    }
    return links_dict(links);
  }

  bool wait(Handle handle, double timeout_s) {
    const Use engine = use();
    return wait_in_slices(
        timeout_s, [&](double slice) { return engine->wait(handle, slice); },
        [&] { engine.check_own(); });
  }

  std::vector<std::tuple<Handle, nb::object, int>> next_completions(double timeout_s) {
    std::array<Completion, kCompletionBatch> batch;
    size_t count = 0;
    const Use engine = use();
    {
      nb::gil_scoped_release released;
      count = engine->next_completions(batch, timeout_s);
    }
    std::vector<std::tuple<Handle, nb::object, int>> result;
    for (size_t i = 0; i < count; ++i) {
      result.emplace_back(batch[i].handle,
                          batch[i].error ? python_exception(batch[i].error) : nb::none(),
                          batch[i].source);
    }
    return result;
  }

  // A Use begins and ends with the interpreter's lock; a long text is written without it.
  std::string trace_json() {
    const Use engine = use();
    nb::gil_scoped_release released;
    return engine->trace_json();
  }

  std::string stop_trace() {
    const Use engine = use();
    nb::gil_scoped_release released;
    return engine->stop_trace();
  }

  std::string flight_json(const std::string& reason) {
    const Use engine = use();
    nb::gil_scoped_release released;
    return engine->flight_json(reason);
  }

  using ReportTuple = std::tuple<int, std::string, Group, uint64_t, int64_t, int64_t, int64_t>;

  std::vector<ReportTuple> take_non_finite() {
    std::vector<ReportTuple> result;
    for (const NonFiniteReport& r : use()->take_non_finite()) {
      result.emplace_back(r.rank, r.name, r.group, r.sequence, r.first_offset, r.count, r.more);
    }
    return result;
  }

  void wait_non_finite(double timeout_s) {
    const Use engine = use();
    nb::gil_scoped_release released;
    engine->wait_non_finite(timeout_s);
  }

 private:
  Handle start(Group group, const Operation& operation, Delivery delivery = Delivery::kWait) {
    const Use engine = use();
    if (engine->options().tuning == Tuning::kOff) return engine->submit(group, operation, delivery);
    // At the end of a step it may choose settings anew and plan with them.
    nb::gil_scoped_release released;
    return engine->submit(group, operation, delivery);
  }

  TensorClasses classes_;                  // of all_reduce()
  std::shared_ptr<Store> store_;           // ours: rank 0 answers the others as long as it lives
  Closable<Engine> engine_{"the engine"};  // gradients use it too
};

CommEngine* create(const nb::object& store, int rank, int size, uint32_t epoch,
                   const Options& options) {
  return new CommEngine(store, rank, size, epoch, options);
}

// The address of an object's writable, C-contiguous buffer; 0 when it has none. NumPy's own ways to
// an address take longer than a small all-reduce does.
uintptr_t buffer_address(const nb::handle& object) {
  Py_buffer view;
  if (PyObject_GetBuffer(object.ptr(), &view, PyBUF_WRITABLE | PyBUF_C_CONTIGUOUS) != 0) {
    PyErr_Clear();
    return 0;
  }
  const auto address = reinterpret_cast<uintptr_t>(view.buf);
  PyBuffer_Release(&view);
  return address;
}

std::vector<std::map<std::string, std::string>> option_rows(const Options& options) {
  std::vector<std::map<std::string, std::string>> rows;
  for (const OptionRow& row : describe(options)) {
    rows.push_back({{"variable", row.variable},
                    {"value", row.value},
                    {"default", row.default_value},
                    {"allowed", row.allowed},
                    {"meaning", row.meaning}});
  }
  return rows;
}

}  // namespace

void bind_comm(nb::module_& m) {
  // Raises InvalidArgumentError with the names there are.
  m.def(
      "check_codec", [](const std::string& name) { find_gradient_codec(name); }, "name"_a);
  m.def("parse_step_policy", [](const std::string& text) {
    const StepPolicy policy = parse_step_policy(text);
    return std::tuple(static_cast<int>(policy.kind), policy.interval, policy.overlap);
  });
  nb::class_<Options>(m, "CommOptions",
                      "Settings of an engine: one attribute per STRETTO_* variable of "
                      "docs/options.md. rows() gives\nvariable, value, default, allowed values and "
                      "meaning of each.")
      .def(nb::init<>())
      .def_static("from_environment", &Options::from_environment)
      .def("rows", &option_rows)
      .def_rw("interfaces", &Options::interfaces)
      .def_rw("ports", &Options::ports)
      .def_rw("transports", &Options::transports)
      .def_rw("streams", &Options::streams)
      .def_rw("congestion", &Options::congestion)
      .def_rw("rdma", &Options::rdma)
      .def_rw("host", &Options::host)
      .def_rw("rack", &Options::rack)
      .def_rw("secret", &Options::secret)
      .def_prop_rw(
          "mac", [](const Options& o) { return std::string(mac_use_name(o.mac)); },
          [](Options& o, const std::string& text) { o.mac = parse_mac_use(text); })
      .def_rw("algorithm", &Options::algorithm)
      .def_rw("chunk_bytes", &Options::chunk_bytes)
      .def_rw("eager_limit_bytes", &Options::eager_limit_bytes)
      .def_rw("fuse_bytes", &Options::fuse_bytes)
      .def_prop_rw(
          "codec", [](const Options& o) { return o.codec; },
          [](Options& o, const std::string& text) { o.codec = find_gradient_codec(text).name; })
      .def_rw("topk_density", &Options::topk_density)
      .def_rw("topk_warmup_steps", &Options::topk_warmup_steps)
      .def_rw("powersgd_rank", &Options::powersgd_rank)
      .def_rw("mixed_error", &Options::mixed_error)
      .def_rw("mixed_every", &Options::mixed_every)
      .def_prop_rw(
          "step_policy", [](const Options& o) { return o.step_policy; },
          [](Options& o, const std::string& text) {
            parse_step_policy(text);
            o.step_policy = text;
          })
      .def_prop_rw(
          "tuning", [](const Options& o) { return std::string(tuning_name(o.tuning)); },
          [](Options& o, const std::string& text) { o.tuning = parse_tuning(text); })
      .def_rw("tuning_cache", &Options::tuning_cache)
      .def_rw("tuning_start", &Options::tuning_start)
      .def_rw("order_check", &Options::order_check)
      .def_rw("connect_timeout_s", &Options::connect_timeout_s)
      .def_rw("silent_limit_s", &Options::silent_limit_s)
      .def_rw("operation_timeout_s", &Options::operation_timeout_s)
      .def_rw("redial_s", &Options::redial_s)
      .def_rw("trace", &Options::trace)
      .def_rw("dump", &Options::dump);

  nb::class_<CommEngine>(m, "CommEngine")
      .def("close", &CommEngine::close)
      .def_prop_ro("rank", [](CommEngine& e) { return e.use()->membership().rank; })
      .def_prop_ro("size", [](CommEngine& e) { return e.use()->membership().size; })
      .def_prop_ro("hosts", [](CommEngine& e) { return e.use()->hosts(); })
      .def("add_group",
           [](CommEngine& e, const std::string& name, std::vector<int> ranks) {
             return e.use()->add_group(name, std::move(ranks));
           })
      .def("remove_group", [](CommEngine& e, Group group) { e.use()->remove_group(group); })
      .def("gradients", &CommEngine::gradients, "name"_a, "ranks"_a, "codec"_a, "options"_a,
           nb::rv_policy::take_ownership)
      .def("unordered", &CommEngine::unordered, "name"_a, "ranks"_a, "stall_s"_a, "stalled"_a,
           "stand_in"_a, nb::rv_policy::take_ownership)
      .def("submit", &CommEngine::submit, "group"_a, "kind"_a, "dtype"_a,
           "reduction"_a = static_cast<int>(ReduceOp::kAverage), "count"_a = 0, "input"_a = 0,
           "output"_a = 0, "root"_a = 0, "peer"_a = 0, "tag"_a = 0, "codec"_a = "", "name"_a = "",
           "queue"_a = false, "input_counts"_a = std::vector<int64_t>(),
           "output_counts"_a = std::vector<int64_t>(), "timeout_s"_a = 0.0, "rendezvous"_a = false,
           "blocking"_a = false)
      .def("all_reduce", &CommEngine::all_reduce, "group"_a, "tensor"_a, "reduction"_a,
           "timeout_s"_a, "blocking"_a, "begun"_a)
      .def("step", &CommEngine::step, "group"_a = kWorld)
      .def("link_model", &CommEngine::link_model, "group"_a = kWorld)
      .def("poll", [](CommEngine& e, Handle handle) { return e.use()->poll(handle); })
      .def("source", [](CommEngine& e, Handle handle) { return e.use()->source(handle); })
      .def("awaited", [](CommEngine& e, Handle handle) { return e.use()->awaited(handle); })
      .def("wait", &CommEngine::wait, "handle"_a, "timeout_s"_a = -1.0)
      .def("deliver", [](CommEngine& e, Handle handle) { e.use()->deliver(handle); })
      .def("next_completions", &CommEngine::next_completions, "timeout_s"_a)
      .def("interrupt", [](CommEngine& e) { e.use()->interrupt(); })
      .def("abort", [](CommEngine& e, const std::string& reason) { e.use()->abort(reason); })
      .def("take_non_finite", &CommEngine::take_non_finite)
      .def("wait_non_finite", &CommEngine::wait_non_finite, "timeout_s"_a)
      .def("statistics",
           [](CommEngine& e) {
             const Use engine = e.use();
             Statistics statistics;
             {
               nb::gil_scoped_release released;
               statistics = engine->statistics();
             }
             return statistics_dict(statistics);
           })
      .def("trace_json", &CommEngine::trace_json)
      .def("start_trace", [](CommEngine& e) { e.use()->start_trace(); })
      .def("stop_trace", &CommEngine::stop_trace)
      .def("flight_json", &CommEngine::flight_json);

  m.def("buffer_address", &buffer_address, "object"_a.none());
  m.def("comm_engine", &create, "store"_a, "rank"_a, "size"_a, "epoch"_a, "options"_a,
        nb::rv_policy::take_ownership);
  bind_gradients(m);
  bind_unordered(m);
  bind_named_handle(m);
}

}  // namespace stretto::python
