#include "stretto/comm/store.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <thread>

#include "stretto/base/error.h"

namespace stretto::comm {
namespace {

void expect_store_works(Store& store) {
  std::thread setter([&] { store.set("a/b", std::string("x\0y", 3)); });
  EXPECT_EQ(store.get("a/b", 60), std::string("x\0y", 3));
  setter.join();
  EXPECT_THROW(store.get("never", 0.01), CommError);
}

TEST(Store, WaitsForAKeyAndNamesAMissingOne) {
  expect_store_works(*memory_store());
  expect_store_works(*prefix_store(memory_store(), "job/"));
  std::string folder = std::filesystem::temp_directory_path() / "stretto-store-XXXXXX";
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  expect_store_works(*file_store(folder));
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace stretto::comm
