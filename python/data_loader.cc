// Loaders: batches as arrays over the loader's own memory.
#include <nanobind/ndarray.h>
#include <nanobind/stl/array.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <array>
#include <memory>
#include <span>
#include <string_view>

#include "closable.h"
#include "data.h"
#include "python_signals.h"
#include "stretto/base/error.h"
#include "stretto/base/interrupt.h"
#include "stretto/data/loader.h"
#include "stretto/data/share.h"
#include "tensors.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace stretto::python {
namespace {

using namespace stretto::data;

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

  int64_t pinned_bytes() { return enter()->pinned_bytes(); }

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
    row["reader"] = s.io_uring ? "io_uring" : "pread";
    row["ring_reads"] = s.ring_reads;
    row["pinned_bytes"] = s.pinned_bytes;
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
      if (batch.masks_of_boxes != nullptr) row["masks_of_boxes"] = masks_of_boxes(batch, ragged);
    }
    return row;
  }

  // An array for each picture.
  static nb::list masks_of_boxes(const Batch& batch, const Arrays& arrays) {
    nb::list masks;
    for (int64_t i = 0; i < batch.count; ++i) {
      const size_t shape[] = {static_cast<size_t>(batch.box_starts[i + 1] - batch.box_starts[i]),
                              static_cast<size_t>(batch.height), static_cast<size_t>(batch.width)};
      masks.append(arrays.make(batch.masks_of_boxes[i], shape, dlpack_type(DType::kUInt8)));
    }
    return masks;
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

}  // namespace

void bind_data_loaders(nb::module_& m) {
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
      .def("pinned_bytes", [](Shared& self) { return self.pinned_bytes(); })
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

}  // namespace stretto::python
