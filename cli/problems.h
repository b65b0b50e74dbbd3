// How a kernel family's problem is described by flags: one row per family, in problems.cc.
#pragma once

#include <cstddef>
#include <cstring>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "command.h"
#include "stretto/kernels/family.h"

namespace stretto::cli {

// A family's problem struct as bytes: what the erased kernel interface takes.
using ProblemBytes = std::vector<std::byte>;

struct ProblemKind {
  std::string_view family;
  // Adds flags; the returned function builds the problem once they are parsed. Throws
  // InvalidArgument.
  std::function<ProblemBytes(const kernels::Target&)> (*set_up)(Command& command);
};

std::span<const ProblemKind> problem_kinds();

template <typename P>
ProblemBytes problem_bytes(const P& problem) {
  ProblemBytes bytes(sizeof(P));
  std::memcpy(bytes.data(), &problem, sizeof(P));
  return bytes;
}

}  // namespace stretto::cli
