// A progress bar on standard error; nothing at all when that is not a terminal.
#pragma once

#include <functional>
#include <string_view>

namespace stretto::cli {

// For OptimizeOptions::progress. Draws at most about ten times a second.
std::function<void(std::string_view stage, double fraction)> progress_bar();

// Wipes the bar, so that the next line starts clean.
void end_progress();

}  // namespace stretto::cli
