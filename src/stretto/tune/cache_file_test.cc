#include "stretto/tune/cache_file.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "stretto/base/file.h"
#include "stretto/base/log.h"

namespace stretto::tune {
namespace {

namespace fs = std::filesystem;

// A folder of its own, and what is logged while the test runs.
class CacheFile : public ::testing::Test {
 protected:
  CacheFile() {
    std::string name = fs::temp_directory_path() / "stretto_cache_test_XXXXXX";
    folder_ = mkdtemp(name.data());
    path_ = folder_ / "cache.tsv";
    before_ = set_log([this](LogLevel, std::string_view message) { log_.emplace_back(message); });
  }
  ~CacheFile() override {
    set_log(std::move(before_));
    fs::remove_all(folder_);
  }
  static TuningCache one(const std::string& key, const std::string& candidate = "direct") {
    TuningCache cache;
    cache.put(key, {candidate, 1e-3});
    return cache;
  }
  std::string log() const {
    std::string all;
    for (const std::string& line : log_) all += line + "\n";
    return all;
  }

  fs::path folder_;
  std::string path_;
  std::vector<std::string> log_;
  LogCallback before_;
};

TEST_F(CacheFile, RemembersAndAdds) {
  EXPECT_TRUE(load_tuning_cache(path_).empty());
  EXPECT_TRUE(add_to_tuning_cache(path_, one("a")));
  EXPECT_TRUE(add_to_tuning_cache(path_, one("b")));
  EXPECT_TRUE(add_to_tuning_cache(path_, one("a", "winograd")));
  const TuningCache cache = load_tuning_cache(path_);
  ASSERT_EQ(cache.size(), 2u);
  EXPECT_EQ(cache.find("a")->candidate, "winograd");
  EXPECT_EQ(log(), "");
}

TEST_F(CacheFile, ProcessesThatSaveAtOnceLoseNothing) {
  constexpr int kProcesses = 8, kSaves = 5;
  std::vector<pid_t> children;
  for (int p = 0; p < kProcesses; ++p) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      bool ok = true;
      for (int s = 0; s < kSaves; ++s) {
        ok = add_to_tuning_cache(path_, one("problem " + std::to_string(p * kSaves + s))) && ok;
      }
      _exit(ok ? 0 : 1);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  EXPECT_EQ(load_tuning_cache(path_).size(), static_cast<size_t>(kProcesses * kSaves));
}

TEST_F(CacheFile, ForgetsInTheFile) {
  EXPECT_TRUE(add_to_tuning_cache(path_, one("a")));
  EXPECT_TRUE(add_to_tuning_cache(path_, one("b")));
  EXPECT_TRUE(forget_in_tuning_cache(path_, one("a")));
  const TuningCache left = load_tuning_cache(path_);
  EXPECT_FALSE(left.find("a"));
  EXPECT_TRUE(left.find("b"));
  EXPECT_TRUE(forget_in_tuning_cache("", one("b")));
}

TEST_F(CacheFile, ADamagedFileIsSetAsideOnceAndReported) {
  const std::string damaged = one("a").text() + "no tabs here\n";
  write_file(path_, damaged);
  EXPECT_TRUE(load_tuning_cache(path_).empty());
  EXPECT_FALSE(fs::exists(path_));
  EXPECT_EQ(read_file(path_ + ".damaged"), damaged) << "nothing of the user's is thrown away";
  ASSERT_EQ(log_.size(), 1u) << log();
  for (const char* part : {"line 3", "cache.tsv.damaged", "a new one is started"}) {
    EXPECT_NE(log().find(part), std::string::npos) << part << " in " << log();
  }
  EXPECT_TRUE(add_to_tuning_cache(path_, one("b")));
  EXPECT_EQ(load_tuning_cache(path_).size(), 1u);
  EXPECT_EQ(log_.size(), 1u) << log();

  const std::string again(512, '\0');
  write_file(path_, again);
  EXPECT_TRUE(add_to_tuning_cache(path_, one("c")));
  EXPECT_EQ(read_file(path_ + ".damaged"), damaged);
  EXPECT_EQ(read_file(path_ + ".damaged.1"), again);
  EXPECT_EQ(load_tuning_cache(path_).size(), 1u);
  EXPECT_EQ(log_.size(), 2u) << log();
}

TEST_F(CacheFile, ProcessesThatFindTheSameDamageSetItAsideOnce) {
  write_file(path_, "garbage\n");
  std::vector<pid_t> children;
  for (int p = 0; p < 8; ++p) {
    const pid_t child = fork();
    if (child == 0) {
      load_tuning_cache(path_);
      _exit(add_to_tuning_cache(path_, one("problem " + std::to_string(p))) ? 0 : 1);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  EXPECT_EQ(load_tuning_cache(path_).size(), 8u);
  EXPECT_EQ(read_file(path_ + ".damaged"), "garbage\n");
  EXPECT_FALSE(fs::exists(path_ + ".damaged.1"));
}

TEST_F(CacheFile, ANewerFileIsLeftAloneAndReportedOnce) {
  const std::string newer = "stretto-tuning-cache 999.0.0\nwhatever it holds\n";
  write_file(path_, newer);
  EXPECT_TRUE(load_tuning_cache(path_).empty());
  EXPECT_FALSE(add_to_tuning_cache(path_, one("a")));
  EXPECT_EQ(read_file(path_), newer);
  ASSERT_EQ(log_.size(), 1u) << log();
  EXPECT_NE(log().find("999.0.0"), std::string::npos) << log();
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), {}), 1) << "no lock file beside it";
}

TEST_F(CacheFile, AnOlderFileMakesRoomWhenSomethingIsSaved) {
  const std::string older = "stretto-tuning-cache 0.0.9\nkey\trow\t1\n";
  write_file(path_, older);
  EXPECT_TRUE(load_tuning_cache(path_).empty());
  EXPECT_EQ(log(), "");
  EXPECT_TRUE(add_to_tuning_cache(path_, one("a")));
  EXPECT_EQ(read_file(path_ + ".0.0.9"), older);
  EXPECT_EQ(load_tuning_cache(path_).size(), 1u);
  EXPECT_EQ(log_.size(), 1u) << log();
}

TEST_F(CacheFile, WhatIsNoFileIsNotReplaced) {
  fs::create_directory(path_);
  EXPECT_TRUE(load_tuning_cache(path_).empty());
  EXPECT_FALSE(add_to_tuning_cache(path_, one("a")));
  EXPECT_TRUE(fs::is_directory(path_));
  EXPECT_EQ(log_.size(), 1u) << log();
  EXPECT_FALSE(add_to_tuning_cache("/dev/null", one("a")));
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
}

TEST_F(CacheFile, ALinkStaysALink) {
  const std::string link = folder_ / "link.tsv";
  fs::create_symlink(path_, link);
  write_file(path_, one("a").text());
  EXPECT_TRUE(add_to_tuning_cache(link, one("b")));
  EXPECT_TRUE(fs::is_symlink(link));
  EXPECT_EQ(load_tuning_cache(path_).size(), 2u);
}

TEST_F(CacheFile, AFolderThatCannotBeMadeIsReported) {
  write_file(folder_ / "file", "x");
  EXPECT_FALSE(add_to_tuning_cache(folder_ / "file" / "cache.tsv", one("a")));
  EXPECT_EQ(log_.size(), 1u) << log();
}

TEST_F(CacheFile, OneFolderAndOneFileVariableName) {
  const auto remember = [](const char* name) {
    const char* value = std::getenv(name);
    return value ? std::optional<std::string>(value) : std::nullopt;
  };
  const auto restore = [](const char* name, const std::optional<std::string>& value) {
    value ? setenv(name, value->c_str(), 1) : unsetenv(name);
  };
  const auto folder = remember("STRETTO_CACHE_DIR"), file = remember("STRETTO_TUNING_CACHE");
  const std::string version(text_version(one("a").text()));
  setenv("STRETTO_CACHE_DIR", "/of/mine", 1);
  unsetenv("STRETTO_TUNING_CACHE");
  EXPECT_EQ(tuning_cache_path(), "/of/mine/tuning-cache-" + version + ".tsv");
  setenv("STRETTO_TUNING_CACHE", "/my/file", 1);
  EXPECT_EQ(tuning_cache_path(), "/my/file");
  EXPECT_EQ(tuning_cache_path("/another"), "/another");
  EXPECT_EQ(tuning_cache_path("none"), "");
  setenv("STRETTO_TUNING_CACHE", "none", 1);
  EXPECT_EQ(tuning_cache_path(), "");
  restore("STRETTO_CACHE_DIR", folder);
  restore("STRETTO_TUNING_CACHE", file);
}

}  // namespace
}  // namespace stretto::tune
