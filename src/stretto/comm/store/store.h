// A store is a small map from keys to bytes that all ranks of a job can reach. They publish their
// addresses in it before they are connected. Python wraps torch's stores in it.
#pragma once

#include <memory>
#include <string>
#include <string_view>

namespace stretto::comm {

class Store {
 public:
  virtual ~Store() = default;

  // Sets a key, once: what a second call for the same key does is undefined.
  virtual void set(std::string_view key, std::string_view value) = 0;

  // Waits until the key is set. Throws CommError that names the key after timeout_s seconds.
  virtual std::string get(std::string_view key, double timeout_s) = 0;
};

// These stores may be used from any thread, and by several engines at once.

// In the memory of this process, for ranks that are threads.
std::shared_ptr<Store> memory_store();

// In a folder that all ranks see, one folder per job. The folder is made if it is missing; every
// key is a file in it, which stays. Throws FormatError when the folder cannot be made.
std::shared_ptr<Store> file_store(const std::string& folder);

// At `address`, "HOST:PORT": one rank serves there until it destroys the store, the others connect
// to it, and may start first. Everybody who can reach the port can read and write. Throws
// InvalidArgument for a wrong address, and CommError when it cannot listen there.
std::shared_ptr<Store> tcp_store(const std::string& address, bool serves);

// A file_store if `where` contains a '/', else a tcp_store.
std::shared_ptr<Store> open_store(const std::string& where, bool serves);

// A view of `store` whose keys begin with `prefix`.
std::shared_ptr<Store> prefix_store(std::shared_ptr<Store> store, std::string prefix);

}  // namespace stretto::comm
