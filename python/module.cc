// stretto._stretto: the C++ face with as little in between as possible. What users see is in
// stretto/*.py.
#include <nanobind/nanobind.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/set.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <cstdio>
#include <nlohmann/json.hpp>

#include "beside.h"
#include "comm.h"
#include "comparison.h"
#include "progress.h"
#include "stretto/base/cpu.h"
#include "stretto/report/report.h"
#include "stretto/stretto.h"
#include "tensors.h"
#include "verbs.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace stretto::python {
namespace {

// A model with the session that runs it.
class Engine {
 public:
  explicit Engine(Model model) : model_(std::move(model)), session_(model_) {}

  const Model& model() const { return model_; }

  nb::list run(const std::vector<Array>& arrays) {
    std::vector<Tensor> inputs;
    for (const Array& array : arrays) inputs.push_back(tensor_view(array));
    std::vector<Tensor> outputs;
    {
      nb::gil_scoped_release released;
      outputs = session_.run(inputs);
    }
    nb::list result;
    for (const Tensor& output : outputs) result.append(numpy_array(output));
    return result;
  }

 private:
  Model model_;
  Session session_;
};

// Draws the bar, and lets Ctrl-C end an optimisation at its next sign of life.
std::function<void(std::string_view, double)> progress() {
  return [bar = cli::progress_bar()](std::string_view stage, double fraction) {
    {
      nb::gil_scoped_acquire gil;
      if (PyErr_CheckSignals() != 0) throw nb::python_error();
    }
    if (bar) bar(stage, fraction);
  };
}

std::map<std::string, Tensor> tensors(const std::map<std::string, Array>& arrays) {
  std::map<std::string, Tensor> result;
  for (const auto& [name, array] : arrays) result.emplace(name, tensor_view(array));
  return result;
}

struct EndProgress {
  ~EndProgress() { cli::end_progress(); }
};

Engine* optimize_source(const std::optional<std::string>& path,
                        const std::optional<nb::bytes>& content, const std::string& name,
                        OptimizeOptions& options, const std::map<std::string, Array>& inputs) {
  options.inputs = tensors(inputs);
  options.progress = progress();
  const auto* data = content ? static_cast<const std::byte*>(content->data()) : nullptr;
  const size_t size = content ? content->size() : 0;
  nb::gil_scoped_release released;
  const EndProgress end;
  return new Engine(path ? optimize(*path, options)
                         : optimize(std::span(data, size), name, "", options));
}

Engine* load_artefact(const std::string& path) {
  nb::gil_scoped_release released;
  return new Engine(load(path));
}

// The model's report, completed by what other engines need for the same.
std::string report_beside(const Engine& engine, const std::string& onnx_path,
                          const OptimizeOptions& optimized,
                          const std::map<std::string, Array>& inputs,
                          const std::vector<std::string>& peers, const std::string& python) {
  const cli::BesideOptions options{.onnx_path = onnx_path,
                                   .shapes = optimized.shapes,
                                   .inputs = tensors(inputs),
                                   .peers = peers,
                                   .python = python,
                                   .verify = optimized.verify,
                                   .progress = progress()};
  nb::gil_scoped_release released;
  const EndProgress end;
  nlohmann::json report = nlohmann::json::parse(engine.model().report_json());
  cli::add_comparison(report, cli::time_beside(engine.model(), options));
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
    result.emplace_back(spec.name, std::string(dtype_name(spec.dtype)), spec.shape);
  }
  return result;
}

}  // namespace
}  // namespace stretto::python

NB_MODULE(_stretto, m) {
  using namespace stretto;
  using python::Engine;

  nb::exception<InvalidArgument>(m, "InvalidArgumentError", PyExc_ValueError);
  nb::exception<Unsupported>(m, "UnsupportedError", PyExc_NotImplementedError);
  nb::exception<FormatError>(m, "FormatError", PyExc_OSError);
  nb::exception<CommError>(m, "CommError", PyExc_RuntimeError);
  nb::exception<InternalError>(m, "InternalError", PyExc_RuntimeError);

  nb::class_<OptimizeOptions>(m, "Options")
      .def(nb::init<>())
      .def_rw("level", &OptimizeOptions::level)
      .def_rw("accuracy", &OptimizeOptions::accuracy)
      .def_rw("threads", &OptimizeOptions::threads)
      .def_rw("tune", &OptimizeOptions::tune)
      .def_rw("shapes", &OptimizeOptions::shapes)
      .def_rw("disabled_passes", &OptimizeOptions::disabled_passes)
      .def_rw("forced_kernels", &OptimizeOptions::forced_kernels)
      .def_rw("record", &OptimizeOptions::record)
      .def_rw("verify", &OptimizeOptions::verify)
      .def_rw("profile", &OptimizeOptions::profile);

  nb::class_<Engine>(m, "Engine")
      .def("run", &Engine::run, "inputs"_a)
      .def("save",
           [](const Engine& e, const std::string& path) {
             nb::gil_scoped_release released;
             e.model().save(path);
           })
      .def("report_json", [](const Engine& e) { return e.model().report_json(); })
      .def_prop_ro("name", [](const Engine& e) { return e.model().name(); })
      .def_prop_ro("threads", [](const Engine& e) { return e.model().threads(); })
      .def_prop_ro("weight_bytes", [](const Engine& e) { return e.model().weight_bytes(); })
      .def_prop_ro("memory_bytes", [](const Engine& e) { return e.model().memory_bytes(); })
      .def_prop_ro("inputs", [](const Engine& e) { return python::specs(e.model().inputs()); })
      .def_prop_ro("outputs", [](const Engine& e) { return python::specs(e.model().outputs()); });

  m.def("optimize", &python::optimize_source, "path"_a.none(), "content"_a.none(), "name"_a,
        "options"_a, "inputs"_a);
  m.def("load", &python::load_artefact, "path"_a);
  m.def("report_beside", &python::report_beside, "engine"_a, "onnx_path"_a, "options"_a, "inputs"_a,
        "peers"_a, "python"_a);
  m.def("report_style", [] { return std::string(report::report_style()); });
  m.def("report_html", [](const std::string& json) { return report::report_html(json); });
  m.def("list_passes", &list_passes);
  python::bind_comm(m);
  python::bind_segments(m);
  m.def("main", &python::command, "arguments"_a, "python"_a);
  m.attr("version") = std::string(version());
  m.attr("core") = cpu_info().core;
}
