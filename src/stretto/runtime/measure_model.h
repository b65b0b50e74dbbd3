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

// Runs for about `budget_s` seconds, at least 5 times; small models for less.
ProgramTiming time_program(const Program& program, const std::vector<Tensor>& inputs,
                           double budget_s);

// Two programs of one model, as wholes.
struct Contest {
  double first_ms = 0, second_ms = 0;  // a fifth of the runs took less
  double ratio = 1;                    // median over all rounds of first / second
  int rounds = 0;
};

// In each round both run, in turns of either order, so that other work on the machine hits both.
// Takes about `budget_s` seconds, at least seven rounds.
Contest compare_programs(const Program& first, const Program& second,
                         const std::vector<Tensor>& inputs, double budget_s);

// Whether the first is faster, and not by chance.
bool first_wins(const Contest& contest);

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
