#include "stretto/base/interrupt.h"

#include <algorithm>
#include <utility>

#include "stretto/base/clock.h"

namespace stretto {
namespace {

thread_local InterruptScope* t_scope = nullptr;

}  // namespace

InterruptScope::InterruptScope(std::function<void()> check, double interval_s)
    : check_(std::move(check)),
      outer_(t_scope),
      interval_s_(interval_s),
      next_s_(now_s() + interval_s) {
  if (check_) t_scope = this;
}

InterruptScope::~InterruptScope() { t_scope = outer_; }

void check_interrupt() {
  InterruptScope* scope = t_scope;
  if (scope == nullptr) return;
  scope->rethrow();
  const double now = now_s();
  if (now < scope->next_s_) return;
  scope->next_s_ = now + scope->interval_s_;
  try {
    scope->check_();
  } catch (...) {
    scope->thrown_ = std::current_exception();
    throw;
  }
}

void InterruptScope::rethrow() const {
  if (thrown_) std::rethrow_exception(thrown_);
}

}  // namespace stretto
