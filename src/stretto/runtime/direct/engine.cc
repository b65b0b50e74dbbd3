#include "stretto/runtime/direct/engine.h"

#include <algorithm>
#include <limits>

#include "stretto/base/cpu.h"
#include "stretto/base/fork.h"
#include "stretto/import/onnx/node.h"
#include "stretto/runtime/executor_pool.h"
#include "stretto/tune/cache_file.h"

namespace stretto::runtime::direct {
namespace {

// Above this the values in a key are data rather than shapes: they are not likely to come again.
constexpr size_t kMostKeyBytes = 4096;

kernels::Target target_of(const ops::ContextOptions& options) {
  if (options.threads < 0 || options.threads > 1024) {
    throw_invalid("threads: expected 0 (all cores) to 1024, got {}", options.threads);
  }
  if (options.capacity < 1) {
    throw_invalid("capacity: expected at least 1, got {}", options.capacity);
  }
  return {.isa = usable_isa(),
          .accuracy = kernels::parse_accuracy(options.accuracy),
          .threads = options.threads == 0 ? cpu_info().cores : options.threads};
}

}  // namespace

Cache::Value Cache::find(std::string_view key) {
  Entries dropped;  // destroyed after the lock is given back
  const std::lock_guard lock(mutex_);
  if (constants_gone_ != constants_gone()) drop_stale(dropped);
  const auto at = by_key_.find(key);
  if (at == by_key_.end()) {
    ++counts_.misses;
    return nullptr;
  }
  ++counts_.hits;
  if (at->second != entries_.begin()) entries_.splice(entries_.begin(), entries_, at->second);
  return at->second->value;
}

void Cache::drop(Entries::iterator entry, Entries& dropped) {
  by_key_.erase(entry->key);
  dropped.splice(dropped.end(), entries_, entry);
}

void Cache::drop_stale(Entries& dropped) {
  constants_gone_ = constants_gone();
  for (auto entry = entries_.begin(); entry != entries_.end();) {
    const auto& constants = entry->value->constants;
    const bool gone = std::any_of(constants.begin(), constants.end(),
                                  [](const auto& constant) { return constant.expired(); });
    const auto next = std::next(entry);
    if (gone) drop(entry, dropped);
    entry = next;
  }
}

Cache::Value Cache::add(std::string_view key, Value value) {
  Entries dropped;
  const std::lock_guard lock(mutex_);
  if (const auto at = by_key_.find(key); at != by_key_.end()) return at->second->value;
  while (entries_.size() >= capacity_) {
    drop(std::prev(entries_.end()), dropped);
    ++counts_.evictions;
  }
  entries_.push_front({std::string(key), std::move(value)});
  by_key_.emplace(entries_.front().key, entries_.begin());
  return entries_.front().value;
}

void Cache::clear() {
  Entries dropped;
  const std::lock_guard lock(mutex_);
  by_key_.clear();
  dropped.swap(entries_);
}

ops::CacheStatistics Cache::statistics() const {
  const std::lock_guard lock(mutex_);
  ops::CacheStatistics counts = counts_;
  counts.entries = static_cast<int>(entries_.size());
  return counts;
}

Engine::Parts::Parts(const Engine& engine)
    : forks(stretto::forks()),
      cache(static_cast<size_t>(engine.options_.capacity)),
      brief(1, std::numeric_limits<int>::max()),
      narrow(1, executor_limit(1)),
      wide(engine.target_.threads, executor_limit(engine.target_.threads)) {}

Engine::Engine(const ops::ContextOptions& options)
    : options_(options), target_(target_of(options)), parts_(new Parts(*this)) {}

Engine::~Engine() {
  Parts* parts = parts_.load();
  // In a child whose parent had a call under way, a lock may be locked for ever: it is leaked.
  if (parts->forks == forks()) delete parts;
}

Engine::Parts& Engine::parts() {
  Parts* parts = parts_.load(std::memory_order_acquire);
  if (parts->forks == forks()) return *parts;
  auto fresh = std::make_unique<Parts>(*this);
  if (parts_.compare_exchange_strong(parts, fresh.get())) return *fresh.release();
  return *parts;
}

std::shared_ptr<const Prepared> Engine::prepare(const Key& key, const DirectOperator& op,
                                                std::span<const Argument> arguments,
                                                const ir::Attributes& attributes, int outputs,
                                                int64_t opset) {
  Parts& p = parts();
  std::call_once(p.known_read, [&] {
    p.known = tune::TuningCache::shipped();
    p.known.merge(tune::load_tuning_cache(tune::tuning_cache_path(options_.tuning_cache)));
  });
  const Making making{.target = target_, .known = p.known};
  std::vector<Argument> own(arguments.begin(), arguments.end());
  key.own_values(own);
  auto prepared = direct::prepare(making, op, own, attributes, outputs, opset);
  if (key.bytes().size() > kMostKeyBytes) return prepared;
  return p.cache.add(key.bytes(), std::move(prepared));
}

void Engine::run(const Prepared& prepared, std::span<const void* const> inputs,
                 std::span<void* const> outputs) {
  Parts& p = parts();
  const bool narrow = prepared.program.target.threads == 1;
  LanePool& pool = prepared.brief ? p.brief : narrow ? p.narrow : p.wide;
  const LanePool::Lease lane(pool);
  onnx::with_operator(prepared.op->signature->op, [&] { (*lane).run(prepared, inputs, outputs); });
}

void Engine::clear() {
  Parts& p = parts();
  p.cache.clear();
  p.brief.clear();
  p.narrow.clear();
  p.wide.clear();
}

}  // namespace stretto::runtime::direct
