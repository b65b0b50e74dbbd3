#include "stretto/ir/cases.h"

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>

#include "stretto/base/error.h"
#include "stretto/ir/cases/table.h"
#include "stretto/ir/text.h"

namespace stretto::ir {
namespace {

// Small ones, then the neighbours of vector widths and register tiles.
constexpr int64_t kDims[] = {1, 2, 3, 4, 5, 7, 8, 9, 11, 13, 15, 16, 17, 19, 31, 33};

constexpr double kEdges[] = {std::numeric_limits<double>::quiet_NaN(),
                             std::numeric_limits<double>::infinity(),
                             -std::numeric_limits<double>::infinity(),
                             0.0,
                             -0.0,
                             1.0,
                             -1.0,
                             0.5,
                             -0.5,
                             1.5,
                             -2.5,
                             3.0,
                             -3.0,
                             6.0};
// Where exponentials overflow, vanish or leave a polynomial's range.
constexpr double kFar[] = {10, -10, 20.5, -20.5, 87.5, -87.5, 89, -89, 104, -104, 1e4, -1e4, 1e-20};

// Steele, Lea and Flood's SplitMix64 finaliser (2014).
uint64_t mixed(uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

uint64_t key_of(std::string_view op, uint64_t seed, uint64_t number) {
  uint64_t key = mixed(seed);
  for (const char letter : op) key = mixed(key ^ static_cast<unsigned char>(letter));
  return mixed(key ^ number);
}

std::pair<int64_t, int64_t> integer_range(DType dtype) {
  const auto bits = static_cast<int>(dtype_bytes(dtype)) * 8;
  const bool is_signed = dtype == DType::kInt8 || dtype == DType::kInt16 ||
                         dtype == DType::kInt32 || dtype == DType::kInt64;
  if (is_signed) {
    const int64_t least = -(int64_t{1} << (bits - 2)) * 2;
    return {least, -(least + 1)};
  }
  // The upper half of uint64 is left out: int64 is what values pass through.
  return {0, bits == 64 ? std::numeric_limits<int64_t>::max() : (int64_t{1} << bits) - 1};
}

// Lists of float types, float32 first, for choosing.
std::vector<DType> types_in(TypeSet set) {
  std::vector<DType> types;
  for (int i = 1; i <= static_cast<int>(DType::kUInt2); ++i) {
    if ((set & (1u << i)) != 0) types.push_back(static_cast<DType>(i));
  }
  return types;
}

}  // namespace

CaseDraw::CaseDraw(const Operator& op, uint64_t key, std::vector<uint32_t> choices, bool random)
    : op_(op), key_(key), replayed_(std::move(choices)), random_(random) {}

uint64_t CaseDraw::hash(uint64_t stream, uint64_t at) const {
  return mixed(mixed(key_ + stream) ^ at);
}

uint32_t CaseDraw::choose(uint32_t count) {
  const size_t at = made_.size();
  uint32_t choice = 0;
  if (at < replayed_.size()) {
    choice = std::min(replayed_[at], count - 1);
  } else if (random_) {
    choice = static_cast<uint32_t>(hash(0, at) % count);
  }
  made_.push_back(choice);
  return choice;
}

int64_t CaseDraw::between(int64_t low, int64_t high) {
  return low + choose(static_cast<uint32_t>(high - low + 1));
}

int64_t CaseDraw::dim(int64_t most) {
  const auto end = std::upper_bound(std::begin(kDims), std::end(kDims), most);
  return kDims[choose(static_cast<uint32_t>(end - std::begin(kDims)))];
}

int64_t CaseDraw::batch() { return one_of<int64_t>({1, 1, 1, 1, 1, 2, 2, 3, 0}); }

Shape CaseDraw::shape(int64_t least_rank, int64_t most_rank, int64_t most_dim) {
  Shape shape(static_cast<size_t>(between(least_rank, most_rank)));
  int64_t room = 1500;
  for (int64_t& d : shape) {
    d = dim(std::min(most_dim, room));
    room /= d;
  }
  if (!shape.empty() && choose(16) == 15) {
    shape[choose(static_cast<uint32_t>(shape.size()))] = 0;
  }
  return shape;
}

Shape CaseDraw::partner(const Shape& shape) {
  const auto drop = static_cast<int64_t>(one_of({0, 0, 1, 2, 9}));
  Shape other(shape.begin() + std::min<int64_t>(drop, static_cast<int64_t>(shape.size())),
              shape.end());
  for (int64_t& d : other) {
    if (choose(3) == 2) d = 1;
  }
  return other;
}

int64_t CaseDraw::axis(int64_t rank) {
  if (rank == 0) return 0;
  const auto choice = static_cast<int64_t>(choose(static_cast<uint32_t>(2 * rank)));
  return choice < rank ? choice : choice - 2 * rank;
}

std::vector<int64_t> CaseDraw::axes(int64_t rank) {
  std::vector<int64_t> axes;
  for (int64_t axis : permutation(rank)) {
    if (maybe()) axes.push_back(maybe() ? axis - rank : axis);
  }
  return axes;
}

std::vector<int64_t> CaseDraw::permutation(int64_t rank) {
  std::vector<int64_t> order(static_cast<size_t>(rank));
  std::iota(order.begin(), order.end(), 0);
  for (size_t i = 0; i + 1 < order.size(); ++i) {
    std::swap(order[i], order[i + choose(static_cast<uint32_t>(order.size() - i))]);
  }
  return order;
}

int64_t CaseDraw::integer(std::string_view name, int64_t fallback,
                          std::initializer_list<int64_t> others) {
  const uint32_t choice = choose(static_cast<uint32_t>(others.size()) + 1);
  if (choice == 0) return fallback;
  set(name, others.begin()[choice - 1]);
  return others.begin()[choice - 1];
}

bool CaseDraw::toggle(std::string_view name, bool fallback) {
  const int64_t no = fallback ? 1 : 0;
  return integer(name, no, {1 - no, no}) != 0;
}

double CaseDraw::number(std::string_view name, double fallback,
                        std::initializer_list<double> others) {
  const uint32_t choice = choose(static_cast<uint32_t>(others.size()) + 1);
  if (choice == 0) return fallback;
  set(name, others.begin()[choice - 1]);
  return others.begin()[choice - 1];
}

std::string CaseDraw::text(std::string_view name, std::string_view fallback,
                           std::initializer_list<std::string_view> others) {
  const uint32_t choice = choose(static_cast<uint32_t>(others.size()) + 1);
  if (choice == 0) return std::string(fallback);
  set(name, std::string(others.begin()[choice - 1]));
  return std::string(others.begin()[choice - 1]);
}

std::vector<int64_t> CaseDraw::integers(std::string_view name, int64_t count, int64_t fallback,
                                        std::initializer_list<int64_t> others) {
  std::vector<int64_t> values(static_cast<size_t>(count), fallback);
  if (!maybe()) return values;
  for (int64_t& value : values) {
    const uint32_t choice = choose(static_cast<uint32_t>(others.size()) + 1);
    if (choice > 0) value = others.begin()[choice - 1];
  }
  set(name, values);
  return values;
}

int64_t CaseDraw::axis_attribute(std::string_view name, int64_t fallback, int64_t rank) {
  const auto choice = static_cast<int64_t>(choose(static_cast<uint32_t>(2 * rank + 1)));
  if (choice == 0) return fallback;
  const int64_t axis = choice <= rank ? choice - 1 : choice - 1 - 2 * rank;
  set(name, axis);
  return axis;
}

void CaseDraw::set(std::string_view name, Attribute value) {
  attributes_.set(std::string(name), std::move(value));
}

const Port& CaseDraw::port() const {
  STRETTO_CHECK(!op_.inputs.empty(), "{}: an input was drawn, the schema has none", op_.name);
  return op_.inputs[std::min(ids_.size(), op_.inputs.size() - 1)];
}

DType CaseDraw::next_type() {
  const Port& p = port();
  const std::vector<DType> types = types_in(p.types);
  if (p.type_variable == '\0') {
    const uint32_t choice = choose(2 * static_cast<uint32_t>(types.size()));
    return types[choice < types.size() ? 0 : choice - types.size()];
  }
  for (const auto& [variable, dtype] : types_) {
    if (variable == p.type_variable) return dtype;
  }
  const uint32_t choice = choose(3 * static_cast<uint32_t>(types.size()));
  const DType dtype = types[choice % 3 != 2 ? 0 : choice / 3];
  types_.emplace_back(p.type_variable, dtype);
  return dtype;
}

Tensor CaseDraw::values(DType dtype, const Shape& shape, Fill fill) {
  enum Kind : uint32_t { kSimple, kRandom, kMoreRandom, kEdgy };
  const bool special = fill == Fill::kAny || fill == Fill::kWide;
  const auto kind = static_cast<Kind>(choose(special ? 4 : 3));
  const uint64_t stream = 1 + ids_.size();
  const auto count = static_cast<size_t>(element_count(shape));
  result_.wide = result_.wide || (fill == Fill::kWide && kind == kEdgy);
  if (dtype == DType::kBool) {
    Tensor tensor(dtype, shape);
    bool* to = static_cast<bool*>(tensor.mutable_data());
    for (size_t i = 0; i < count; ++i) to[i] = hash(stream, i) % 2 == 0;
    return tensor;
  }
  if (is_integer(dtype)) {
    const auto [low, high] = integer_range(dtype);
    const std::array<int64_t, 6> edges = {low, high, low + 1, high - 1, 0, 1};
    std::vector<int64_t> to(count);
    for (size_t i = 0; i < count; ++i) {
      const uint64_t bits = hash(stream, i);
      to[i] = std::max<int64_t>(static_cast<int64_t>(kind == kSimple ? i % 5 : bits % 17) - 2, low);
      if (fill == Fill::kPositive) to[i] = 1 + static_cast<int64_t>(bits % 9);
      if (kind == kEdgy && bits >> 62 == 0) to[i] = edges[(bits >> 32) % edges.size()];
    }
    return Tensor::of<int64_t>(shape, to).converted(dtype);
  }
  std::vector<double> to(count);
  for (size_t i = 0; i < count; ++i) {
    const uint64_t bits = hash(stream, i);
    const double uniform = static_cast<double>(bits >> 40) * 0x1p-24;  // exact in float32
    to[i] = kind == kSimple ? static_cast<double>(i % 5) - 2 : 4 * uniform - 2;
    if (fill == Fill::kPositive) to[i] = kind == kSimple ? 1 : 2 * uniform + 0.25;
    if (kind == kEdgy && bits % 4 == 0) {
      const uint64_t pick = (bits >> 8) % 0xffff;
      to[i] = fill == Fill::kWide && pick % 2 == 0 ? kFar[pick / 2 % std::size(kFar)]
                                                   : kEdges[pick / 2 % std::size(kEdges)];
    }
  }
  return Tensor::of<double>(shape, to).converted(dtype);
}

void CaseDraw::add_input(Tensor tensor, bool constant) {
  if (tensor.count() > kMaxCaseElements) {
    throw_unsupported("case: an input of shape {} is too large", shape_text(tensor.shape()));
  }
  Graph& graph = result_.graph;
  if (constant) {
    ids_.push_back(graph.add_constant("c", std::move(tensor)));
    return;
  }
  ids_.push_back(graph.add_value("x", tensor.dtype(), tensor.shape()));
  graph.inputs.push_back(ids_.back());
  result_.inputs.push_back(std::move(tensor));
}

void CaseDraw::input(Shape shape, Fill fill) {
  const DType dtype = next_type();
  add_input(values(dtype, shape, fill), false);
}

void CaseDraw::typed_input(DType dtype, Shape shape, Fill fill) {
  add_input(values(dtype, shape, fill), false);
}

void CaseDraw::weight(Shape shape, Fill fill) {
  const DType dtype = next_type();
  add_input(values(dtype, shape, fill), true);
}

void CaseDraw::either(Shape shape, Fill fill) {
  const bool constant = maybe();
  const DType dtype = next_type();
  add_input(values(dtype, shape, fill), constant);
}

void CaseDraw::index(Shape shape, int64_t size) {
  const DType dtype = next_type();
  const bool negative = maybe(), constant = maybe();
  const uint64_t stream = 1 + ids_.size();
  std::vector<int64_t> at(static_cast<size_t>(element_count(shape)));
  for (size_t i = 0; i < at.size() && size > 0; ++i) {
    const auto span = static_cast<uint64_t>(negative ? 2 * size : size);
    at[i] = static_cast<int64_t>(hash(stream, i) % span) - (negative ? size : 0);
  }
  add_input(Tensor::of<int64_t>(shape, at).converted(dtype), constant);
}

void CaseDraw::fixed(const std::vector<int64_t>& values) {
  const DType dtype = next_type();
  add_input(Tensor::int64s(values).converted(dtype), true);
}

void CaseDraw::fixed_scalar(double value) { fixed_numbers({}, {value}); }

void CaseDraw::fixed_numbers(Shape shape, const std::vector<double>& values) {
  const DType dtype = next_type();
  add_input(Tensor::of<double>(std::move(shape), values).converted(dtype), true);
}

void CaseDraw::absent() {
  STRETTO_CHECK(port().arity == Arity::kOptional, "{}: input {} is not optional", op_.name,
                ids_.size());
  ids_.push_back(kNone);
}

Graph CaseDraw::graph() const {
  Graph graph = result_.graph;
  graph.name = "case";
  std::vector<ValueId> inputs = ids_, outputs;
  for (int i = 0; i < outputs_; ++i) outputs.push_back(graph.add_value("y"));
  while (!inputs.empty() && inputs.back() == kNone) inputs.pop_back();
  graph.add_node(op_.name, std::move(inputs), outputs, attributes_, "node");
  graph.outputs = outputs;
  return graph;
}

Shape CaseDraw::output_shape() const {
  Graph graph = this->graph();
  infer(graph);
  return *graph.value(graph.outputs[0]).shape;
}

Case CaseDraw::finish() && {
  result_.graph = graph();
  infer(result_.graph);
  result_.choices = std::move(made_);
  result_.key = key_;
  return std::move(result_);
}

namespace {

std::optional<Case> drawn(const Operator& op, uint64_t key, std::vector<uint32_t> choices,
                          bool random) {
  const auto rows = cases::rows();
  const auto row =
      std::find_if(rows.begin(), rows.end(), [&](const cases::Row& r) { return r.op == op.name; });
  STRETTO_CHECK(row != rows.end(), "{} has no row in ir/cases/table.cc", op.name);
  CaseDraw draw(op, key, std::move(choices), random);
  try {
    row->describe(draw);
    return std::move(draw).finish();
  } catch (const InvalidArgument&) {
    return std::nullopt;
  } catch (const Unsupported&) {
    return std::nullopt;
  }
}

}  // namespace

std::optional<Case> draw_case(const Operator& op, uint64_t seed, uint64_t number) {
  return drawn(op, key_of(op.name, seed, number), {}, true);
}

std::vector<Case> draw_cases(const Operator& op, uint64_t seed, int count) {
  std::vector<Case> cases;
  for (int number = 0; number < 4 * count && static_cast<int>(cases.size()) < count; ++number) {
    if (auto c = draw_case(op, seed, static_cast<uint64_t>(number))) cases.push_back(*std::move(c));
  }
  return cases;
}

Case minimised(const Case& failing, const std::function<bool(const Case&)>& fails) {
  Case best = failing;
  int left = 400;
  const auto try_choice = [&](size_t at, uint32_t choice) {
    if (left == 0 || choice >= best.choices[at]) return false;
    --left;
    std::vector<uint32_t> choices = best.choices;
    choices[at] = choice;
    auto simpler = drawn(*failing.node().op, failing.key, std::move(choices), false);
    if (!simpler || !fails(*simpler)) return false;
    best = *std::move(simpler);
    return true;
  };
  for (bool changed = true; changed && left > 0;) {
    changed = false;
    for (size_t at = 0; at < best.choices.size(); ++at) {
      const uint32_t choice = best.choices[at];
      changed = try_choice(at, 0) || try_choice(at, choice / 2) ||
                (choice > 0 && try_choice(at, choice - 1)) || changed;
    }
  }
  return best;
}

std::string case_text(const Case& c) {
  Graph graph = c.graph;
  for (size_t i = 0; i < c.inputs.size(); ++i) {
    graph.add_constant(graph.value(graph.inputs[i]).name + ".fed", c.inputs[i]);
  }
  return to_text(graph);
}

Case parse_case(std::string_view text) {
  Case c{.graph = parse_text(text)};
  for (ValueId input : c.graph.inputs) {
    const std::string name = c.graph.value(input).name + ".fed";
    const auto fed = std::find_if(c.graph.values.begin(), c.graph.values.end(),
                                  [&](const Value& value) { return value.name == name; });
    if (fed == c.graph.values.end()) throw_invalid("case: no constant {}", name);
    c.inputs.push_back(fed->constant);
  }
  remove_dead(c.graph);  // nothing uses what is fed
  return c;
}

}  // namespace stretto::ir
