// stretto._stretto: the C++ interface with as little in between as possible. What users see is in
// stretto/*.py.
#include <nanobind/nanobind.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/set.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

#include <cstdio>
#include <nlohmann/json.hpp>

#include "comm.h"
#include "comparison.h"
#include "data.h"
#include "errors.h"
#include "graph.h"
#include "log.h"
#include "operators.h"
#include "peers.h"
#include "python_signals.h"
#include "stretto/base/cpu.h"
#include "stretto/base/file.h"
#include "stretto/base/interrupt.h"
#include "stretto/base/machine_rates.h"
#include "stretto/base/memory.h"
#include "stretto/report/report.h"
#include "stretto/runtime/model_state.h"
#include "stretto/runtime/optimize.h"
#include "stretto/runtime/other_shapes.h"
#include "stretto/stretto.h"
#include "tensors.h"
#include "verbs.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace stretto::python {
namespace {

std::map<std::string, Tensor> tensors(const std::map<std::string, Array>& arrays) {
  std::map<std::string, Tensor> result;
  for (const auto& [name, array] : arrays) result.emplace(name, tensor_view(array));
  return result;
}

nb::typed<nb::list, nb::ndarray<nb::numpy>> numpy_arrays(const std::vector<Tensor>& tensors) {
  nb::list result;
  for (const Tensor& tensor : tensors) result.append(numpy_array(tensor));
  return nb::borrow<nb::typed<nb::list, nb::ndarray<nb::numpy>>>(result);
}

// A model with the session that runs it: Session in Python.
class ModelSession {
 public:
  explicit ModelSession(Model model) : model_(std::move(model)), session_(model_) {}

  const Model& model() const { return model_; }

  nb::typed<nb::list, nb::ndarray<nb::numpy>> run(const std::vector<Array>& arrays) {
    std::vector<Tensor> inputs;
    for (const Array& array : arrays) inputs.push_back(tensor_view(array));
    std::vector<Tensor> outputs;
    {
      nb::gil_scoped_release released;
      narrow(inputs, model_.inputs());
      const InterruptScope interrupt(check_signals);
      outputs = session_.run(inputs);
    }
    return numpy_arrays(outputs);
  }

  // On from a context: outputs other than state, in the order of Context.outputs. Of one of them
  // the last place only, if it is named.
  nb::typed<nb::list, nb::ndarray<nb::numpy>> run_on(Context& context,
                                                     const std::map<std::string, Array>& arrays,
                                                     const std::string& last_place_of) {
    std::map<std::string, Tensor> inputs = tensors(arrays);
    std::vector<Tensor> outputs;
    {
      nb::gil_scoped_release released;
      const InterruptScope interrupt(check_signals);
      outputs = session_.run(inputs, context, {.last_place_of = last_place_of});
    }
    return numpy_arrays(outputs);
  }

  // The same where a value may also be None, a list, or strings: a pair of shape and list.
  nb::list run_values(const nb::list& values) {
    std::vector<AnyValue> inputs;
    for (size_t i = 0; i < nb::len(values); ++i) {
      inputs.push_back(any_value(values[i]));
      if (i >= model_.inputs().size() || !inputs[i].is_tensor()) continue;
      const DType dtype = model_.inputs()[i].dtype;
      const Tensor& tensor = inputs[i].tensor();
      if (dtype != DType::kUndefined && tensor.dtype() != dtype &&
          tensor.dtype() == numpy_type(dtype)) {
        inputs[i] = tensor.converted(dtype);
      }
    }
    std::vector<AnyValue> outputs;
    {
      nb::gil_scoped_release released;
      const InterruptScope interrupt(check_signals);
      outputs = session_.run_values(inputs);
    }
    nb::list result;
    for (const AnyValue& output : outputs) result.append(python_value(output));
    return result;
  }

  // What the program takes of pictures: paths, and pixels or the bytes of a file in one dimension.
  // One array.
  nb::typed<nb::list, nb::ndarray<nb::numpy>> prepare_pictures(
      const std::vector<std::variant<std::string, Array>>& given) {
    std::vector<runtime::GivenPicture> pictures;
    for (const auto& one : given) {
      if (const auto* path = std::get_if<std::string>(&one)) {
        pictures.push_back({.path = *path});
      } else {
        pictures.push_back({.pixels = tensor_view(std::get<Array>(one))});
      }
    }
    Tensor made;
    {
      nb::gil_scoped_release released;
      const InterruptScope interrupt(check_signals);
      made = runtime::prepare_all(model_, pictures);
    }
    return numpy_arrays({made});
  }

  // Programs that a model which runs in stages has made so far.
  int programs() const { return model_.staged() ? model_.state().staged->programs() : 1; }

  // The same on memory of the caller: addresses of dense tensors whose types and shapes are those
  // of the model. Python has checked them.
  void run_at(const std::vector<uintptr_t>& inputs, const std::vector<uintptr_t>& outputs) {
    std::vector<const void*> from;
    std::vector<void*> to;
    for (uintptr_t address : inputs) from.push_back(reinterpret_cast<const void*>(address));
    for (uintptr_t address : outputs) to.push_back(reinterpret_cast<void*>(address));
    nb::gil_scoped_release released;
    const InterruptScope interrupt(check_signals);
    session_.run(from, to);
  }

 private:
  // Types that NumPy lacks are given as numpy_type() and rounded.
  static void narrow(std::vector<Tensor>& inputs, const std::vector<TensorSpec>& specs) {
    for (size_t i = 0; i < std::min(inputs.size(), specs.size()); ++i) {
      const DType dtype = specs[i].dtype;
      if (inputs[i].dtype() != dtype && inputs[i].dtype() == numpy_type(dtype)) {
        inputs[i] = inputs[i].converted(dtype);
      }
    }
  }

  Model model_;
  Session session_;
};

// What Python wants to be called with: stage and share of it that is done.
using Tell = std::optional<nb::typed<nb::callable, void(std::string, double)>>;

// Passes progress on to `tell`, which must outlive the result.
std::function<void(std::string_view, double)> progress(const Tell& tell) {
  return [&tell](std::string_view stage, double fraction) {
    if (!tell) return;
    nb::gil_scoped_acquire gil;
    (*tell)(nb::str(stage.data(), stage.size()), fraction);
  };
}

ModelSession* optimize_source(const std::optional<std::string>& path,
                              const std::optional<nb::bytes>& content, const std::string& name,
                              OptimizeOptions& options, const std::map<std::string, Array>& inputs,
                              const Tell& tell) {
  options.inputs = tensors(inputs);
  options.progress = progress(tell);
  options.interrupt = check_signals;
  const auto* data = content ? static_cast<const std::byte*>(content->data()) : nullptr;
  const size_t size = content ? content->size() : 0;
  nb::gil_scoped_release released;
  return new ModelSession(path ? optimize(*path, options)
                               : optimize(std::span(data, size), name, "", options));
}

ModelSession* optimize_graph(GraphBuilder& graph, OptimizeOptions& options,
                             const std::map<std::string, Array>& inputs, const Tell& tell,
                             bool for_other_shapes) {
  options.inputs = tensors(inputs);
  options.progress = progress(tell);
  options.interrupt = check_signals;
  ImportedModel imported = graph.take();
  nb::gil_scoped_release released;
  return new ModelSession(runtime::optimize_model(std::move(imported), options, for_other_shapes));
}

// The graph as an ONNX model of all sizes; those that only a run tells become known in stages.
ModelSession* optimize_open_graph(GraphBuilder& graph, OptimizeOptions& options,
                                  const std::map<std::string, Array>& inputs, const Tell& tell,
                                  const std::map<std::string, std::string>& shapes) {
  options.inputs = tensors(inputs);
  options.progress = progress(tell);
  options.interrupt = check_signals;
  std::map<std::string, ShapeRange> open;
  for (const auto& [name, shape] : shapes) open[name] = parse_shape_range(shape);
  ImportedModel imported = graph.take();
  nb::gil_scoped_release released;
  return new ModelSession(runtime::optimize_open_graph(std::move(imported), open, options));
}

ModelSession* with_other_shapes(const ModelSession& session, GraphBuilder& graph) {
  ImportedModel imported = graph.take();
  nb::gil_scoped_release released;
  const InterruptScope interrupt(check_signals);
  return new ModelSession(runtime::with_other_shapes(session.model(), std::move(imported)));
}

// The same model with one graph for all shapes: what an artefact can hold.
ModelSession* with_open_graph(
    const ModelSession& session, GraphBuilder& graph,
    const std::vector<std::pair<std::string, std::string>>& ranges,
    const std::vector<std::pair<std::vector<Shape>, std::vector<Shape>>>& trials) {
  ImportedModel imported = graph.take();
  nb::gil_scoped_release released;
  const InterruptScope interrupt(check_signals);
  std::vector<runtime::OpenInput> inputs;
  for (const auto& [name, range] : ranges) inputs.push_back({name, parse_shape_range(range)});
  std::vector<runtime::ShapeTrial> tried;
  for (const auto& [given, made] : trials) tried.push_back({given, made});
  return new ModelSession(
      runtime::with_open_graph(session.model(), std::move(imported), std::move(inputs), tried));
}

Context* make_context(const ModelSession& session, int64_t batch, int64_t max_length,
                      const std::map<std::string, std::string>& state) {
  nb::gil_scoped_release released;
  const InterruptScope interrupt(check_signals);
  return new Context(session.model(), {.batch = batch, .max_length = max_length, .state = state});
}

nb::dict save_context(const Context& context) {
  nb::dict result;
  for (const auto& [name, tensor] : context.save()) {
    result[nb::str(name.c_str())] = numpy_array(tensor);
  }
  return result;
}

ModelSession* load_artefact(const std::string& path, std::optional<int> threads, bool verify) {
  nb::gil_scoped_release released;
  const InterruptScope interrupt(check_signals);
  return new ModelSession(load(path, {.threads = threads.value_or(0), .verify = verify}));
}

// The model's report, completed by what its peers need for the same work.
std::string report_with_peers(const ModelSession& session, const std::string& onnx_path,
                              const OptimizeOptions& optimized,
                              const std::map<std::string, Array>& inputs,
                              const std::vector<std::string>& peers, const std::string& python,
                              const Tell& tell) {
  const cli::PeerOptions options{.onnx_path = onnx_path,
                                 .inputs = tensors(inputs),
                                 .peers = peers,
                                 .python = python,
                                 .verify = optimized.verify,
                                 .progress = progress(tell)};
  nb::gil_scoped_release released;
  const InterruptScope interrupt(check_signals);
  nlohmann::json report = nlohmann::json::parse(session.model().report_json());
  cli::add_comparison(report, cli::time_with_peers(session.model(), options));
  return report.dump();
}

int command(const std::vector<std::string>& arguments, const std::string& python) {
  nb::gil_scoped_release released;
  const int code = cli::main(arguments, {.python = python});
  std::fflush(stdout);
  return code;
}

std::vector<std::tuple<std::string, std::string, Shape>> specs(
    const std::vector<TensorSpec>& list) {
  std::vector<std::tuple<std::string, std::string, Shape>> result;
  for (const TensorSpec& spec : list) {
    result.emplace_back(spec.name,
                        spec.other.empty() ? std::string(dtype_name(spec.dtype)) : spec.other,
                        spec.shape);
  }
  return result;
}

// As text; nothing for an input whose dimensions are all fixed.
std::vector<std::optional<std::string>> ranges(const Model& model) {
  std::vector<std::optional<std::string>> result;
  for (const ShapeRange& range : model.input_ranges()) {
    result.push_back(is_fixed(range) ? std::nullopt : std::optional(shape_range_text(range)));
  }
  return result;
}

}  // namespace
}  // namespace stretto::python

NB_MODULE(_stretto, m) {
  using namespace stretto;
  using python::ModelSession;

  // PyTorch keeps compiled programs, and the sessions in them, until the interpreter has gone.
  nb::set_leak_warnings(false);
  python::bind_errors();
  python::route_log_to_python();

  nb::class_<OptimizeOptions>(m, "Options")
      .def(nb::init<>())
      .def_rw("level", &OptimizeOptions::level)
      .def_rw("accuracy", &OptimizeOptions::accuracy)
      .def_rw("threads", &OptimizeOptions::threads)
      .def_rw("tuning", &OptimizeOptions::tuning)
      .def_rw("shapes", &OptimizeOptions::shapes)
      .def(
          "set_range",
          [](OptimizeOptions& o, const std::string& name, const std::string& text) {
            o.ranges[name] = parse_shape_range(text);
          },
          "name"_a, "text"_a)
      .def_rw("lengths", &OptimizeOptions::lengths)
      .def_rw("preprocess", &OptimizeOptions::preprocess)
      .def_rw("disable", &OptimizeOptions::disable)
      .def_rw("force", &OptimizeOptions::force)
      .def_rw("tuning_cache", &OptimizeOptions::tuning_cache)
      .def_rw("verify", &OptimizeOptions::verify)
      .def_rw("profile", &OptimizeOptions::profile);

  nb::class_<Context>(m, "Context")
      .def(
          "fork", [](const Context& c) { return new Context(c.fork()); },
          nb::rv_policy::take_ownership)
      .def("reset", &Context::reset)
      .def(
          "reorder", [](Context& c, const std::vector<int64_t>& from) { c.reorder(from); },
          "samples"_a)
      .def("save", &python::save_context)
      .def(
          "restore",
          [](Context& c, const std::map<std::string, python::Array>& arrays) {
            c.restore(python::tensors(arrays));
          },
          "saved"_a)
      .def_prop_ro("batch", &Context::batch)
      .def_prop_ro("length", &Context::length)
      .def_prop_ro("lengths", &Context::lengths)
      .def_prop_ro("capacity", &Context::capacity)
      .def_prop_ro("memory_bytes", &Context::memory_bytes)
      .def_prop_ro("inputs", [](const Context& c) { return c.inputs(); })
      .def_prop_ro("optional_inputs", [](const Context& c) { return c.optional_inputs(); })
      .def_prop_ro("outputs", [](const Context& c) { return c.outputs(); });

  nb::class_<ModelSession>(m, "Session")
      .def("run", &ModelSession::run, "inputs"_a)
      .def("run_values", &ModelSession::run_values, "values"_a)
      .def("prepare", &ModelSession::prepare_pictures, "pictures"_a)
      .def_prop_ro("preprocess", [](const ModelSession& s) { return s.model().preprocess(); })
      // The place of the input that takes pictures, or -1.
      .def_prop_ro("picture_input",
                   [](const ModelSession& s) {
                     const auto& pictures = s.model().state().pictures;
                     return pictures ? static_cast<int64_t>(pictures->index) : int64_t{-1};
                   })
      // The element type of what the steps make, for that input.
      .def_prop_ro(
          "picture_dtype",
          [](const ModelSession& s) {
            const Model::State& state = s.model().state();
            if (!state.pictures) return std::string();
            return std::string(dtype_name(state.program->inputs[state.pictures->index].dtype));
          })
      .def_prop_ro("staged", [](const ModelSession& s) { return s.model().staged(); })
      .def_prop_ro("programs", &ModelSession::programs)
      .def("run_at", &ModelSession::run_at, "inputs"_a, "outputs"_a)
      .def("run_on", &ModelSession::run_on, "context"_a, "inputs"_a, "last_place_of"_a = "")
      .def("context", &python::make_context, "batch"_a, "max_length"_a, "state"_a)
      .def("save",
           [](const ModelSession& s, const std::string& path) {
             nb::gil_scoped_release released;
             const InterruptScope interrupt(python::check_signals);
             s.model().save(path);
           })
      .def("with_other_shapes", &python::with_other_shapes, "graph"_a)
      .def("with_open_graph", &python::with_open_graph, "graph"_a, "ranges"_a, "trials"_a)
      .def("report_json", [](const ModelSession& s) { return s.model().report_json(); })
      .def_prop_ro("name", [](const ModelSession& s) { return s.model().name(); })
      .def_prop_ro("threads", [](const ModelSession& s) { return s.model().threads(); })
      .def_prop_ro("notes", [](const ModelSession& s) { return s.model().notes(); })
      .def_prop_ro("constant_inputs",
                   [](const ModelSession& s) { return s.model().state().constant_inputs; })
      .def_prop_ro("weight_bytes", [](const ModelSession& s) { return s.model().weight_bytes(); })
      .def_prop_ro("shared_weight_bytes",
                   [](const ModelSession& s) {
                     const auto& siblings = s.model().state().siblings;
                     return siblings ? siblings->weights().bytes() : 0;
                   })
      .def_prop_ro("memory_bytes", [](const ModelSession& s) { return s.model().memory_bytes(); })
      .def_prop_ro("inputs",
                   [](const ModelSession& s) { return python::specs(s.model().inputs()); })
      .def_prop_ro("input_ranges", [](const ModelSession& s) { return python::ranges(s.model()); })
      .def_prop_ro("outputs",
                   [](const ModelSession& s) { return python::specs(s.model().outputs()); });

  m.def("optimize", &python::optimize_source, "path"_a.none(), "content"_a.none(), "name"_a,
        "options"_a, "inputs"_a, "progress"_a.none());
  python::bind_graph(m);
  python::bind_operators(m);
  m.def("optimize_open_graph", &python::optimize_open_graph, "graph"_a, "options"_a, "inputs"_a,
        "progress"_a.none(), "shapes"_a);
  m.def("optimize_graph", &python::optimize_graph, "graph"_a, "options"_a, "inputs"_a,
        "progress"_a.none(), "for_other_shapes"_a = false);
  m.def("load", &python::load_artefact, "path"_a, "threads"_a = nb::none(), "verify"_a = false);
  m.def("report_with_peers", &python::report_with_peers, "session"_a, "onnx_path"_a, "options"_a,
        "inputs"_a, "peers"_a, "python"_a, "progress"_a.none());
  m.def("report_style", [] { return std::string(report::report_style()); });
  m.def("report_html", [](const std::string& json) { return report::report_html(json); });
  m.def("check_writable", &check_writable, "path"_a);
  m.def("same_file", &same_file, "a"_a, "b"_a);
  m.def("write_file", nb::overload_cast<const std::string&, std::string_view>(&write_file),
        "path"_a, "content"_a);
  m.def("list_passes", &list_passes);
  m.def("manual_seed", &manual_seed, "seed"_a);
#if !defined(STRETTO_WITHOUT_COMM)
  python::bind_comm(m);
  python::bind_segments(m);
  python::bind_simulator(m);
#endif
#if !defined(STRETTO_WITHOUT_MEDIA)
  python::bind_data(m);
#endif
  m.def("main", &python::command, "arguments"_a, "python"_a);
  m.attr("version") = std::string(version());
  m.def("core_name", [] { return cpu_info().core; });
  m.def("core_count", [] { return cpu_info().cores; });
  m.def("memory_bytes", [] { return total_memory_bytes(); });
  // Bytes per second that one core reads, and all together (base/machine_rates.h).
  m.def("memory_rate", [] {
    nb::gil_scoped_release released;
    const MemoryRate rate = machine_rates().memory;
    return std::pair(rate.one, rate.together);
  });
}
