// How a program is dealt to the threads of an executor (base/dealer.h).
#pragma once

#include <vector>

#include "stretto/runtime/program.h"

namespace stretto::runtime {

// An instruction, or one phase of its kernel.
struct DealtStep {
  int instruction = 0;
  int phase = 0;
  int units = 1;  // of each thread's share; 0: interpreted by the caller alone
};

// In the order in which they run. Results do not depend on the number of units.
std::vector<DealtStep> deal(const Program& program);

// What Dealer wants to know of them.
std::vector<int> units_of(const std::vector<DealtStep>& steps);

}  // namespace stretto::runtime
