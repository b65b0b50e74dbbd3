// What an equation of Einsum says about the axes of its operands.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "stretto/tensor/shape.h"

namespace stretto::ir::ops {

// Axis labels: letters, or '0', '1', ... for the axes of the ellipsis, counted from the right.
struct EinsumPlan {
  std::vector<std::string> terms;  // by input: the label of every axis
  std::string output, summed;
  std::map<char, int64_t> size;  // by label; an operand's own may be 1 where this is not
};

// Throws InvalidArgument where the equation is wrong or does not fit the operands' shapes.
EinsumPlan plan_einsum(const std::string& equation, const std::vector<Shape>& shapes);

}  // namespace stretto::ir::ops
