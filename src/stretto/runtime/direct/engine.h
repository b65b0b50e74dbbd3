// What a context of ops.h holds: the compiled operators that were used last, and where they run.
#pragma once

#include <atomic>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>

#include "stretto/ops.h"
#include "stretto/runtime/direct/lane.h"
#include "stretto/runtime/direct/prepared.h"

namespace stretto::runtime::direct {

// The prepared operators of one context by key, with a bound. Safe to use from several threads.
class Cache {
 public:
  using Value = std::shared_ptr<const Prepared>;

  explicit Cache(size_t capacity) : capacity_(capacity) {}

  // Null when it is not there. What is found becomes the one used last. Also drops what constants
  // have left behind that are gone.
  Value find(std::string_view key);
  // The value that is kept: another thread's, where that was faster.
  Value add(std::string_view key, Value value);
  void clear();
  ops::CacheStatistics statistics() const;

 private:
  struct Entry {
    std::string key;
    Value value;
  };
  using Entries = std::list<Entry>;
  void drop(Entries::iterator entry, Entries& dropped);
  void drop_stale(Entries& dropped);

  const size_t capacity_;
  mutable std::mutex mutex_;
  Entries entries_;              // the one used last is the first
  uint64_t constants_gone_ = 0;  // when it was last looked for what is stale
  std::unordered_map<std::string_view, Entries::iterator> by_key_;
  ops::CacheStatistics counts_;
};

class Engine {
 public:
  explicit Engine(const ops::ContextOptions& options);
  ~Engine();

  Cache& cache() { return parts().cache; }

  // Finds or compiles. `key` holds the same arguments; operators with much of their values in the
  // key are not kept.
  std::shared_ptr<const Prepared> prepare(const Key& key, const DirectOperator& op,
                                          std::span<const Argument> arguments,
                                          const ir::Attributes& attributes, int outputs,
                                          int64_t opset);
  // Waits while as many calls run as fit on the cores, unless the operator is a brief one.
  void run(const Prepared& prepared, std::span<const void* const> inputs,
           std::span<void* const> outputs);
  void clear();

 private:
  // What locks and threads are in: made anew in a forked child.
  struct Parts {
    explicit Parts(const Engine& engine);
    const uint64_t forks;
    Cache cache;
    // Calls that are over soon never wait, so that callers may hold locks of their own meanwhile.
    LanePool brief, narrow, wide;
    std::once_flag known_read;
    tune::TuningCache known;
  };
  Parts& parts();

  const ops::ContextOptions options_;
  const kernels::Target target_;
  std::atomic<Parts*> parts_;
};

}  // namespace stretto::runtime::direct

namespace stretto {

struct ops::Context::State {
  explicit State(const ContextOptions& options) : engine(options) {}
  runtime::direct::Engine engine;
};

}  // namespace stretto
