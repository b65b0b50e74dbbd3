// Datasets behind URLs for Python: what users see of it is stretto/data/_remote.py. Python fetches
// on threads of its own, which wait here without the interpreter's lock.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <cerrno>
#include <memory>
#include <optional>
#include <tuple>

#include "data.h"
#include "python_signals.h"
#include "stretto/base/file.h"
#include "stretto/base/interrupt.h"
#include "stretto/data/containers.h"
#include "stretto/data/remote.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace stretto::python {
namespace {

using namespace stretto::data;

// URL, bytes (None: not known) and version (0: not known).
using FileTuple = std::tuple<std::string, std::optional<uint64_t>, uint64_t>;

RemoteFile remote_file(const FileTuple& row) {
  const auto& [url, bytes, version] = row;
  return {.url = url, .bytes = bytes.value_or(RemoteFile::kUnknown), .version = version};
}

bool is_utf8(const std::string& text) {
  const nb::object decoded =
      nb::steal(PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "strict"));
  if (decoded.is_valid()) return true;
  PyErr_Clear();
  return false;
}

// Not a Fetcher itself: then the engine, which lets go of it on any thread and with locks of its
// own, would need the interpreter's lock for that.
struct PythonFetcher {
  std::shared_ptr<Fetcher> fetcher;
};

std::optional<FileTuple> take(const PythonFetcher& self) {
  for (;;) {
    std::optional<RemoteFile> file;
    {
      nb::gil_scoped_release released;
      file = self.fetcher->take();
    }
    if (!file) return std::nullopt;
    if (!is_utf8(file->url)) {
      self.fetcher->fail(file->url, "the URL is not UTF-8", EINVAL);
      continue;
    }
    const bool known = file->bytes != RemoteFile::kUnknown;
    return FileTuple(file->url, known ? std::optional(file->bytes) : std::nullopt, file->version);
  }
}

Dataset open_source(const PythonFetcher& self, const std::string& url, const std::string& kind,
                    const std::vector<FileTuple>& files, const std::vector<std::string>& folders) {
  RemoteSource source{.url = url, .kind = kind, .files = {}, .folders = folders};
  for (const FileTuple& row : files) source.files.push_back(remote_file(row));
  nb::gil_scoped_release released;
  const InterruptScope interrupt(check_signals);
  return open_remote(source, self.fetcher);
}

}  // namespace

nb::dict remote_stats(const RemoteStats& s) {
  nb::dict row;
  row["fetched"] = s.fetched;
  row["fetched_bytes"] = s.fetched_bytes;
  row["hits"] = s.hits;
  row["waits"] = s.waits;
  row["wait_seconds"] = s.wait_seconds;
  row["retries"] = s.retries;
  row["failures"] = s.failures;
  row["evicted"] = s.evicted;
  row["limit_bytes"] = s.limit_bytes;
  return row;
}

void bind_remote(nb::module_& m) {
  using P = PythonFetcher;
  using Unlocked = nb::call_guard<nb::gil_scoped_release>;
  nb::class_<P>(m, "DataFetcher")
      .def(
          "__init__",
          [](P* self, const std::string& folder, const std::string& dataset, uint64_t bytes,
             double patience_s, int threads) {
            const FetchOptions options{.cache = {.folder = folder,
                                                 .dataset = dataset,
                                                 .bytes = bytes,
                                                 .patience_s = patience_s},
                                       .threads = threads};
            new (self) P{std::make_shared<Fetcher>(options)};
          },
          "folder"_a, "dataset"_a, "bytes"_a, "patience_s"_a, "threads"_a, Unlocked())
      .def("take", &take)
      .def(
          "begin",
          [](const P& self, const std::string& url, uint64_t bytes, uint64_t version) {
            return self.fetcher->begin({.url = url, .bytes = bytes, .version = version});
          },
          "url"_a, "bytes"_a, "version"_a, Unlocked())
      .def(
          "grew",
          [](const P& self, const std::string& url, uint64_t bytes) {
            self.fetcher->grew(url, bytes);
          },
          "url"_a, "bytes"_a, Unlocked())
      .def(
          "retried", [](const P& self) { self.fetcher->retried(); }, Unlocked())
      .def(
          "finish", [](const P& self, const std::string& url) { self.fetcher->finish(url); },
          "url"_a, Unlocked())
      .def(
          "fail",
          [](const P& self, const std::string& url, const std::string& problem, int code) {
            self.fetcher->fail(url, problem, code);
          },
          "url"_a, "problem"_a, "code"_a, Unlocked())
      .def(
          "close", [](const P& self) { self.fetcher->close(); }, Unlocked())
      .def("stats", [](const P& self) { return remote_stats(self.fetcher->stats()); });
  m.def("data_open_remote", &open_source, "fetcher"_a, "url"_a, "kind"_a, "files"_a, "folders"_a);
  m.def(
      "data_expand", [](const std::string& pattern) { return expand_braces(pattern); },
      "pattern"_a);
  m.def("cache_directory", &cache_directory);
}

}  // namespace stretto::python
