// The loader of pictures for Python: plain arguments in, arrays over the loader's own memory out.
// What users see of it is stretto/data.
#include "data.h"

#include <fmt/format.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/array.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <memory>
#include <span>
#include <string_view>

#include "closable.h"
#include "python_signals.h"
#include "stretto/base/error.h"
#include "stretto/base/interrupt.h"
#include "stretto/data/loader.h"
#include "stretto/data/share.h"
#include "stretto/media/operators/operator.h"
#include "tensors.h"

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

// A NumPy array of its own.
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

// Names of files may hold bytes that are no UTF-8.
nb::object text_of(std::string_view bytes) {
  nb::object text = nb::steal(
      PyUnicode_DecodeUTF8(bytes.data(), static_cast<Py_ssize_t>(bytes.size()), "surrogateescape"));
  if (!text.is_valid()) throw nb::python_error();
  return text;
}

// The memory of a batch as an array of a framework, which keeps the batch until it dies.
class Arrays {
 public:
  Arrays(std::string_view framework, const std::shared_ptr<void>& hold) : framework_(framework) {
    auto kept = std::make_unique<std::shared_ptr<void>>(hold);
    owner_ = nb::capsule(kept.get(),
                         [](void* p) noexcept { delete static_cast<std::shared_ptr<void>*>(p); });
    kept.release();
  }

  nb::object make(const void* data, std::span<const size_t> shape, nb::dlpack::dtype type) const {
    if (framework_ == "torch") return array<nb::pytorch>(data, shape, type);
    if (framework_ == "jax") return array<nb::jax>(data, shape, type);
    // NumPy has no bfloat16: its bits, of which stretto/data makes what ml_dtypes calls by that
    // name.
    if (type == dlpack_type(DType::kBFloat16)) type = dlpack_type(DType::kUInt16);
    return array<nb::numpy>(data, shape, type);
  }

 private:
  template <typename Framework>
  nb::object array(const void* data, std::span<const size_t> shape, nb::dlpack::dtype type) const {
    return nb::cast(nb::ndarray<Framework>(const_cast<void*>(data), shape.size(), shape.data(),
                                           owner_, nullptr, type));
  }

  std::string_view framework_;
  nb::capsule owner_;
};

// For several loaders of this process. Threads end with the last of them.
struct Team {
  std::shared_ptr<LoaderTeam> team;
};

// Documented in stretto/data/_loader.py. L: Loader or SharedLoader.
template <typename L>
class LoaderFace {
 public:
  explicit LoaderFace(std::shared_ptr<L> loader) { loader_.open(std::move(loader)); }
  ~LoaderFace() { close(); }

  // Images, labels, real, samples, epoch, number, and a dictionary of what else was asked for; None
  // at the end of the epoch.
  nb::object next(const std::string& framework) {
    const Use use = enter();
    const Alone alone(*this);
    std::optional<Batch> batch = interruptible(use, [&use] { return use->next(); });
    if (!batch) return nb::none();
    const size_t count = static_cast<size_t>(batch->count);
    const size_t height = static_cast<size_t>(batch->height);
    const size_t width = static_cast<size_t>(batch->width);
    const std::array<size_t, 4> shape = batch->layout == PixelLayout::kNchw
                                            ? std::array<size_t, 4>{count, 3, height, width}
                                            : std::array<size_t, 4>{count, height, width, 3};
    const Arrays arrays(framework, batch->hold);
    const std::span row(shape.data(), 1);
    return nb::make_tuple(arrays.make(batch->data, shape, dlpack_type(batch->dtype)),
                          arrays.make(batch->labels, row, dlpack_type(DType::kInt64)),
                          arrays.make(batch->real, row, dlpack_type(DType::kBool)),
                          numbers({batch->samples, batch->samples + count}), batch->epoch,
                          batch->number, others(*batch, arrays, framework));
  }

  void set_epoch(int64_t epoch) {
    const Use use = enter();
    const Alone alone(*this);
    interruptible(use, [&] { use->set_epoch(epoch); });
  }

  int64_t epoch() { return enter()->epoch(); }
  int64_t batches(int64_t epoch) { return enter()->batches(epoch); }

  nb::object indices(int64_t epoch) {
    const Use use = enter();
    std::vector<int64_t> result;
    {
      nb::gil_scoped_release released;
      result = use->indices(epoch);
    }
    return numbers(std::move(result));
  }

  // Seed, epoch, place, and the hash of the order.
  std::tuple<uint64_t, int64_t, int64_t, uint64_t> position() {
    const Position position = enter()->position();
    return {position.seed, position.epoch, position.place, position.order};
  }

  void load(uint64_t seed, int64_t epoch, int64_t place, uint64_t order) {
    const Use use = enter();
    const Alone alone(*this);
    interruptible(
        use, [&] { use->load({.seed = seed, .epoch = epoch, .place = place, .order = order}); });
  }

  // Epoch, place, first and count of each.
  void divide(const std::vector<std::array<int64_t, 4>>& rows) {
    const Use use = enter();
    const Alone alone(*this);
    std::vector<Division> divisions;
    for (const auto& [epoch, place, first, count] : rows) {
      divisions.push_back({.epoch = epoch, .place = place, .first = first, .count = count});
    }
    interruptible(use, [&] { use->divide(std::move(divisions)); });
  }

  // Gives batches to the process at the other end until it is gone.
  void serve(int socket, int process) {
    const Use use = enter();
    nb::gil_scoped_release released;
    data::serve(*use, socket, process);
  }

  nb::dict stats() {
    const Stats s = enter()->stats();
    nb::dict row;
    row["batches"] = s.batches;
    row["samples"] = s.samples;
    row["skipped"] = s.skipped;
    row["read_bytes"] = s.read_bytes;
    row["read_seconds"] = s.read_seconds;
    row["decode_seconds"] = s.decode_seconds;
    row["transform_seconds"] = s.transform_seconds;
    row["idle_seconds"] = s.idle_seconds;
    row["waited_seconds"] = s.waited_seconds;
    row["first_wait_seconds"] = s.first_wait_seconds;
    row["asked_seconds"] = s.asked_seconds;
    row["ready"] = s.ready;
    row["cache_hits"] = s.cache_hits;
    row["cache_bytes"] = s.cache_bytes;
    row["cached_samples"] = s.cached_samples;
    row["threads"] = s.threads;
    row["part_samples"] = s.part_samples;
    nb::list names;
    for (const std::string& name : s.skipped_names) names.append(text_of(name));
    row["skipped_names"] = names;
    row["remote"] = s.remote ? nb::object(remote_stats(*s.remote)) : nb::none();
    row["verdict"] = std::string(verdict(s));
    nb::list ranks;
    for (const Stats::Rank& rank : s.ranks) {
      nb::dict of;
      of["rank"] = rank.rank;
      of["batches"] = rank.batches;
      of["waited_seconds"] = rank.waited_seconds;
      of["first_wait_seconds"] = rank.first_wait_seconds;
      of["asked_seconds"] = rank.asked_seconds;
      ranks.append(of);
    }
    row["ranks"] = ranks;
    return row;
  }

  void close() {
    loader_.close([](L&) {});  // next() asks whether it is being closed
  }

 private:
  using Use = typename Closable<L>::Use;

  static nb::dict others(const Batch& batch, const Arrays& arrays, const std::string& framework) {
    nb::dict row;
    const auto count = static_cast<size_t>(batch.count);
    if (batch.targets != nullptr) {
      const size_t shape[] = {count, static_cast<size_t>(batch.classes)};
      row["targets"] = arrays.make(batch.targets, shape, dlpack_type(DType::kFloat32));
    }
    if (batch.masks != nullptr) {
      const size_t shape[] = {count, static_cast<size_t>(batch.height),
                              static_cast<size_t>(batch.width)};
      row["masks"] = arrays.make(batch.masks, shape, dlpack_type(batch.mask_dtype));
    }
    if (batch.boxes != nullptr) {
      // JAX compiles anew for every shape, and here each picture has its own.
      const std::string_view to = framework == "jax" ? std::string_view("numpy") : framework;
      const Arrays ragged(to, batch.hold);
      const auto total = static_cast<size_t>(batch.box_starts[batch.count]);
      const size_t shape[] = {total, 4};
      const std::span column(shape, 1);
      row["boxes"] = ragged.make(batch.boxes, shape, dlpack_type(DType::kFloat32));
      row["labels"] = ragged.make(batch.box_labels, column, dlpack_type(DType::kInt64));
      row["areas"] = ragged.make(batch.box_areas, column, dlpack_type(DType::kFloat32));
      row["starts"] = std::vector<int64_t>(batch.box_starts, batch.box_starts + count + 1);
      row["image_ids"] = std::vector<int64_t>(batch.image_ids, batch.image_ids + count);
    }
    return row;
  }

  Use enter() {
    if (loader_.forked()) {
      throw_invalid(
          "ImageLoader: made in another process, whose threads this one lacks: make it after the "
          "fork (in a torch DataLoader use num_workers=0, because the loader has threads itself)");
    }
    return Use(loader_);
  }

  // What may wait ends by a signal, and by close() on another thread.
  template <typename Call>
  static auto interruptible(const Use& use, Call&& call) {
    nb::gil_scoped_release released;
    const InterruptScope interrupt([&use] {
      check_open(use);
      check_signals();
    });
    return call();
  }

  static void check_open(const Use& use) {
    try {
      use.check();
    } catch (const CommError&) {
      throw_invalid("ImageLoader: closed while it was waited for");
    }
  }

  // A handler of a signal that comes while a batch is waited for could begin the wait again.
  class Alone {
   public:
    explicit Alone(LoaderFace& loader) : inside_(loader.inside_) {
      if (inside_) throw_invalid("ImageLoader: called while it waits for a batch");
      inside_ = true;
    }
    ~Alone() { inside_ = false; }
    Alone(const Alone&) = delete;
    Alone& operator=(const Alone&) = delete;

   private:
    bool& inside_;
  };

  Closable<L> loader_{"ImageLoader"};
  bool inside_ = false;  // by the interpreter's lock
};

// Without the interpreter's lock.
template <typename L, typename... Args>
std::shared_ptr<L> made(Args&&... args) {
  nb::gil_scoped_release released;
  return std::make_shared<L>(std::forward<Args>(args)...);
}

template <typename L>
nb::class_<LoaderFace<L>> bind_loader(nb::module_& m, const char* name) {
  using F = LoaderFace<L>;
  nb::class_<F> face(m, name);
  face.def("next", &F::next, "framework"_a)
      .def("set_epoch", &F::set_epoch, "epoch"_a)
      .def("epoch", &F::epoch)
      .def("batches", &F::batches, "epoch"_a)
      .def("indices", &F::indices, "epoch"_a)
      .def("position", &F::position)
      .def("load", &F::load, "seed"_a, "epoch"_a, "place"_a, "order"_a)
      .def("close", &F::close);
  return face;
}

void set_balanced(LoaderOptions& options, const Dataset& dataset) {
  options.order.kind = OrderKind::kWeighted;
  options.order.cumulative = cumulative_weights(class_balanced_weights(labels_of(dataset)));
}

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

void bind_options(nb::module_& m) {
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
      .def_rw("min_visible", &O::min_visible)
      .def_rw("classes", &O::classes)
      .def_rw("mean", &O::mean)
      .def_rw("std", &O::std)
      .def_rw("rank", &O::rank)
      .def_rw("world", &O::world)
      .def_rw("divided", &O::divided)
      .def_ro("ahead", &O::ahead)
      .def_rw("threads", &O::threads)
      .def_rw("cache_bytes", &O::cache_bytes);
}

void bind_loaders(nb::module_& m) {
  using Own = LoaderFace<Loader>;
  using Shared = LoaderFace<SharedLoader>;
  nb::class_<Team>(m, "DataTeam")
      .def(
          "__init__",
          [](Team* self, const Dataset& dataset, LoaderOptions options) {
            options.memory = BatchMemory::kShared;
            new (self) Team{make_team(dataset, std::move(options))};
          },
          "dataset"_a, "options"_a, nb::call_guard<nb::gil_scoped_release>());
  bind_loader<Loader>(m, "DataLoader")
      .def(
          "__init__",
          [](Own* self, const Dataset& dataset, const LoaderOptions& options) {
            new (self) Own(made<Loader>(dataset, options));
          },
          "dataset"_a, "options"_a)
      .def(
          "__init__",
          [](Own* self, const Team& team, int64_t rank, int threads) {
            new (self) Own(made<Loader>(team.team, rank, threads));
          },
          "team"_a, "rank"_a, "threads"_a)
      .def("divide", &Own::divide, "rows"_a)
      .def("serve", &Own::serve, "socket"_a, "process"_a)
      .def("stats", &Own::stats);
  bind_loader<SharedLoader>(m, "DataSharedLoader")
      .def(
          "__init__",
          [](Shared* self, const Dataset& dataset, const LoaderOptions& options, int socket,
             const std::string& server) {
            new (self) Shared(made<SharedLoader>(dataset, options, socket, server));
          },
          "dataset"_a, "options"_a, "socket"_a, "server"_a);
  m.def(
      "data_check_loader",
      [](const LoaderOptions& options, const Dataset& dataset) {
        nb::gil_scoped_release released;
        check_loader(options, dataset);
      },
      "options"_a, "dataset"_a);
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
  bind_options(m);
  bind_packs(m);
  bind_remote(m);
  bind_loaders(m);
}

}  // namespace stretto::python
