// Where the elements of a mask that are true lie when they stand one behind the other.
#pragma once

#include "stretto/kernels/family.h"

namespace stretto::kernels {

// Input: mask bool [batch, length]. Outputs, all int32, with 2147483647 where there is none: rows
// [rows], the index in the mask of its true elements in order, as many as find room; places [batch
// * length], which of them each element is; starts [batch + 1], how many come before each sample;
// positions and samples [rows], rows as two indices.
struct RowIndexProblem {
  Target target{};
  int64_t batch = 1, length = 1, rows = 1;
};

std::string problem_key(const RowIndexProblem& p);
Signature problem_signature(const RowIndexProblem& p);
double problem_flops(const RowIndexProblem& p);

extern const Family kRowIndex;

}  // namespace stretto::kernels
