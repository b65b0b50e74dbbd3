#include "stretto/comm/store/store.h"

#include <chrono>
#include <filesystem>
#include <thread>

#include "stretto/base/clock.h"
#include "stretto/base/error.h"
#include "stretto/base/file.h"
#include "stretto/comm/store/store_map.h"

namespace stretto::comm {
namespace {

class MemoryStore : public Store {
 public:
  void set(std::string_view key, std::string_view value) override { values_.set(key, value); }
  std::string get(std::string_view key, double timeout_s) override {
    return values_.get(key, timeout_s);
  }

 private:
  StoreMap values_;
};

// Keeps letters, digits and -_. and writes all else as %XX, so that no key leads out of the folder.
std::string file_name(std::string_view key) {
  std::string name = "key-";
  for (unsigned char c : key) {
    if (std::isalnum(c) || c == '-' || c == '_' || c == '.') {
      name += static_cast<char>(c);
    } else {
      name += fmt::format("%{:02X}", c);
    }
  }
  return name;
}

class FileStore : public Store {
 public:
  explicit FileStore(std::string folder) : folder_(std::move(folder)) {
    std::error_code error;
    std::filesystem::create_directories(folder_, error);
    if (error)
      throw FormatError(folder_, -1, "store: the folder cannot be made: " + error.message(),
                        error.value());
  }

  void set(std::string_view key, std::string_view value) override {
    write_file(path(key), value);  // by rename, so that readers never see part of it
  }

  std::string get(std::string_view key, double timeout_s) override {
    const std::string file = path(key);
    const double deadline = now_s() + timeout_s;
    auto pause = std::chrono::milliseconds(1);
    while (!std::filesystem::exists(file)) {
      if (now_s() > deadline) throw_missing(key, timeout_s);
      std::this_thread::sleep_for(pause);
      pause = std::min(pause * 2, std::chrono::milliseconds(50));
    }
    return read_file(file);
  }

 private:
  std::string path(std::string_view key) const { return folder_ + "/" + file_name(key); }

  const std::string folder_;
};

class PrefixStore : public Store {
 public:
  PrefixStore(std::shared_ptr<Store> store, std::string prefix)
      : store_(std::move(store)), prefix_(std::move(prefix)) {}

  void set(std::string_view key, std::string_view value) override {
    store_->set(prefix_ + std::string(key), value);
  }

  std::string get(std::string_view key, double timeout_s) override {
    return store_->get(prefix_ + std::string(key), timeout_s);
  }

 private:
  const std::shared_ptr<Store> store_;
  const std::string prefix_;
};

}  // namespace

std::shared_ptr<Store> memory_store() { return std::make_shared<MemoryStore>(); }

std::shared_ptr<Store> file_store(const std::string& folder) {
  return std::make_shared<FileStore>(folder);
}

std::shared_ptr<Store> prefix_store(std::shared_ptr<Store> store, std::string prefix) {
  return std::make_shared<PrefixStore>(std::move(store), std::move(prefix));
}

}  // namespace stretto::comm
