// The options of a loader, from the names that users give.
#include <fmt/format.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/array.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <span>
#include <string_view>
#include <utility>

#include "data.h"
#include "stretto/base/error.h"
#include "stretto/data/loader.h"
#include "stretto/media/operators/operator.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace stretto::python {
namespace {

using namespace stretto::data;

template <typename T>
struct Name {
  std::string_view name;
  T value;
};

constexpr Name<PixelLayout> kLayouts[] = {{"NCHW", PixelLayout::kNchw},
                                          {"NHWC", PixelLayout::kNhwc}};
constexpr Name<CacheKind> kCaches[] = {
    {"page", CacheKind::kPage}, {"user", CacheKind::kUser}, {"decoded", CacheKind::kDecoded}};
constexpr Name<OnError> kErrors[] = {{"raise", OnError::kRaise}, {"skip", OnError::kSkip}};
constexpr Name<Last> kLasts[] = {{"drop", Last::kDrop}, {"pad", Last::kPad}, {"wrap", Last::kWrap}};
constexpr Name<OrderKind> kOrders[] = {{"sequential", OrderKind::kSequential},
                                       {"shuffle", OrderKind::kShuffled},
                                       {"blocks", OrderKind::kBlocks}};
constexpr Name<media::Filter> kFilters[] = {{"box", media::Filter::kBox},
                                            {"triangle", media::Filter::kTriangle},
                                            {"cubic", media::Filter::kCubic}};
constexpr Name<DType> kTypes[] = {{"float32", DType::kFloat32},
                                  {"float16", DType::kFloat16},
                                  {"bfloat16", DType::kBFloat16},
                                  {"uint8", DType::kUInt8}};

template <typename T, size_t n>
T value_of(const Name<T> (&names)[n], std::string_view what, const std::string& name) {
  std::string choices;
  for (const Name<T>& row : names) {
    if (row.name == name) return row.value;
    choices += fmt::format("{}'{}'", choices.empty() ? "" : ", ", row.name);
  }
  throw_invalid("{}: expected one of {}, got '{}'", what, choices, name);
}

// Epoch, height, width, batch, area from and to, ratio from and to.
using PhaseTuple = std::tuple<int64_t, int64_t, int64_t, int64_t, double, double, double, double>;

void set_phases(LoaderOptions& options, const std::vector<PhaseTuple>& rows) {
  options.phases.clear();
  for (const auto& [epoch, height, width, batch, area0, area1, ratio0, ratio1] : rows) {
    options.phases.push_back({epoch, {height, width, batch, {area0, area1, ratio0, ratio1}}});
  }
}

constexpr Name<Fit> kFits[] = {{"crop", Fit::kCrop}, {"letterbox", Fit::kLetterbox}};
constexpr Name<DType> kMaskTypes[] = {{"uint8", DType::kUInt8}, {"int64", DType::kInt64}};

using Weights = nb::ndarray<const double, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

void set_weights(LoaderOptions& options, const Weights& weights) {
  options.order.kind = OrderKind::kWeighted;
  options.order.cumulative = cumulative_weights(std::span(weights.data(), weights.shape(0)));
}

// Sources that follow each other in the dataset, by sizes.
void set_mixture(LoaderOptions& options, std::vector<int64_t> sizes, std::vector<double> weights) {
  options.order.source_sizes = std::move(sizes);
  options.order.source_weights = std::move(weights);
}

void set_balanced(LoaderOptions& options, const Dataset& dataset) {
  options.order.kind = OrderKind::kWeighted;
  options.order.cumulative = cumulative_weights(class_balanced_weights(labels_of(dataset)));
}

}  // namespace

void bind_data_options(nb::module_& m) {
  using O = LoaderOptions;
  nb::class_<O>(m, "DataOptions")
      .def(nb::init<>())
      .def("set_phases", &set_phases, "rows"_a)
      .def("set_weights", &set_weights, "weights"_a)
      .def("set_balanced", &set_balanced, "dataset"_a)
      .def("set_mixture", &set_mixture, "sizes"_a, "weights"_a)
      .def(
          "set_fit", [](O& o, const std::string& name) { o.fit = value_of(kFits, "fit", name); },
          "name"_a)
      .def(
          "set_mask_dtype",
          [](O& o, const std::string& name) {
            o.mask_dtype = value_of(kMaskTypes, "mask_dtype", name);
          },
          "name"_a)
      .def_prop_rw(
          "epoch_size", [](const O& o) { return o.order.epoch_size; },
          [](O& o, int64_t size) { o.order.epoch_size = size; })
      .def(
          "set_dtype",
          [](O& o, const std::string& name) { o.dtype = value_of(kTypes, "dtype", name); },
          "name"_a)
      .def(
          "set_layout",
          [](O& o, const std::string& name) { o.layout = value_of(kLayouts, "layout", name); },
          "name"_a)
      .def(
          "set_cache",
          [](O& o, const std::string& name) { o.cache = value_of(kCaches, "cache", name); },
          "name"_a)
      .def(
          "set_errors",
          [](O& o, const std::string& name) { o.errors = value_of(kErrors, "errors", name); },
          "name"_a)
      .def(
          "set_transforms",
          [](O& o, const std::string& text) {
            o.transforms = media::operators::parse_operators(text);
          },
          "text"_a)
      .def(
          "set_last",
          [](O& o, const std::string& name) { o.last = value_of(kLasts, "last", name); }, "name"_a)
      .def(
          "set_filter",
          [](O& o, const std::string& name) { o.filter = value_of(kFilters, "filter", name); },
          "name"_a)
      .def(
          "set_order",
          [](O& o, const std::string& name) { o.order.kind = value_of(kOrders, "sampler", name); },
          "name"_a)
      .def_prop_rw(
          "seed", [](const O& o) { return o.order.seed; },
          [](O& o, uint64_t seed) { o.order.seed = seed; })
      .def_rw("train", &O::train)
      .def_rw("flip", &O::flip)
      .def_rw("iou_crop", &O::iou_crop)
      .def_rw("boxes", &O::boxes)
      .def_rw("masks", &O::masks)
      .def_rw("masks_of_boxes", &O::masks_of_boxes)
      .def_rw("min_visible", &O::min_visible)
      .def_rw("classes", &O::classes)
      .def_rw("mean", &O::mean)
      .def_rw("std", &O::std)
      .def_rw("rank", &O::rank)
      .def_rw("world", &O::world)
      .def_rw("divided", &O::divided)
      .def_ro("ahead", &O::ahead)
      .def_rw("threads", &O::threads)
      .def_rw("pin", &O::pin)
      .def_rw("cache_bytes", &O::cache_bytes)
      .def_rw("io_uring", &O::io_uring);
}

}  // namespace stretto::python
