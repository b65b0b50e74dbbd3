// What looks wrong on a machine, and what to do about it: one list of checks in checks.cc.
#pragma once

#include <string>
#include <vector>

#include "machine.h"

namespace stretto::cli {

struct Finding {
  std::string check;         // the row it comes from
  bool stops_work = false;   // otherwise it makes something slower, or some verb fails
  std::string problem, fix;  // a sentence each
};

std::vector<Finding> check_machine(const Machine& machine);

}  // namespace stretto::cli
