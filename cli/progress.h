// A progress bar on standard error where that is a terminal.
#pragma once

#include <functional>
#include <string_view>

#include "talk.h"

namespace stretto::cli {

// For OptimizeOptions::progress. Draws at most about ten times a second; nothing with -q. With -v,
// a line per stage instead, also where there is no terminal.
std::function<void(std::string_view stage, double fraction)> progress_bar(const Talk& talk = {});

// Wipes the bar, so that the next line starts clean.
void end_progress();

}  // namespace stretto::cli
