// The names of the forms that Candidate::pack() writes constants in.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace stretto::kernels {

// Everything that decides where pack() puts which value, but for the problem itself: the form's
// name, a version that goes up whenever pack() comes to write other bytes for the same problem, the
// lanes of a block, and the panels that the output channels or columns are cut into (0: none).
// "conv2d_direct.1.b16.p12". packing_test.cc fails when bytes change and the version does not.
std::string packing_text(std::string_view name, int version, int64_t block, int64_t panels = 0);

// What this program was compiled for: "x86_64", "aarch64". "portable" kernels of different
// architectures need not pack alike.
std::string_view architecture();

}  // namespace stretto::kernels
