// For the tests of datasets: a folder that is gone afterwards, and what an error says.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "stretto/base/error.h"
#include "stretto/base/file.h"
#include "stretto/data/dataset.h"
#include "stretto/data/tiny_pictures_testing.h"

namespace stretto::data {

class TestFolder {
 public:
  TestFolder() {
    std::string name = std::filesystem::temp_directory_path() / "stretto-data-XXXXXX";
    STRETTO_CHECK(::mkdtemp(name.data()) != nullptr, "cannot make {}", name);
    path_ = name;
  }
  ~TestFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TestFolder(const TestFolder&) = delete;
  TestFolder& operator=(const TestFolder&) = delete;

  std::string path(std::string_view below = {}) const {
    return below.empty() ? path_ : fmt::format("{}/{}", path_, below);
  }
  // With the folders that it lies in.
  std::string write(std::string_view below, std::string_view content) const {
    const std::string file = path(below);
    std::filesystem::create_directories(std::filesystem::path(file).parent_path());
    write_file(file, content);
    return file;
  }

 private:
  std::string path_;
};

inline std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

inline std::vector<std::string> names_of(const Dataset& dataset) {
  std::vector<std::string> names;
  for (int64_t i = 0; i < dataset.size(); ++i) names.push_back(dataset.name(i));
  return names;
}

inline std::vector<int64_t> labels_of(const Dataset& dataset) {
  std::vector<int64_t> labels;
  for (int64_t i = 0; i < dataset.size(); ++i) labels.push_back(dataset.sample(i).label);
  return labels;
}

using Names = std::vector<std::string>;
using LabelList = std::vector<int64_t>;

inline ::testing::AssertionResult says(std::string_view text, std::string_view part) {
  if (text.find(part) != text.npos) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << "expected \"" << part << "\" in \"" << text << "\"";
}

// The text of the error E that `f` throws.
template <typename E, typename F>
std::string error_of(F&& f) {
  try {
    f();
  } catch (const E& e) {
    return e.what();
  } catch (const std::exception& e) {
    ADD_FAILURE() << "another error: " << e.what();
    return e.what();
  }
  ADD_FAILURE() << "no error";
  return "";
}

}  // namespace stretto::data
