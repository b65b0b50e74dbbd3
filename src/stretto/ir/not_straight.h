// The error that says: this is no straight-line program, because something depends on values that
// are known only when the model runs, or is no tensor. The runtime then runs the model in stages
// (docs/design/control_flow.md); for everybody else it is an Unsupported.
#pragma once

#include "stretto/base/error.h"

namespace stretto::ir {

class NotStraight : public Unsupported {
 public:
  using Unsupported::Unsupported;
};

template <typename... Args>
[[noreturn]] void throw_not_straight(fmt::format_string<Args...> format, Args&&... args) {
  throw NotStraight(fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace stretto::ir
