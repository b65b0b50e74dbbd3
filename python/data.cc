// Datasets of pictures for Python, and what the other files of data.h share. What users see of it
// is stretto/data.
#include "data.h"

#include <fmt/format.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <utility>

#include "python_signals.h"
#include "stretto/base/interrupt.h"
#include "stretto/media/operators/operator.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace stretto::python {

using namespace stretto::data;

nb::object numbers(std::vector<int64_t> values) {
  auto kept = std::make_unique<std::vector<int64_t>>(std::move(values));
  int64_t* const data = kept->data();
  const size_t shape[] = {kept->size()};
  const nb::capsule owner(kept.get(),
                          [](void* p) noexcept { delete static_cast<std::vector<int64_t>*>(p); });
  kept.release();
  return nb::cast(nb::ndarray<nb::numpy, int64_t>(data, 1, shape, owner));
}

std::vector<int64_t> labels_of(const Dataset& dataset) {
  nb::gil_scoped_release released;
  std::vector<int64_t> labels(static_cast<size_t>(dataset.size()));
  for (int64_t i = 0; i < dataset.size(); ++i) {
    labels[static_cast<size_t>(i)] = dataset.sample(i).label;
  }
  return labels;
}

nb::object text_of(std::string_view bytes) {
  nb::object text = nb::steal(
      PyUnicode_DecodeUTF8(bytes.data(), static_cast<Py_ssize_t>(bytes.size()), "surrogateescape"));
  if (!text.is_valid()) throw nb::python_error();
  return text;
}

namespace {

void bind_dataset(nb::module_& m) {
  nb::class_<Dataset>(m, "DataDataset")
      .def("__len__", &Dataset::size)
      .def(
          "name", [](const Dataset& d, int64_t index) { return text_of(d.name(index)); }, "index"_a)
      .def(
          "label", [](const Dataset& d, int64_t index) { return d.sample(index).label; }, "index"_a)
      .def("labels", [](const Dataset& d) { return numbers(labels_of(d)); })
      .def(
          "annotations",
          [](const Dataset& d, int64_t index) {
            std::vector<std::tuple<float, float, float, float, int64_t>> rows;
            for (const Annotation& a : d.annotations(index)) {
              rows.emplace_back(a.x0, a.y0, a.x1, a.y1, a.label);
            }
            return rows;
          },
          "index"_a)
      .def_prop_ro("class_names",
                   [](const Dataset& d) {
                     nb::list names;
                     for (const std::string& name : d.class_names()) names.append(text_of(name));
                     return names;
                   })
      .def_prop_ro("has_boxes", &Dataset::has_annotations)
      .def_prop_ro("has_masks", &Dataset::has_details)
      .def_prop_ro("parts",
                   [](const Dataset& d) {
                     nb::list rows;
                     for (const Part& part : d.parts()) {
                       rows.append(nb::make_tuple(text_of(part.source), part.begin, part.size));
                     }
                     return rows;
                   })
      .def_prop_ro("kind", [](const Dataset& d) { return std::string(d.kind()); })
      .def_prop_ro("source", [](const Dataset& d) { return text_of(d.source()); })
      .def_prop_ro("fingerprint", &Dataset::fingerprint);
  m.def(
      "data_open",
      [](const std::string& source, const std::string& kind) {
        nb::gil_scoped_release released;
        const InterruptScope interrupt(check_signals);
        return open_dataset(source, kind);
      },
      "source"_a, "kind"_a);
  m.def(
      "data_concat",
      [](const std::vector<Dataset>& datasets) {
        nb::gil_scoped_release released;
        const InterruptScope interrupt(check_signals);
        return concat(datasets);
      },
      "datasets"_a);
}

}  // namespace

void bind_data(nb::module_& m) {
  m.def("data_operators", [] {
    std::vector<std::pair<std::string, std::string>> rows;
    for (const auto& op : media::operators::table()) {
      const std::string name(op.name);
      const auto standard = media::operators::parse_operators(name);
      rows.emplace_back(
          name, fmt::format("{}: {}", op.means, media::operators::operators_text(standard)));
    }
    return rows;
  });
  bind_dataset(m);
  bind_data_options(m);
  bind_packs(m);
  bind_remote(m);
  bind_data_loaders(m);
}

}  // namespace stretto::python
