#include "stretto/passes/pass.h"

#include <algorithm>

#include "stretto/base/error.h"
#include "stretto/base/interrupt.h"

namespace stretto::passes {

bool PassContext::allow(std::string_view rule, std::string_view node) {
  check_interrupt();
  STRETTO_CHECK(pass_ != nullptr, "rule {} outside of a pass", rule);
  STRETTO_CHECK(std::find(pass_->rules.begin(), pass_->rules.end(), rule) != pass_->rules.end(),
                "pass {} does not list rule {}", pass_->name, rule);
  if (left_ <= 0 || disabled_.contains(std::string(rule)) ||
      disabled_.contains(std::string(pass_->name))) {
    return false;
  }
  --left_;
  fired_.push_back({std::string(pass_->name), std::string(rule), std::string(node)});
  if (observe_) observe_(fired_.back());
  return true;
}

}  // namespace stretto::passes
