// For tests over drawn cases: which ones, and how many.
#pragma once

#include <cstdint>
#include <cstdlib>

namespace stretto::ir {

struct CaseOptions {
  uint64_t seed = 1;
  int count = 0;  // per operator
};

// STRETTO_CASE_SEED and STRETTO_CASE_COUNT look further than the fixed cases that every run checks.
inline CaseOptions case_options(int count) {
  CaseOptions options{.count = count};
  if (const char* seed = std::getenv("STRETTO_CASE_SEED")) {
    options.seed = std::strtoull(seed, nullptr, 10);
  }
  if (const char* wanted = std::getenv("STRETTO_CASE_COUNT")) options.count = std::atoi(wanted);
  return options;
}

}  // namespace stretto::ir
