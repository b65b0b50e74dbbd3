// Loaders of datasets behind URLs, whose store is a folder of this host.
#include "stretto/data/fetcher.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <map>
#include <thread>

#include "stretto/data/coco.h"
#include "stretto/data/containers_testing.h"
#include "stretto/data/loader_testing.h"
#include "stretto/data/pack.h"
#include "stretto/data/remote.h"

namespace stretto::data {
namespace {

constexpr const char* kStoreUrl = "u://store";

// u://store/X is X in a folder. Counts what is fetched, and may fail or hold on.
class FolderStore : public Store {
 public:
  explicit FolderStore(std::string folder) : folder_(std::move(folder)) {}

  RemoteFile look(const std::string& url) override {
    const std::lock_guard lock(mutex);
    const std::string path = local(url);
    std::error_code problem;
    const auto bytes = std::filesystem::file_size(path, problem);
    if (problem) throw FormatError(url, -1, "there is no such file", ENOENT);
    return {.url = url, .bytes = bytes, .version = version};
  }

  void fetch(const RemoteFile& file, const std::string& path,
             const std::function<void(uint64_t)>& grew) override {
    {
      std::unique_lock lock(mutex);
      while (held) {
        changed.wait_for(lock, std::chrono::milliseconds(10));
        lock.unlock();
        grew(0);  // throws when the fetcher is closed
        lock.lock();
      }
      ++fetched[file.url];
      if (failing) throw FormatError(file.url, -1, "the line is cut", EIO);
    }
    std::string content = read_file(local(file.url));
    if (damaging && !content.empty()) content[content.size() / 2] ^= 1;
    const int fd = ::open(path.c_str(), O_WRONLY);
    const auto count = ::pwrite(fd, content.data(), content.size(), 0);
    ::close(fd);
    if (count != static_cast<ssize_t>(content.size())) throw FormatError(path, -1, "write", EIO);
    grew(content.size());
  }

  std::mutex mutex;
  std::condition_variable changed;
  std::map<std::string, int> fetched;
  uint64_t version = 1;
  bool held = false, failing = false;
  std::atomic<bool> damaging{false};

 private:
  std::string local(const std::string& url) const {
    return folder_ + url.substr(std::string_view(kStoreUrl).size());
  }
  const std::string folder_;
};

// A cache and the threads that fill it.
struct Site {
  explicit Site(const std::string& folder, uint64_t bytes = 1 << 30)
      : store(std::make_shared<FolderStore>(folder)), fetcher(make(bytes)) {}
  std::shared_ptr<Fetcher> make(uint64_t bytes) const {
    return std::make_shared<Fetcher>(FetchOptions{
        .cache = {.folder = cache.path(), .dataset = kStoreUrl, .bytes = bytes, .patience_s = 10},
        .threads = 3});
  }
  RemoteFile file(const std::string& name) const { return store->look(kStoreUrl + ("/" + name)); }

  const TestFolder cache;
  const std::shared_ptr<FolderStore> store;
  const std::shared_ptr<Fetcher> fetcher;
  StoreThreads threads{fetcher, store, 3};
};

// The same files in a folder, in three archives, and in a pack of three shards.
class RemoteData : public ::testing::Test {
 protected:
  RemoteData() {
    for (int k = 0; k < 3; ++k) {
      std::string tar;
      for (int64_t i = k * 8; i < k * 8 + 8; ++i) {
        const std::string text = text_of(pictures_.file(i));
        tar += tar_member(fmt::format("{:03}.jpg", i), text);
        tar += tar_member(fmt::format("{:03}.cls", i), std::to_string(i % 5));
        total_ += text.size();
      }
      folder_.write(fmt::format("s-{}.tar", k), tar + tar_end());
    }
    for (int64_t i = 0; i < pictures_.size(); ++i) {
      folder_.write(fmt::format("f/c{}/{:03}.jpg", i % 3, i), text_of(pictures_.file(i)));
    }
    folder_.write("f/c9/.keep", "");
    std::string records;
    for (int64_t i = 0; i < pictures_.size(); ++i) {
      records += tf_record(example({bytes_feature("image/encoded", text_of(pictures_.file(i))),
                                    number_feature("image/class/label", i % 4)}));
    }
    folder_.write("r.tfrecord", records);
    pack(open_dataset(folder_.path("f")), folder_.path("p"), {.shard_bytes = total_ / 3 + 2000});
  }

  RemoteSource tar(const Site& site) const {
    return {.url = "u://store/s-{0..2}.tar",
            .kind = "tar",
            .files = {site.file("s-0.tar"), site.file("s-1.tar"), site.file("s-2.tar")},
            .folders = {}};
  }
  RemoteSource folder(const Site& site) const {
    RemoteSource source{.url = "u://store/f", .kind = "folder", .files = {}, .folders = {}};
    for (const auto& at : std::filesystem::recursive_directory_iterator(folder_.path("f"))) {
      const std::string below = at.path().string().substr(folder_.path().size() + 1);
      if (at.is_directory()) source.folders.push_back("u://store/" + below);
      if (at.is_regular_file()) source.files.push_back(site.file(below));
    }
    return source;
  }
  RemoteSource packed(const Site& site) const {
    return {.url = "u://store/p", .kind = "pack", .files = {site.file("p/index")}, .folders = {}};
  }

  static void expect_same(const Dataset& remote, const Dataset& local, const LoaderOptions& o) {
    EXPECT_EQ(names_of(remote), names_of(local));
    EXPECT_EQ(labels_of(remote), labels_of(local));
    EXPECT_EQ(remote.class_names(), local.class_names());
    EXPECT_EQ(remote.fingerprint(), local.fingerprint());
    EXPECT_EQ(remote.kind(), local.kind());
    Loader from_store(remote, o), from_disk(local, o);
    for (int epoch = 0; epoch < 2; ++epoch) {
      EXPECT_EQ(rest_of_epoch(from_store), rest_of_epoch(from_disk));
    }
    EXPECT_EQ(verdict(from_store.stats()).empty(), false);
  }

  const TestPictures pictures_{24};
  const TestFolder folder_;
  uint64_t total_ = 0;
};

TEST_F(RemoteData, IsTheSameAsLocalData) {
  const Site site(folder_.path());
  const LoaderOptions o = small_options();
  expect_same(open_remote(folder(site), site.fetcher), open_dataset(folder_.path("f")), o);
  expect_same(open_remote(tar(site), site.fetcher), open_dataset(folder_.path("s-{0..2}.tar")), o);
  expect_same(open_remote({.url = "u://store/r.tfrecord",
                           .kind = "tfrecord",
                           .files = {site.file("r.tfrecord")},
                           .folders = {}},
                          site.fetcher),
              open_dataset(folder_.path("r.tfrecord")), o);
  const Site other(folder_.path());
  expect_same(open_remote(packed(other), other.fetcher), open_dataset(folder_.path("p")), o);
  EXPECT_EQ(open_remote(packed(other), other.fetcher).path(0), "u://store/p/shard-00000.bin");
  for (const auto& [url, count] : site.store->fetched) EXPECT_EQ(count, 1) << url;
}

TEST_F(RemoteData, ListsNamePathsAndUrls) {
  folder_.write("f/l.csv", "path,label\nc0/000.jpg,3\nu://store/f/c1/001.jpg,4\n");
  const Site site(folder_.path());
  const Dataset list = open_remote(
      {.url = "u://store/f/l.csv", .kind = "list", .files = {site.file("f/l.csv")}, .folders = {}},
      site.fetcher);
  EXPECT_EQ(list.path(0), "u://store/f/c0/000.jpg");
  EXPECT_EQ(list.path(1), "u://store/f/c1/001.jpg");
  LoaderOptions o = small_options();
  o.phases[0].shape.batch = 2;
  Loader loader(list, o);
  EXPECT_EQ(loader.next()->count, 2);
  folder_.write("f/bad.csv", "/tmp/a.jpg,1\n");
  EXPECT_TRUE(says(error_of<FormatError>([&] {
                     open_remote({.url = "u://store/f/bad.csv",
                                  .kind = "list",
                                  .files = {site.file("f/bad.csv")},
                                  .folders = {}},
                                 site.fetcher);
                   }),
                   "/tmp/a.jpg: expected a path relative"));
}

TEST_F(RemoteData, ASmallCacheGivesTheSameAndKeepsItsBound) {
  uint64_t largest = 0;
  for (int k = 0; k < 3; ++k) {
    largest = std::max<uint64_t>(
        largest, std::filesystem::file_size(folder_.path(fmt::format("s-{}.tar", k))));
  }
  const Site site(folder_.path(), largest * 2);
  LoaderOptions o = small_options();
  o.order.kind = OrderKind::kBlocks;
  o.order.block = 4;
  o.order.window = 2;
  expect_same(open_remote(tar(site), site.fetcher), open_dataset(folder_.path("s-{0..2}.tar")), o);
  EXPECT_GT(site.fetcher->stats().evicted, 0);
  uint64_t bytes = 0;
  for (const auto& at : std::filesystem::recursive_directory_iterator(site.cache.path())) {
    if (at.is_regular_file()) bytes += at.file_size();
  }
  EXPECT_LE(bytes, largest * 2 + 4096);  // and a few bytes of notes
}

TEST_F(RemoteData, ASecondOpeningFetchesNothing) {
  const Site site(folder_.path());
  open_remote(tar(site), site.fetcher);
  const auto second = site.make(1 << 30);  // as of another process: nobody fetches for it
  const Dataset dataset = open_remote(tar(site), second);
  Loader loader(dataset, small_options());
  EXPECT_EQ(rest_of_epoch(loader).size(), 6u);
  EXPECT_EQ(second->stats().fetched, 0);
  EXPECT_GT(second->stats().hits, 0);
}

TEST_F(RemoteData, NotesThatAreDamagedAreMadeAgain) {
  const Site site(folder_.path());
  const Dataset first = open_remote(tar(site), site.fetcher);
  int damaged = 0;
  for (const auto& at : std::filesystem::recursive_directory_iterator(site.cache.path())) {
    if (!at.path().string().ends_with(".tar")) continue;
    std::string note = read_file(at.path().string());
    note[note.size() / 2] ^= 4;
    write_file(at.path().string(), note);
    ++damaged;
  }
  EXPECT_EQ(damaged, 3);
  EXPECT_EQ(open_remote(tar(site), site.fetcher).fingerprint(), first.fingerprint());
}

TEST_F(RemoteData, AChangeInTheStoreIsAnErrorThatNamesTheFile) {
  const uint64_t bytes = std::filesystem::file_size(folder_.path("s-0.tar")) * 3 / 2;
  const Site site(folder_.path(), bytes);
  const Dataset dataset = open_remote(tar(site), site.fetcher);
  site.store->version = 2;
  Loader loader(dataset, small_options());
  const std::string error = error_of<FormatError>([&] { rest_of_epoch(loader); });
  EXPECT_TRUE(says(error, "u://store/s-"));
  EXPECT_TRUE(says(error, "was changed in the store"));
}

TEST_F(RemoteData, AStoreThatFailsIsAnErrorAndMayRecover) {
  const Site site(folder_.path());
  const Dataset dataset = open_remote(folder(site), site.fetcher);
  site.store->failing = true;
  LoaderOptions o = small_options();
  o.errors = OnError::kSkip;  // it is no fault of the picture
  Loader loader(dataset, o);
  const std::string error = error_of<FormatError>([&] { loader.next(); });
  EXPECT_TRUE(says(error, "u://store/f/c"));
  EXPECT_TRUE(says(error, "the line is cut"));
  EXPECT_EQ(error.find("u://", 5), error.npos) << "twice in " << error;
  {
    const std::lock_guard lock(site.store->mutex);
    site.store->failing = false;
  }
  loader.load({.seed = o.order.seed});
  EXPECT_EQ(rest_of_epoch(loader).size(), 6u);
}

TEST_F(RemoteData, APictureThatIsGoneCanBeSkipped) {
  const Site site(folder_.path());
  const Dataset dataset = open_remote(folder(site), site.fetcher);
  std::filesystem::remove(folder_.path("f/c0/003.jpg"));
  LoaderOptions o = small_options();
  Loader strict(dataset, o);
  EXPECT_TRUE(says(error_of<FormatError>([&] { rest_of_epoch(strict); }), "c0/003.jpg"));
  o.errors = OnError::kSkip;
  Loader loader(dataset, o);
  EXPECT_EQ(rest_of_epoch(loader).size(), 6u);
  EXPECT_EQ(loader.stats().skipped_names, Names{"c0/003.jpg"});
}

TEST_F(RemoteData, AShardOfAPackIsComparedWithItsChecksums) {
  const Site site(folder_.path());
  const Dataset dataset = open_remote(packed(site), site.fetcher);
  site.store->damaging = true;
  Loader loader(dataset, small_options());
  const std::string error = error_of<FormatError>([&] { rest_of_epoch(loader); });
  EXPECT_TRUE(says(error, "u://store/p/shard-0"));
  EXPECT_TRUE(says(error, "its checksum is not the one in the pack's index"));
}

TEST_F(RemoteData, ALoaderEndsWhileItWaitsForAFile) {
  Site site(folder_.path());
  const Dataset dataset = open_remote(folder(site), site.fetcher);
  {
    const std::lock_guard lock(site.store->mutex);
    site.store->held = true;
  }
  {
    Loader loader(dataset, small_options());
    while (site.fetcher->stats().waits == 0) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
  EXPECT_EQ(site.fetcher->stats().fetched, 0);
}

TEST_F(RemoteData, CanBePacked) {
  const Site site(folder_.path());
  const TestFolder out;
  pack(open_remote(folder(site), site.fetcher), out.path("p"));
  pack(open_dataset(folder_.path("f")), out.path("q"));
  for (const char* file : {"shard-00000.bin", "index"}) {
    EXPECT_EQ(read_file(out.path(fmt::format("p/{}", file))),
              read_file(out.path(fmt::format("q/{}", file))));
  }
}

TEST_F(RemoteData, CocoIsLookedForNearItsUrlAndNotAboveItsHost) {
  using Folders = std::vector<std::string>;
  EXPECT_EQ(coco_folders_of_url("u://store/set/annotations/instances_val.json?sig=a/b"),
            (Folders{"u://store/set/annotations", "u://store/set/annotations/val",
                     "u://store/set/annotations/images/val", "u://store/set/annotations/images",
                     "u://store/set", "u://store/set/val", "u://store/set/images/val",
                     "u://store/set/images"}));
  EXPECT_EQ(coco_folders_of_url("u://store/val.json"),
            (Folders{"u://store", "u://store/val", "u://store/images/val", "u://store/images"}));
}

TEST_F(RemoteData, JoinedDatasetsAreReadThroughTheirOwnFetchers) {
  const Site site(folder_.path()), other(folder_.path());
  const Dataset local = open_dataset(folder_.path("f"));
  const std::vector<Dataset> remote{open_remote(folder(site), site.fetcher), local,
                                    open_remote(packed(other), other.fetcher)};
  const std::vector<Dataset> files{local, local, open_dataset(folder_.path("p"))};
  const Dataset joined = concat(remote);
  expect_same(joined, concat(files), small_options());
  ASSERT_EQ(remote_parts(joined).size(), 2u);
  EXPECT_FALSE(joined.remote(remote[0].size()).has_value());  // the first local one
  EXPECT_EQ(joined.remote(remote[0].size() + local.size())->index, 0);
  // Joined once more, each part keeps its place.
  const Dataset twice = concat(std::vector<Dataset>{local, joined});
  EXPECT_EQ(twice.path(local.size()), remote[0].path(0));
  EXPECT_EQ(twice.remote(local.size())->index, 0);
  EXPECT_EQ(remote_stats(twice)->fetched,
            site.fetcher->stats().fetched + other.fetcher->stats().fetched);
  EXPECT_FALSE(remote_stats(local).has_value());
}

// What a source is done with makes room for what the order needs of another source next, before
// anybody waits for it.
TEST_F(RemoteData, SourcesOfOneOrderShareACacheThatIsTooSmall) {
  pack(open_dataset(folder_.path("f")), folder_.path("q"), {.shard_bytes = total_ / 3 + 2000});
  uint64_t shards = 0;
  for (int k = 0; k < 3; ++k) {
    shards += std::filesystem::file_size(folder_.path(fmt::format("p/shard-{:05}.bin", k)));
  }
  const uint64_t bytes = shards + 2 * std::filesystem::file_size(folder_.path("p/index")) + 1000;
  const Site site(folder_.path(), bytes);
  const auto fetcher = std::make_shared<Fetcher>(FetchOptions{
      .cache = {.folder = site.cache.path(), .dataset = "u://store/q", .bytes = bytes}});
  const StoreThreads threads(fetcher, site.store, 3);
  const Dataset second = open_remote(
      {.url = "u://store/q", .kind = "pack", .files = {site.file("q/index")}, .folders = {}},
      fetcher);
  const Dataset first = open_remote(packed(site), site.fetcher);
  LoaderOptions o = small_options();
  o.order.kind = OrderKind::kSequential;
  {
    Loader loader(first, o);
    rest_of_epoch(loader);  // fills the cache
  }
  Loader loader(concat(std::vector<Dataset>{first, second}), o);
  // With the two batches in the making, these are 20 of the first one's 24 samples.
  for (int k = 0; k < 3; ++k) ASSERT_TRUE(loader.next().has_value());
  const auto fetched = [&] {
    const std::lock_guard lock(site.store->mutex);
    return site.store->fetched.contains("u://store/q/shard-00000.bin");
  };
  for (int k = 0; k < 60'000 && !fetched(); ++k) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_TRUE(fetched());
  EXPECT_EQ(fetcher->stats().waits, 1) << "for the index";
}

TEST_F(RemoteData, UrlsAreNotOpenedWithoutAStore) {
  EXPECT_TRUE(says(error_of<Unsupported>([] { open_dataset("https://h/x.tar"); }), "open_remote"));
  const Site site(folder_.path());
  EXPECT_TRUE(says(error_of<InvalidArgument>([&] {
                     open_remote({.url = "u://x", .kind = "beton", .files = {}, .folders = {}},
                                 site.fetcher);
                   }),
                   "pack, list, coco, tar, tfrecord, segmentation, folder"));
}

}  // namespace
}  // namespace stretto::data
