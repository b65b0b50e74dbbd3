// Standard error, and what to do where a standard stream is closed.
#pragma once

#include <string_view>

namespace stretto::cli {

// Writes to standard error. If that is not possible (it is closed, its disk is full), nobody can be
// told, so nothing happens.
void say(std::string_view text);

// Opens what stands for a closed standard stream and fails as that does. Otherwise the next file to
// be opened, an artefact perhaps, would be standard error.
void occupy_closed_streams();

}  // namespace stretto::cli
