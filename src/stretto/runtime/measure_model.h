// Timing whole programs, and comparing outputs.
#pragma once

#include <string>
#include <vector>

#include "stretto/runtime/program.h"

namespace stretto::runtime {

struct Latency {
  double median_ms = 0, p95_ms = 0, first_ms = 0;
  int runs = 0;
};

struct ProgramTiming {
  Latency latency;
  std::vector<double> instruction_ms;  // median over the runs, per instruction
};

// Runs for about `budget_s` seconds, at least 5 times.
ProgramTiming time_program(const Program& program, const std::vector<Tensor>& inputs,
                           double budget_s);

std::vector<Tensor> run_program(const Program& program, const std::vector<Tensor>& inputs);

// As tensor/compare.h defines it.
struct OutputError {
  std::string output;
  double relative_to_max = 0;
  double max_abs = 0;
  bool only_nan = false;  // nothing but NaN was expected
};

OutputError compare(const std::string& output, const Tensor& got, const Tensor& expected);

int64_t peak_resident_bytes();  // of this process so far

}  // namespace stretto::runtime
