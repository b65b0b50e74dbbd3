// Packs for Python: what users see of it is stretto/data/_pack.py.
#include <nanobind/stl/function.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <functional>
#include <memory>
#include <optional>

#include "data.h"
#include "python_signals.h"
#include "stretto/base/clock.h"
#include "stretto/base/interrupt.h"
#include "stretto/data/pack.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace stretto::python {
namespace {

using namespace stretto::data;

using Tell = std::optional<nb::typed<nb::callable, void(std::string, double)>>;
using Counted = std::function<void(int64_t done, int64_t count)>;

constexpr double kTellPeriod_s = 0.05;

// What is called by any thread, without the interpreter's lock. `tell` outlives it.
Counted counted(const Tell& tell, const char* stage) {
  if (!tell) return {};
  return [&tell, stage, told_s = 0.0](int64_t done, int64_t count) mutable {
    const double now = now_s();
    if (done < count && now - told_s < kTellPeriod_s) return;
    told_s = now;
    const nb::gil_scoped_acquire gil;
    (*tell)(stage, static_cast<double>(done) / static_cast<double>(count));
  };
}

nb::list pairs(const std::vector<LeftOut>& rows) {
  nb::list result;
  for (const LeftOut& row : rows) {
    result.append(nb::make_tuple(text_of(row.name), text_of(row.reason)));
  }
  return result;
}

nb::dict pack_dataset(const Dataset& source, const std::string& out, int threads, bool skip_bad,
                      uint64_t shard_bytes, const Tell& tell) {
  PackResult result;
  {
    nb::gil_scoped_release released;
    const InterruptScope interrupt(check_signals);
    result = pack(source, out,
                  {.threads = threads,
                   .skip_bad = skip_bad,
                   .shard_bytes = shard_bytes,
                   .decode = {},
                   .progress = counted(tell, "pack")});
  }
  nb::dict row;
  row["samples"] = result.samples;
  row["resumed_at"] = result.resumed_at;
  row["source_bytes"] = result.source_bytes;
  row["bytes"] = result.bytes;
  row["shards"] = result.shards;
  row["left_out"] = pairs(result.left_out);
  return row;
}

nb::dict verify(const std::string& path, int threads, int64_t pixels_every, const Tell& tell) {
  VerifyResult result;
  {
    nb::gil_scoped_release released;
    const InterruptScope interrupt(check_signals);
    result = verify_pack(path, {.threads = threads,
                                .pixels_every = pixels_every,
                                .decode = {},
                                .progress = counted(tell, "verify")});
  }
  nb::dict row;
  row["samples"] = result.samples;
  row["compared"] = result.compared;
  row["bytes"] = result.bytes;
  row["damaged"] = pairs(result.damaged);
  return row;
}

nb::dict unpack_to(const std::string& path, const std::string& out, const Tell& tell) {
  UnpackResult result;
  {
    nb::gil_scoped_release released;
    const InterruptScope interrupt(check_signals);
    result = unpack(path, out, counted(tell, "unpack"));
  }
  nb::dict row;
  row["files"] = result.files;
  row["bytes"] = result.bytes;
  return row;
}

}  // namespace

void bind_packs(nb::module_& m) {
  m.def("data_pack", &pack_dataset, "source"_a, "out"_a, "threads"_a, "skip_bad"_a, "shard_bytes"_a,
        "progress"_a.none());
  m.def("data_verify", &verify, "path"_a, "threads"_a, "pixels_every"_a, "progress"_a.none());
  m.def("data_unpack", &unpack_to, "path"_a, "out"_a, "progress"_a.none());
}

}  // namespace stretto::python
