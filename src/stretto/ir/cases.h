// Test cases, drawn from one description per operator.
//
// Every operator has a description (a row of ir/cases/table.cc): a function that draws the
// attributes, then the inputs in the order of their ports, and nothing else. Everything drawn is a
// choice of one thing out of a short list, simplest first; a case *is* its list of choices. The
// generator makes the choices by hashing a counter, so that (operator, seed, number) always is the
// same case; the minimiser lowers them, and so halves dimensions, drops attributes and turns values
// into small whole numbers, while the operator's own shape rule keeps the case in one piece.
#pragma once

#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "stretto/ir/operator.h"

namespace stretto::ir {

// Inputs have at most this many elements.
constexpr int64_t kMaxCaseElements = 4200;

// What the elements of an input are like. All but kTame and kPositive now and then hold edge
// values: NaN, infinities, zeros of both signs, the ends of the integer range.
enum class Fill : uint8_t {
  kAny,       // floats and integers around zero
  kWide,      // floats far from zero too; for operators whose elements do not meet each other
  kTame,      // around zero, nothing special
  kPositive,  // 0.25 and above
};

// One node and what it is to be fed.
struct Case {
  std::vector<uint32_t> choices;  // empty when it was read from a text
  uint64_t key = 0;               // of the values
  Graph graph;                    // inferred
  std::vector<Tensor> inputs;     // in graph order; constants are in the graph
  bool wide = false;              // some input was drawn with Fill::kWide

  const Node& node() const { return graph.nodes[0]; }
};

class CaseDraw {
 public:
  // Replays `choices`, and goes on with zeros, or with the hashed counter while `random`.
  CaseDraw(const Operator& op, uint64_t key, std::vector<uint32_t> choices, bool random);

  // --- choices. The first of a list is the simplest.
  uint32_t choose(uint32_t count);  // in [0, count)
  bool maybe() { return choose(2) == 1; }
  bool rarely() { return choose(8) == 7; }
  template <typename T>
  T one_of(std::initializer_list<T> values) {
    return values.begin()[choose(static_cast<uint32_t>(values.size()))];
  }
  int64_t between(int64_t low, int64_t high);  // `low` is the simplest
  int64_t dim(int64_t most = 9);               // from 1 on; large ones are mostly odd ones
  int64_t batch();                             // 1 to 3, rarely 0
  // Together at most 1500; rarely with an empty axis.
  Shape shape(int64_t least_rank, int64_t most_rank, int64_t most_dim = 19);
  Shape partner(const Shape& shape);        // a shape that broadcasts to `shape`
  int64_t axis(int64_t rank);               // in [-rank, rank), 0 for a scalar
  std::vector<int64_t> axes(int64_t rank);  // some, each at most once, counted from either end
  std::vector<int64_t> permutation(int64_t rank);

  // --- attributes. Each returns the value drawn; the fallback means that the attribute is absent.
  int64_t integer(std::string_view name, int64_t fallback, std::initializer_list<int64_t> others);
  bool toggle(std::string_view name, bool fallback = false);  // an int, 0 or 1
  double number(std::string_view name, double fallback, std::initializer_list<double> others);
  std::string text(std::string_view name, std::string_view fallback,
                   std::initializer_list<std::string_view> others);
  std::vector<int64_t> integers(std::string_view name, int64_t count, int64_t fallback,
                                std::initializer_list<int64_t> others);
  int64_t axis_attribute(std::string_view name, int64_t fallback, int64_t rank);
  void set(std::string_view name, Attribute value);
  const Attributes& attributes() const { return attributes_; }  // drawn so far

  // --- inputs, one per port. The type is any that the port allows, the same for ports of one type
  // variable; the next port's type is next_type().
  DType next_type();
  void input(Shape shape, Fill fill = Fill::kAny);  // known only when the graph runs
  void typed_input(DType dtype, Shape shape, Fill fill = Fill::kAny);  // of a type drawn before
  void weight(Shape shape, Fill fill = Fill::kAny);                    // a constant
  void either(Shape shape, Fill fill = Fill::kAny);                    // one or the other
  void index(Shape shape, int64_t size);  // integers in [-size, size), in [0, size) half the time
  void fixed(const std::vector<int64_t>& values);  // a constant of rank 1
  void fixed_scalar(double value);
  void fixed_numbers(Shape shape, const std::vector<double>& values);
  void absent();

  void outputs(int count) { outputs_ = count; }
  // Of output 0, as inference sees it with the inputs drawn so far; throws what that throws.
  Shape output_shape() const;

  Case finish() &&;  // throws what inference throws

 private:
  const Port& port() const;
  Tensor values(DType dtype, const Shape& shape, Fill fill);
  Graph graph() const;  // of what was drawn, not inferred
  void add_input(Tensor tensor, bool constant);
  uint64_t hash(uint64_t stream, uint64_t at) const;

  const Operator& op_;
  uint64_t key_;
  std::vector<uint32_t> replayed_, made_;
  bool random_;
  std::vector<std::pair<char, DType>> types_;
  std::vector<ValueId> ids_;
  Attributes attributes_;
  Case result_;
  int outputs_ = 1;
};

// Case `number` of an operator; nothing when inference refuses it.
std::optional<Case> draw_case(const Operator& op, uint64_t seed, uint64_t number);

// The first `count` cases that are not refused, fewer when most are.
std::vector<Case> draw_cases(const Operator& op, uint64_t seed, int count);

// The simplest case found, by lowering choices, for which `fails` still says yes. Calls it a few
// hundred times at most; it must not throw.
Case minimised(const Case& failing, const std::function<bool(const Case&)>& fails);

// The text form of a case and back: the graph, with a constant "NAME.fed" for every input NAME.
std::string case_text(const Case& c);
Case parse_case(std::string_view text);

}  // namespace stretto::ir
