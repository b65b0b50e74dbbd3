// A whole chain or DAG of elementwise operators as one pass over memory.
#pragma once

#include <span>

#include "stretto/kernels/family.h"
#include "stretto/tensor/elementwise.h"

namespace stretto::kernels {

// One step. Operands a, b, c name values: 0 .. inputs-1 are the inputs, inputs + i is the result of
// instruction i, which only later instructions may use. alpha and beta are the numbers of
// activations, alpha the value of Constant; of integers, And, Or, Xor and Not with kEachBit work
// bit by bit, and Div with kRestOfA or kRestOfB gives the remainder, whose sign is that of a or
// that of b.
struct Instruction {
  static constexpr float kEachBit = 1, kRestOfA = 1, kRestOfB = 2;

  ElementOp op = ElementOp::kCopy;
  uint8_t a = 0, b = 0, c = 0;
  float alpha = 0, beta = 0;
};

// The result of the last instruction is the output, of shape dims[0, rank). Input i is dense, of
// the output's shape with 1 in every dimension whose bit (1 << dimension) is set in
// input_broadcast[i]. Types: float32, float16, bfloat16, integers and bool, converted to `compute`
// on the way in and from it on the way out (floats to integers truncate, to 16-bit floats round to
// the nearest, ties to even; wider integers to narrower ones lose high bits, to bool compare with
// 0). compute is float32, or an integer type, whose arithmetic wraps around, or float64, for
// problems of which works_in_doubles() says so. layout kBlocked: rank
// 4, NCHW, float32; inputs that vary along C are blocked too, the others plain.
struct ElementwiseProblem {
  static constexpr int kMaxRank = 6, kMaxInputs = 8, kMaxInstructions = 32;

  Target target{};
  int64_t dims[kMaxRank] = {1, 1, 1, 1, 1, 1};
  int32_t rank = 1, inputs = 1, instructions = 0;
  DType output = DType::kFloat32, compute = DType::kFloat32;
  Layout layout = Layout::kPlain;
  uint8_t reserved = 0;
  uint8_t input_broadcast[kMaxInputs] = {};
  DType input_dtype[kMaxInputs] = {};
  Instruction program[kMaxInstructions] = {};

  int64_t elements() const;
};

// A problem of plain layout without instructions, its dimensions merged as far as the broadcasts
// allow. Throws InvalidArgument when an input does not broadcast to `output`, Unsupported when more
// than 8 inputs or 6 merged dimensions remain.
ElementwiseProblem elementwise_problem(const Target& target, std::span<const int64_t> output,
                                       std::span<const Shape> inputs,
                                       std::span<const DType> input_dtypes);
// The same in the blocked layout (rank 4, nothing merged).
ElementwiseProblem blocked_elementwise_problem(const Target& target,
                                               std::span<const int64_t> output,
                                               std::span<const Shape> inputs);
// Appends an instruction and returns the value it makes. Throws Unsupported beyond 32.
uint8_t append(ElementwiseProblem& p, const Instruction& instruction);

// Whether the operations and types of a problem are among those that are computed in float64:
// float64 and bool, and what compares and chooses.
bool works_in_doubles(const ElementwiseProblem& p);

std::string problem_key(const ElementwiseProblem& p);
Signature problem_signature(const ElementwiseProblem& p);
double problem_flops(const ElementwiseProblem& p);

extern const Family kElementwise;

}  // namespace stretto::kernels
