// Operators that run faster in another form when they are called one by one.
#pragma once

#include <string_view>

#include "stretto/import/onnx/upgrade.h"

namespace stretto::runtime::direct {

// For NodeRequest::form; null when there is none.
using Form = void (*)(onnx::PendingNode&);
Form find_form(std::string_view op);

}  // namespace stretto::runtime::direct
