// What a pass is, and how it asks before every rewrite.
#pragma once

#include <functional>
#include <limits>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "stretto/ir/graph.h"
#include "stretto/passes/derived.h"
#include "stretto/passes/ragged.h"

namespace stretto::passes {

// One application of one rule.
struct Fired {
  std::string pass, rule, node;
};

class PassContext;

// A named rewrite of the graph. run() leaves nodes in topological order and every promise of
// ir::Graph kept, shapes and types of all values included; names, types and shapes of the graph's
// inputs and outputs never change. It is deterministic and asks the context before each rewrite.
struct Pass {
  std::string_view name, summary;
  std::span<const std::string_view> rules;
  void (*run)(ir::Graph&, PassContext&);
};

// Says whether a rule may fire, and remembers what did.
class PassContext {
 public:
  // `observe` is called with every application just before it happens.
  explicit PassContext(std::set<std::string> disabled = {},
                       int max_applications = std::numeric_limits<int>::max(),
                       std::function<void(const Fired&)> observe = {}, Derived* derived = nullptr)
      : disabled_(std::move(disabled)),
        left_(max_applications),
        observe_(std::move(observe)),
        derived_(derived) {}

  // Names the pass whose rules follow.
  void enter(const Pass& pass) { pass_ = &pass; }

  // Whether `rule` may rewrite `node` now; true counts and records it, so ask last and then do it.
  // Throws InternalError when the pass does not list the rule.
  bool allow(std::string_view rule, std::string_view node);

  // Large constants made of constants: what `make` returns, or what it returned for another graph
  // of the model (passes/derived.h, also about `recipe`).
  std::vector<Tensor> derive(const std::string& recipe, std::span<const Tensor> from,
                             const Derived::Make& make) {
    return derived_ == nullptr ? make() : derived_->get(recipe, from, make);
  }
  Tensor derive_one(const std::string& recipe, std::span<const Tensor> from,
                    const std::function<Tensor()>& make) {
    return derive(recipe, from, [&] { return std::vector<Tensor>{make()}; })[0];
  }

  // False where a rule must do without such a constant: it was not made for the sizes of a range
  // before, and would be packed anew.
  bool may_derive(const std::string& recipe, std::span<const Tensor> from) {
    return derived_ == nullptr || derived_->may_make(recipe, from);
  }

  // What `ragged` is to pack; null: nothing.
  Ragged* ragged() const { return ragged_; }
  void set_ragged(Ragged* ragged) { ragged_ = ragged; }

  const std::vector<Fired>& fired() const { return fired_; }
  size_t count() const { return fired_.size(); }

 private:
  std::set<std::string> disabled_;
  int left_;
  std::function<void(const Fired&)> observe_;
  Derived* derived_;
  Ragged* ragged_ = nullptr;
  const Pass* pass_ = nullptr;
  std::vector<Fired> fired_;
};

}  // namespace stretto::passes
