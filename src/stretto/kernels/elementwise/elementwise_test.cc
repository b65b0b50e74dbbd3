#include "stretto/kernels/elementwise/problem.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>

#include "stretto/kernels/elementwise/doubles.h"
#include "stretto/kernels/elementwise/integers.h"
#include "stretto/kernels/row_check.h"

namespace stretto::kernels {
namespace {

// A handful of roundings and the exponential's 4 ulp, relative to the largest output.
constexpr double kTolerance = 3e-6;

ElementwiseProblem plain(const Shape& output, const std::vector<Shape>& inputs, int threads = 1) {
  const std::vector<DType> dtypes(inputs.size(), DType::kFloat32);
  return elementwise_problem({.threads = threads}, output, inputs, dtypes);
}

TEST(Elementwise, EveryOperator) {
  for (const ElementRow& row : element_rows()) {
    const ElementOp op = row.op;
    for (int64_t count : {1, 15, 16, 1025}) {
      ElementwiseProblem p = plain({count}, {{count}, {count}, {count}}, 2);
      append(p, {op, 0, 1, 2, 0.25f, 0.75f});
      EXPECT_GT(check_rows(kElementwise, p, kTolerance), 0);
      for (float factor : {30.0f, 1e-3f}) {
        check_rows(kElementwise, p, kTolerance, [&](Workbench& b) {
          for (int k = 0; k < 3; ++k) {
            for (float& x : b.input(k)) x *= factor;
          }
        });
      }
      check_rows(kElementwise, p, kTolerance, [&](Workbench& b) {
        sprinkle_specials(b, 0);
        sprinkle_specials(b, 1);
        for (size_t k = 0; k < b.input(0).size(); k += 5) b.input(0)[k] = 0;
      });
    }
  }
}

TEST(Elementwise, PowersOfAllKinds) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> numbers{0,     -0.0f,     1,         -1,         2,      -2,
                                   0.5f,  -0.5f,     3,         -3,         1e-3f,  10000,
                                   2.5f,  -2.5f,     100,       1e30f,      1e-40f, -7,
                                   0.99f, 1.01f,     2047,      16777217.f, 88.9f,  3.4028235e38f,
                                   kNan,  kInfinity, -kInfinity};
  const auto count = static_cast<int64_t>(numbers.size());
  int checked = 0;
  for (int64_t last : {count, count - 3}) {  // all finite without the last, as vectors need it
    ElementwiseProblem p = plain({last, last, 8}, {{last, 1, 1}, {1, last, 1}});
    append(p, {ElementOp::kPow, 0, 1});
    for (Isa isa : usable_isas()) {
      p.target.isa = isa;
      Workbench bench(kElementwise, &p);
      bench.unalign_inputs();
      for (int i : {0, 1}) std::copy_n(numbers.begin(), last, bench.input(i).begin());
      for (int row = 0; row < kElementwise.rows; ++row) {
        if (row == kElementwise.reference || !kElementwise.fits(row, &p).ok) continue;
        ++checked;
        bench.run(row);
        const std::span<const float> y = bench.output(0);
        for (int64_t i = 0; i < last * last * 8; ++i) {
          const float x = numbers[i / 8 / last], power = numbers[i / 8 % last];
          const auto expected = static_cast<float>(std::pow(double{x}, double{power}));
          const bool same = std::isnan(expected)
                                ? std::isnan(y[i])
                                : std::signbit(y[i]) == std::signbit(expected) &&
                                      (y[i] == expected || std::fabs(y[i] / expected - 1) < 3e-7f);
          ASSERT_TRUE(same) << x << " to the power of " << power << " is " << expected << ", got "
                            << y[i] << " from " << kElementwise.row_name(row);
        }
      }
    }
  }
  EXPECT_GE(checked, 2);
}

// Quotients next to whole numbers, of both signs, and those too large for a vector.
TEST(Elementwise, RemaindersOfFloatsAreExact) {
  std::mt19937 random(5);
  int checked = 0;
  for (const double largest : {3.0, 1e5, 1e12}) {
    ElementwiseProblem p = plain({4000}, {{4000}, {4000}});
    append(p, {ElementOp::kFmod, 0, 1});
    for (Isa isa : usable_isas()) {
      p.target.isa = isa;
      Workbench bench(kElementwise, &p);
      bench.unalign_inputs();
      std::uniform_real_distribution<double> any(-1, 1);
      for (size_t i = 0; i < 4000; ++i) {
        const double b = any(random), whole = std::nearbyint(largest * any(random));
        bench.input(1)[i] = static_cast<float>(b);
        bench.input(0)[i] = static_cast<float>(i % 2 == 0 ? whole * b : largest * any(random));
      }
      for (int row = 0; row < kElementwise.rows; ++row) {
        if (row == kElementwise.reference || !kElementwise.fits(row, &p).ok) continue;
        ++checked;
        bench.run(row);
        for (size_t i = 0; i < 4000; ++i) {
          const float a = bench.input(0)[i], b = bench.input(1)[i], rest = std::fmod(a, b);
          ASSERT_EQ(std::memcmp(&rest, &bench.output(0)[i], sizeof(rest)), 0)
              << a << " mod " << b << " is " << rest << ", got " << bench.output(0)[i];
        }
      }
    }
  }
  EXPECT_GT(checked, 0);
}

// Every pair of these, in vectors of all sizes: what compares, tests and chooses does not round.
TEST(Elementwise, TruthOfSpecialFloatsIsExact) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  constexpr float kTiny = std::numeric_limits<float>::denorm_min();
  constexpr float kValues[] = {0, -0.0f, 1, -1, kTiny, -kTiny, kInf, -kInf, NAN, 3.0e38f, 0.1f};
  constexpr auto kCount = static_cast<int64_t>(std::size(kValues));
  for (const ElementRow& row : element_rows()) {
    if (!row.truth && row.op != ElementOp::kWhere) continue;
    for (const DType output : {DType::kBool, DType::kFloat32}) {
      ElementwiseProblem p = plain({kCount, kCount}, {{kCount, 1}, {1, kCount}, {1, kCount}}, 2);
      p.output = output;
      append(p, {row.op, 0, 1, 0});
      for (Isa isa : usable_isas()) {
        p.target.isa = isa;
        const int checked = check_rows(kElementwise, p, 0, [&](Workbench& bench) {
          for (int i = 0; i < 3; ++i) {
            std::copy(std::begin(kValues), std::end(kValues), bench.input(i).begin());
          }
        });
        EXPECT_GT(checked, 0) << row.name;
      }
    }
  }
}

// One element after the other by the functions of tensor/dtype.h, for every row that fits.
void check_cast(DType from, DType to, const void* data, int64_t count, const auto& is_right) {
  ElementwiseProblem p =
      elementwise_problem({.threads = 2}, Shape{count}, std::vector<Shape>{{count}}, {{from}});
  p.output = to;
  append(p, {ElementOp::kCopy, 0});
  int checked = 0;
  for (Isa isa : usable_isas()) {
    p.target.isa = isa;
    Workbench bench(kElementwise, &p);
    bench.unalign_inputs();
    std::memcpy(bench.input(0).data(), data, static_cast<size_t>(count) * dtype_bytes(from));
    for (int row = 0; row < kElementwise.rows; ++row) {
      if (!kElementwise.fits(row, &p).ok) continue;
      checked += row != kElementwise.reference;
      bench.run(row);
      for (int64_t i = 0; i < count; ++i) {
        ASSERT_TRUE(is_right(bench.output(0).data(), i))
            << dtype_name(from) << " to " << dtype_name(to) << ", element " << i << " by "
            << kElementwise.row_name(row);
      }
    }
  }
  EXPECT_GT(checked, 0);
}

uint32_t bits_of(float x) {
  uint32_t bits;
  std::memcpy(&bits, &x, sizeof(bits));
  return bits;
}

TEST(Elementwise, CastsOf16BitFloatsAreExact) {
  for (const DType half : {DType::kFloat16, DType::kBFloat16}) {
    const bool brain = half == DType::kBFloat16;
    const auto widened = [&](uint16_t bits) {
      return brain ? bfloat16_to_float(bits) : half_to_float(bits);
    };
    std::vector<uint16_t> halves(65536 + 3);
    for (size_t i = 0; i < halves.size(); ++i) halves[i] = static_cast<uint16_t>(i);
    check_cast(half, DType::kFloat32, halves.data(), std::ssize(halves),
               [&](const void* y, int64_t i) {
                 const float got = static_cast<const float*>(y)[i], expected = widened(halves[i]);
                 return std::isnan(expected) ? std::isnan(got) : bits_of(got) == bits_of(expected);
               });
    // Every value, its neighbours, the ties above it and theirs, and any bits (seed 3).
    std::vector<float> floats;
    const uint32_t tie = brain ? 0x8000 : 0x1000;
    for (uint16_t bits : halves) {
      for (const uint32_t step : {0u, 1u, ~0u, tie - 1, tie, tie + 1}) {
        const uint32_t near = bits_of(widened(bits)) + step;
        std::memcpy(&floats.emplace_back(), &near, sizeof(near));
      }
    }
    std::mt19937 random(3);
    for (int i = 0; i < 200001; ++i) {
      const auto any = static_cast<uint32_t>(random());
      std::memcpy(&floats.emplace_back(), &any, sizeof(any));
    }
    check_cast(DType::kFloat32, half, floats.data(), std::ssize(floats),
               [&](const void* y, int64_t i) {
                 const uint16_t got = static_cast<const uint16_t*>(y)[i];
                 if (std::isnan(floats[i])) return std::isnan(widened(got));
                 return got == (brain ? float_to_bfloat16(floats[i]) : float_to_half(floats[i]));
               });
    const std::vector<int32_t> whole{-7, 0, 1, 2049, 65519, 65520, 1 << 30};
    check_cast(DType::kInt32, half, whole.data(), std::ssize(whole), [&](const void* y, int64_t i) {
      const auto x = static_cast<float>(whole[i]);
      return static_cast<const uint16_t*>(y)[i] ==
             (brain ? float_to_bfloat16(x) : float_to_half(x));
    });
    check_cast(half, DType::kBool, halves.data(), std::ssize(halves),
               [&](const void* y, int64_t i) {
                 return static_cast<const uint8_t*>(y)[i] == (widened(halves[i]) != 0);
               });
  }
}

TEST(Elementwise, BroadcastsMergeAndAgree) {
  EXPECT_EQ(plain({2, 3, 4, 5}, {{2, 3, 4, 5}, {2, 3, 4, 5}}).rank, 1);
  EXPECT_EQ(plain({2, 3, 4, 5}, {{2, 3, 4, 5}, {3, 1, 1}}).rank, 3);
  EXPECT_EQ(plain({}, {{}}).elements(), 1);
  EXPECT_THROW(plain({2, 3}, {{2}}), InvalidArgument);
  const std::vector<std::pair<Shape, std::vector<Shape>>> cases{
      {{2, 12, 7, 7}, {{2, 12, 7, 7}, {12, 1, 1}}},
      {{2, 12, 7, 7}, {{2, 12, 1, 1}, {2, 12, 7, 7}}},
      {{3, 5, 2000}, {{3, 5, 2000}, {5, 1}, {2000}}},
      {{4, 1500}, {{4, 1}, {1, 1500}}},
      {{6, 3}, {{6, 1}, {3}}},
      {{3, 2, 3, 2, 3, 2}, {{3, 1, 3, 1, 3, 1}, {1, 2, 1, 2, 1, 2}}},
      {{100, 1}, {{100, 1}, {1}}},
      {{0, 4}, {{0, 4}, {4}}},
      {{5, 0}, {{5, 0}, {5, 1}}},
      {{17}, {{1}, {17}}}};
  for (int threads : {1, 2, 3}) {
    for (const auto& [output, inputs] : cases) {
      ElementwiseProblem p = plain(output, inputs, threads);
      uint8_t v = append(p, {ElementOp::kSub, 0, 1});
      for (int i = 2; i < p.inputs; ++i) {
        v = append(p, {ElementOp::kMul, v, static_cast<uint8_t>(i)});
      }
      append(p, {ElementOp::kSigmoid, v});
      EXPECT_GT(check_rows(kElementwise, p, kTolerance), 0);
    }
  }
}

TEST(Elementwise, Blocked) {
  for (int threads : {1, 2, 3}) {
    for (int64_t c : {1, 8, 16, 19, 40}) {
      for (int64_t size : {1, 3, 14}) {
        const Shape y{2, c, size, size};
        for (const Shape& other : {y, Shape{2, c, 1, 1}, Shape{1, c, 1, 1}, Shape{1, 1, 1, 1}}) {
          ElementwiseProblem p =
              blocked_elementwise_problem({.threads = threads}, y, std::vector<Shape>{y, other});
          const uint8_t product = append(p, {ElementOp::kMul, 0, 1});
          const uint8_t one = append(p, {ElementOp::kConstant, 0, 0, 0, 1.0f});
          append(p, {ElementOp::kAdd, product, one});
          append(p, {ElementOp::kRelu, static_cast<uint8_t>(p.inputs + 2)});
          EXPECT_GT(check_rows(kElementwise, p, kTolerance), 0);
        }
      }
    }
  }
}

TEST(Elementwise, RandomPrograms) {
  constexpr ElementOp kSmooth[] = {ElementOp::kAdd,     ElementOp::kSub,  ElementOp::kMul,
                                   ElementOp::kMax,     ElementOp::kTanh, ElementOp::kSigmoid,
                                   ElementOp::kSilu,    ElementOp::kNeg,  ElementOp::kMin,
                                   ElementOp::kConstant};
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937_64 random(seed);
    ElementwiseProblem p = plain({3, 7, 150}, {{3, 7, 150}, {7, 1}, {150}, {3, 1, 1}}, 2);
    const int length = 1 + static_cast<int>(random() % 32);
    for (int i = 0; i < length; ++i) {
      const auto value = [&] { return static_cast<uint8_t>(random() % (p.inputs + i)); };
      const uint8_t a = value(), b = value();
      append(p, {kSmooth[random() % std::size(kSmooth)], a, b, 0, 0.5f});
      if (i % 3 == 2) p.program[i].op = ElementOp::kTanh;  // keeps sums of sums bounded
    }
    EXPECT_GT(check_rows(kElementwise, p, 3e-5), 0);  // roundings of up to 32 steps add up
  }
}

TEST(Elementwise, TypedInputsAndOutputs) {
  for (DType output : {DType::kFloat32, DType::kBool, DType::kInt64, DType::kInt32}) {
    for (const Shape& mask : {Shape{5, 300}, Shape{5, 1}, Shape{300}, Shape{}}) {
      const std::vector<Shape> shapes{mask, {5, 300}, {5, 300}};
      for (DType compute : {DType::kFloat32, DType::kInt64}) {
        for (DType other : {DType::kInt64, DType::kInt32, DType::kBool}) {
          const std::vector<DType> dtypes{DType::kBool, other, DType::kInt64};
          ElementwiseProblem p = elementwise_problem({.threads = 2}, Shape{5, 300}, shapes, dtypes);
          p.output = output;
          p.compute = compute;
          const uint8_t same = append(p, {ElementOp::kEqual, 1, 2});
          const uint8_t both = append(p, {ElementOp::kAnd, same, 0});
          const uint8_t picked = append(p, {ElementOp::kWhere, both, 1, 2});
          append(p, {ElementOp::kMul, picked, 2});
          const int checked = check_rows(kElementwise, p, 0);  // small integers are exact
          const bool one_type = other != DType::kInt32 && output != DType::kFloat32;
          EXPECT_EQ(checked > 0, compute == DType::kFloat32 || one_type);
        }
      }
    }
  }
}

constexpr DType kIntegerTypes[] = {DType::kInt8,  DType::kInt16,  DType::kInt32,  DType::kInt64,
                                   DType::kUInt8, DType::kUInt16, DType::kUInt32, DType::kUInt64};

// Random bits, and among them zeros, ones and the ends of the range.
void fill_integers(Workbench& bench, int i, DType dtype, int64_t count) {
  auto* bytes = reinterpret_cast<uint8_t*>(bench.input(i).data());
  const size_t width = dtype_bytes(dtype);
  std::mt19937_64 random(static_cast<uint64_t>(i) + 5);
  for (int64_t at = 0; at < count; ++at) {
    const uint64_t low = random(), top = uint64_t{1} << (8 * width - 1);
    const uint64_t edges[] = {low, 0, 1, ~uint64_t{0}, top, top - 1, low % 5, low % 5};
    const uint64_t value = edges[random() % std::size(edges)];
    std::memcpy(bytes + static_cast<size_t>(at) * width, &value, width);
  }
}

TEST(Elementwise, IntegersOfEveryType) {
#define STRETTO_NAME(name) ElementOp::k##name,
  constexpr ElementOp kOps[] = {STRETTO_INTEGER_OPERATIONS(STRETTO_NAME)};
#undef STRETTO_NAME
  const std::vector<std::vector<Shape>> forms{{{1, 7}, {1, 7}, {1, 7}},
                                              {{3, 1100}, {3, 1100}, {3, 1100}},
                                              {{3, 1100}, {1, 1100}, {3, 1}},
                                              {{1, 1}, {5, 90}, {1, 90}},
                                              {{5, 1}, {1, 1}, {5, 90}}};
  for (const DType dtype : kIntegerTypes) {
    for (const ElementOp op : kOps) {
      for (const auto& shapes : forms) {
        const Shape y{shapes[0][0] == 1 ? shapes[1][0] : shapes[0][0],
                      std::max({shapes[0][1], shapes[1][1], shapes[2][1]})};
        for (const DType output : {dtype, DType::kBool}) {
          const std::vector<DType> dtypes(3, dtype);
          ElementwiseProblem p = elementwise_problem({}, y, shapes, dtypes);
          p.output = output;
          p.compute = dtype;
          append(p, {op, 0, 1, 2, op == ElementOp::kConstant ? 3.0f : 0});
          const int checked = check_rows(kElementwise, p, 0, [&](Workbench& bench) {
            for (int i = 0; i < 3; ++i) {
              const auto& shape = shapes[static_cast<size_t>(i)];
              fill_integers(bench, i, dtype, shape[0] * shape[1]);
            }
          });
          EXPECT_GT(checked, 0);
        }
      }
    }
  }
}

TEST(Elementwise, BitsAndRemaindersOfIntegers) {
  constexpr Instruction kForms[] = {{ElementOp::kAnd, 0, 1, 0, Instruction::kEachBit},
                                    {ElementOp::kOr, 0, 1, 0, Instruction::kEachBit},
                                    {ElementOp::kXor, 0, 1, 0, Instruction::kEachBit},
                                    {ElementOp::kNot, 0, 0, 0, Instruction::kEachBit},
                                    {ElementOp::kDiv, 0, 1, 0, Instruction::kRestOfA},
                                    {ElementOp::kDiv, 0, 1, 0, Instruction::kRestOfB}};
  for (const DType dtype : kIntegerTypes) {
    for (const Instruction& form : kForms) {
      ElementwiseProblem p = elementwise_problem({}, Shape{1100}, std::vector<Shape>(2, {1100}),
                                                 std::vector<DType>(2, dtype));
      p.output = p.compute = dtype;
      append(p, form);
      EXPECT_GT(check_rows(kElementwise, p, 0,
                           [&](Workbench& bench) {
                             for (int i = 0; i < 2; ++i) fill_integers(bench, i, dtype, 1100);
                           }),
                0);
    }
  }
}

// The condition of Where is bool whatever the others are.
TEST(Elementwise, IntegersBesideBool) {
  for (const DType dtype : kIntegerTypes) {
    for (const Shape& mask : {Shape{4, 700}, Shape{4, 1}, Shape{1, 700}}) {
      const std::vector<Shape> shapes{mask, {4, 700}, {1, 700}};
      const std::vector<DType> dtypes{DType::kBool, dtype, dtype};
      ElementwiseProblem p = elementwise_problem({.threads = 2}, Shape{4, 700}, shapes, dtypes);
      p.output = p.compute = dtype;
      append(p, {ElementOp::kWhere, 0, 1, 2});
      EXPECT_GT(check_rows(kElementwise, p, 0), 0);
    }
  }
}

TEST(Elementwise, CastsBetweenIntegers) {
  std::vector<DType> types(std::begin(kIntegerTypes), std::end(kIntegerTypes));
  types.push_back(DType::kBool);
  for (const DType from : types) {
    for (const DType to : types) {
      ElementwiseProblem p = elementwise_problem({.threads = 2}, Shape{1500},
                                                 std::vector<Shape>{{1500}}, std::vector{from});
      p.output = to;
      p.compute = from == DType::kBool ? DType::kUInt8 : from;
      append(p, {to == DType::kBool ? ElementOp::kToBool : ElementOp::kCopy, 0});
      EXPECT_GT(check_rows(kElementwise, p, 0,
                           [&](Workbench& bench) {
                             if (from != DType::kBool) fill_integers(bench, 0, from, 1500);
                           }),
                0);
    }
  }
}

TEST(Elementwise, ComparisonsAndChoicesOfDoubles) {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  constexpr double kNear = 1 + 1e-12;  // as float32 it is 1
  constexpr double kValues[] = {0, -0.0, 1, kNear, -1, 5e-324, kInf, -kInf, NAN, 1e300, 1e17 + 16};
  const std::vector<std::vector<Shape>> forms{
      {{1, 7}, {1, 7}, {1, 7}}, {{3, 1100}, {3, 1100}, {3, 1100}}, {{3, 1}, {1, 1100}, {3, 1100}}};
  for (const ElementRow& row : element_rows()) {
    if (!elementwise::has_doubles(row.op)) continue;
    for (const auto& shapes : forms) {
      for (const DType output : {DType::kFloat64, DType::kBool}) {
        for (const DType first : {DType::kFloat64, DType::kBool}) {
          const std::vector<DType> dtypes{first, DType::kFloat64, DType::kFloat64};
          ElementwiseProblem p = elementwise_problem({.threads = 2}, shapes[2], shapes, dtypes);
          p.output = output;
          p.compute = DType::kFloat64;
          append(p, {row.op, 0, 1, 2, row.op == ElementOp::kConstant ? 3.0f : 0});
          std::mt19937 random(7);
          const int checked = check_rows(kElementwise, p, 0, [&](Workbench& bench) {
            for (int i = first == DType::kBool ? 1 : 0; i < 3; ++i) {
              auto* x = reinterpret_cast<double*>(bench.input(i).data());
              const int64_t count = element_count(shapes[static_cast<size_t>(i)]);
              for (int64_t k = 0; k < count; ++k) x[k] = kValues[random() % std::size(kValues)];
            }
          });
          EXPECT_GT(checked, 0) << row.name;
        }
      }
    }
  }
}

// From every type to float32 and back: numbers that both hold. The reference goes through double,
// and so rounds 64 bits twice.
TEST(Elementwise, CastsToAndFromFloats) {
  constexpr double kTwice = 1.2e-7;
  std::vector<DType> types(std::begin(kIntegerTypes), std::end(kIntegerTypes));
  types.push_back(DType::kBool);
  for (const DType dtype : types) {
    for (const bool to_float : {true, false}) {
      const std::vector<DType> from{to_float ? dtype : DType::kFloat32};
      ElementwiseProblem p =
          elementwise_problem({.threads = 2}, Shape{1500}, std::vector<Shape>{{1500}}, from);
      p.output = to_float ? DType::kFloat32 : dtype;
      append(p, {ElementOp::kCopy, 0});
      EXPECT_GT(check_rows(kElementwise, p, kTwice,
                           [&](Workbench& bench) {
                             for (float& x : bench.input(0).first(to_float ? 0 : 1500)) x *= 100;
                           }),
                0);
    }
  }
}

}  // namespace
}  // namespace stretto::kernels
