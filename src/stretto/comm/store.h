// Where ranks find one another before they are connected: a small map from keys to bytes that all
// of them can reach. Python bridges torch's TCPStore to it.
#pragma once

#include <memory>
#include <string>
#include <string_view>

namespace stretto::comm {

class Store {
 public:
  virtual ~Store() = default;

  // A key is set once; what a second set does is undefined.
  virtual void set(std::string_view key, std::string_view value) = 0;

  // Waits until somebody has set the key. Throws CommError naming the key after timeout_s seconds.
  virtual std::string get(std::string_view key, double timeout_s) = 0;
};

// Both may be used from any thread, and by several engines at once.

// Of this process: ranks are threads.
std::shared_ptr<Store> memory_store();

// In a folder that every rank sees (made when missing); a key becomes a file of that folder and
// stays there: one folder per job.
std::shared_ptr<Store> file_store(const std::string& folder);

// At "HOST:PORT": one rank serves (there, until the store is destroyed), the others ask it; they
// may come first. Believes whoever reaches it. Throws InvalidArgument for what is no such address,
// and CommError when it cannot listen there.
std::shared_ptr<Store> tcp_store(const std::string& address, bool serves);

// By what `where` looks like: with a '/' a file_store, else a tcp_store.
std::shared_ptr<Store> open_store(const std::string& where, bool serves);

// A view of `store` whose keys begin with `prefix`.
std::shared_ptr<Store> prefix_store(std::shared_ptr<Store> store, std::string prefix);

}  // namespace stretto::comm
