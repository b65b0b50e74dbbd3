// For the tests of the loader: small datasets of pictures, and what a loader gives.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "stretto/data/data_testing.h"
#include "stretto/data/index.h"
#include "stretto/data/loader.h"
#include "stretto/data/restarts.h"
#include "stretto/media/jpeg/jpeg_testing.h"
#include "stretto/media/jpeg/transcode.h"

namespace stretto::data {

// Pictures of several sizes, samplings and orientations, as files of a folder and in two shards
// with restart tables. Sample i has label i % 7, the last one has none.
class TestPictures {
 public:
  explicit TestPictures(int64_t count) : count_(count) {
    for (int64_t i = 0; i < count; ++i) {
      const auto file = media::jpeg::make_jpeg({.width = 40 + static_cast<int>(i * 13 % 60),
                                                .height = 50 + static_cast<int>(i * 29 % 50),
                                                .colour = i % 5 == 4 ? "grey" : "ycc",
                                                .h = i % 5 == 4 ? 1 : 2,
                                                .v = i % 2 == 0 && i % 5 != 4 ? 2 : 1,
                                                .exif = i % 3 == 0,
                                                .seed = static_cast<uint32_t>(i + 1)});
      files_.push_back(file);
      folder_.write(name(i), text(file));
    }
  }

  int64_t size() const { return count_; }
  static std::string name(int64_t i) { return fmt::format("p{}.jpg", i); }
  std::string path(int64_t i) const { return folder_.path(name(i)); }
  int64_t label(int64_t i) const { return i + 1 == count_ ? -1 : i % 7; }
  const std::vector<std::byte>& file(int64_t i) const { return files_[static_cast<size_t>(i)]; }
  std::string shard(int k) const { return folder_.path(fmt::format("shard{}", k)); }
  const TestFolder& folder() const { return folder_; }

  Dataset as_folder() const {
    TableBuilder builder;
    for (int64_t i = 0; i < count_; ++i) {
      builder.add(name(i), {.label = label(i)});
    }
    builder.table().source = builder.table().one_file_each_below = folder_.path();
    builder.table().kind = "folder";
    return Dataset(std::move(builder).take());
  }

  Dataset as_pack() const {
    TableBuilder builder;
    std::string shards[2];
    for (int64_t i = 0; i < count_; ++i) {
      const auto written = media::jpeg::transcode(file(i));
      const auto found = media::jpeg::restart_table(written);
      STRETTO_CHECK(found, "{}", found.reason);
      const auto table = encode_restarts(found.table);
      std::string& shard = shards[i % 2];
      shard += text(table);
      builder.add(name(i), {.offset = shard.size(),
                            .length = written.size(),
                            .label = label(i),
                            .container = static_cast<uint32_t>(i % 2),
                            .restart_bytes = static_cast<uint32_t>(table.size())});
      shard += text(written);
    }
    for (int k = 0; k < 2; ++k) {
      builder.table().containers.push_back(folder_.write(fmt::format("shard{}", k), shards[k]));
    }
    builder.table().source = folder_.path();
    builder.table().kind = "pack";
    return Dataset(std::move(builder).take());
  }

 private:
  static std::string text(const std::vector<std::byte>& bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }

  int64_t count_;
  TestFolder folder_;
  std::vector<std::vector<std::byte>> files_;
};

// A batch without its memory.
struct Given {
  int64_t epoch = 0, number = 0;
  std::vector<int64_t> samples, labels;
  std::vector<bool> real;
  std::string pixels;
  bool operator==(const Given&) const = default;
};

inline Given copy_of(const Batch& b) {
  Given g{.epoch = b.epoch, .number = b.number};
  g.samples.assign(b.samples, b.samples + b.count);
  g.labels.assign(b.labels, b.labels + b.count);
  g.real.assign(b.real, b.real + b.count);
  g.pixels.assign(static_cast<const char*>(b.data),
                  static_cast<size_t>(3 * b.count * b.height * b.width) * dtype_bytes(b.dtype));
  return g;
}

// The batches up to the end of the epoch.
template <typename L>
std::vector<Given> rest_of_epoch(L& loader) {
  std::vector<Given> all;
  while (const auto batch = loader.next()) all.push_back(copy_of(*batch));
  return all;
}

// The same of all ranks, their parts of each batch one after the other.
inline std::vector<Given> together(const std::vector<std::vector<Given>>& ranks) {
  std::vector<Given> all = ranks[0];
  for (size_t r = 1; r < ranks.size(); ++r) {
    EXPECT_EQ(ranks[r].size(), all.size());
    for (size_t b = 0; b < std::min(all.size(), ranks[r].size()); ++b) {
      const Given& more = ranks[r][b];
      EXPECT_EQ(more.number, all[b].number);
      all[b].samples.insert(all[b].samples.end(), more.samples.begin(), more.samples.end());
      all[b].labels.insert(all[b].labels.end(), more.labels.begin(), more.labels.end());
      all[b].real.insert(all[b].real.end(), more.real.begin(), more.real.end());
      all[b].pixels += more.pixels;
    }
  }
  return all;
}

// Small pictures and batches, so that a test has many of them.
inline LoaderOptions small_options() {
  LoaderOptions o;
  o.phases = {{.epoch = 0, .shape = {.height = 24, .width = 20, .batch = 4}}};
  o.threads = 2;
  o.order.seed = 17;
  o.cache_bytes = 32 << 20;
  return o;
}

}  // namespace stretto::data
