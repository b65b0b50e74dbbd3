// The verbs that need the decoders of pictures; none of them where Stretto is built without.
#pragma once

#include <functional>
#include <span>

#include "verbs.h"

namespace stretto::cli {

std::span<const Verb> data_verbs();

std::function<int()> set_up_pack(Command& command, const Context& context);
std::function<int()> set_up_data(Command& command, const Context& context);
std::function<int()> set_up_unpack(Command& command, const Context& context);

}  // namespace stretto::cli
