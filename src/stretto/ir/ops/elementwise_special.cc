// Elementwise operators with a rule of their own: BitShift, Clip, IsInf, Mod, Pow, PRelu, Where.
#include "stretto/ir/ops/elementwise.h"
#include "stretto/ir/ops/table.h"

namespace stretto::ir::ops {
namespace {

constexpr Port kRealOutput[] = {{"Y", kRealTypes, Arity::kRequired, 'T'}};
constexpr Port kNumberOutput[] = {{"Y", kRealOrInteger, Arity::kRequired, 'T'}};
constexpr Port kAnyOutput[] = {{"Y", kAllTypes, Arity::kRequired, 'T'}};

constexpr Port kClipInputs[] = {{"input", kRealOrInteger, Arity::kRequired, 'T'},
                                {"min", kRealOrInteger, Arity::kOptional, 'T'},
                                {"max", kRealOrInteger, Arity::kOptional, 'T'}};

void infer_clip(Inference& c) {
  for (int i = 1; i < 3; ++i) {
    if (c.has_input(i) && element_count(c.shape(i)) != 1) {
      throw_invalid("{}: expected one value, got shape {}", kClipInputs[i].name,
                    shape_text(c.shape(i)));
    }
  }
  c.set_output(0, c.dtype(0), c.shape(0));
}

void evaluate_clip(Evaluation& c) {
  with_type<kRealOrInteger>(c.inputs[0].dtype(), [&]<typename T>() {
    const T* low = c.has_input(1) ? data_of<T>(c.inputs[1]) : nullptr;
    const T* high = c.has_input(2) ? data_of<T>(c.inputs[2]) : nullptr;
    map_unary<T, T>(c, [=](Computed<T> x) {
      if (low != nullptr && x < static_cast<Computed<T>>(*low)) x = static_cast<Computed<T>>(*low);
      if (high != nullptr && x > static_cast<Computed<T>>(*high))
        x = static_cast<Computed<T>>(*high);
      return x;
    });
  });
}

constexpr Port kShiftInputs[] = {{"X", kIntegerTypes, Arity::kRequired, 'T'},
                                 {"Y", kIntegerTypes, Arity::kRequired, 'T'}};
constexpr Port kShiftOutput[] = {{"Z", kIntegerTypes, Arity::kRequired, 'T'}};
constexpr AttributeSpec kShiftAttributes[] = {{"direction", AttributeKind::kString, true}};

bool shifts_left(const Attributes& attributes) {
  const std::string direction = attributes.text("direction", "");
  if (direction != "LEFT" && direction != "RIGHT") {
    throw_invalid("direction: expected LEFT or RIGHT, got {}", direction);
  }
  return direction == "LEFT";
}

void infer_shift(Inference& c) {
  shifts_left(c.attributes());
  infer_broadcast(c, c.dtype(0));
}

// To the right signed numbers keep their sign. Shifts by all bits and more (a negative number of
// them is such) leave nothing but the sign.
void evaluate_shift(Evaluation& c) {
  const bool left = shifts_left(c.attributes);
  with_type<kIntegerTypes>(c.inputs[0].dtype(), [&]<typename T>() {
    map_binary<T, T, T>(c, [left](T a, T b) -> T {
      constexpr uint64_t kBits = 8 * sizeof(T);
      const uint64_t by = wrapping(b);
      if (left) return by < kBits ? static_cast<T>(wrapping(a) << by) : T{0};
      if (by < kBits) return static_cast<T>(a >> by);
      return a < T{0} ? static_cast<T>(T{0} - T{1}) : T{0};
    });
  });
}

constexpr Port kIsInfInputs[] = {{"X", kRealTypes}};
constexpr Port kIsInfOutputs[] = {{"Y", kBoolType}};
constexpr AttributeSpec kIsInfAttributes[] = {{"detect_negative", AttributeKind::kInt},
                                              {"detect_positive", AttributeKind::kInt}};

void evaluate_is_inf(Evaluation& c) {
  const bool negative = c.attributes.integer("detect_negative", 1) != 0;
  const bool positive = c.attributes.integer("detect_positive", 1) != 0;
  with_type<kRealTypes>(c.inputs[0].dtype(), [&]<typename T>() {
    map_unary<T, bool>(c, [=](double x) { return std::isinf(x) && (x < 0 ? negative : positive); });
  });
}

constexpr Port kModInputs[] = {{"A", kRealOrInteger, Arity::kRequired, 'T'},
                               {"B", kRealOrInteger, Arity::kRequired, 'T'}};
constexpr AttributeSpec kModAttributes[] = {{"fmod", AttributeKind::kInt}};

// The remainder has the sign of the divisor, with fmod that of the dividend. x mod 0 has no meaning
// for integers and is 0 here.
void evaluate_mod(Evaluation& c) {
  const bool like_c = c.attributes.integer("fmod", 0) != 0;
  with_type<kRealOrInteger>(c.inputs[0].dtype(), [&]<typename T>() {
    map_binary<T, T, T>(c, [like_c](Computed<T> a, Computed<T> b) -> Computed<T> {
      if constexpr (std::is_floating_point_v<T>) {
        const double rest = std::fmod(a, b);
        if (like_c) return rest;
        if (rest == 0) return std::copysign(0.0, b);
        return (rest < 0) != (b < 0) ? rest + b : rest;
      } else {
        if (b == 0) return 0;
        if constexpr (std::is_signed_v<T>) {
          if (b == -1) return 0;
        }
        const auto rest = static_cast<T>(a % b);
        return !like_c && rest != 0 && (rest < 0) != (b < 0) ? static_cast<T>(rest + b) : rest;
      }
    });
  });
}

constexpr TypeSet kPowTypes = kRealTypes | kIndexTypes;
constexpr Port kPowInputs[] = {{"X", kPowTypes, Arity::kRequired, 'T'}, {"Y", kRealOrInteger}};
constexpr Port kPowOutput[] = {{"Z", kPowTypes, Arity::kRequired, 'T'}};

template <typename T, typename U>
T power(T base, U exponent) {
  if constexpr (std::is_floating_point_v<T> || std::is_floating_point_v<U>) {
    return static_cast<T>(kFormulaOf<elements::Pow>(base, exponent));
  } else {
    if (exponent < 0) return base == 1 ? 1 : base == -1 ? (exponent % 2 == 0 ? 1 : -1) : 0;
    uint64_t result = 1, square = wrapping(base);
    for (auto bits = static_cast<uint64_t>(exponent); bits != 0; bits >>= 1) {
      if ((bits & 1) != 0) result *= square;
      square *= square;
    }
    return static_cast<T>(result);
  }
}

void evaluate_pow(Evaluation& c) {
  with_type<kPowTypes>(c.inputs[0].dtype(), [&]<typename T>() {
    with_type<kRealOrInteger>(c.inputs[1].dtype(), [&]<typename U>() {
      map_binary<T, U, T>(c, [](auto x, auto y) { return power(x, y); });
    });
  });
}

constexpr Port kPReluInputs[] = {{"X", kRealTypes, Arity::kRequired, 'T'},
                                 {"slope", kRealTypes, Arity::kRequired, 'T'}};

void infer_prelu(Inference& c) {
  if (!broadcasts_to(c.shape(1), c.shape(0))) {
    throw_invalid("slope: expected a shape that broadcasts to {}, got {}", shape_text(c.shape(0)),
                  shape_text(c.shape(1)));
  }
  c.set_output(0, c.dtype(0), c.shape(0));
}

void evaluate_prelu(Evaluation& c) {
  with_type<kRealTypes>(c.inputs[0].dtype(),
                        [&]<typename T>() { map_binary<T, T, T>(c, kFormulaOf<elements::PRelu>); });
}

constexpr Port kWhereInputs[] = {{"condition", kBoolType},
                                 {"X", kAllTypes, Arity::kRequired, 'T'},
                                 {"Y", kAllTypes, Arity::kRequired, 'T'}};

void infer_where(Inference& c) { infer_broadcast(c, c.dtype(1)); }

void evaluate_where(Evaluation& c) {
  Tensor& out = make_output_like(c, 0, c.inputs[1]);
  const Shape shapes[] = {c.inputs[0].shape(), c.inputs[1].shape(), c.inputs[2].shape()};
  const StridedLoop loop = StridedLoop::broadcast(c.output_shapes[0], shapes);
  const bool* condition = data_of<bool>(c.inputs[0]);
  with_width(out.dtype(), [&]<typename T>() {
    const T* x = data_of<T>(c.inputs[1]);
    const T* y = data_of<T>(c.inputs[2]);
    T* to = data_of<T>(out);
    parallel(c.team, loop.count(), kElementwiseGrain, [&](int64_t begin, int64_t end) {
      loop.rows(begin, end,
                [&](int64_t at, int64_t length, const int64_t* offsets, const int64_t* steps) {
                  for (int64_t i = 0; i < length; ++i) {
                    to[at + i] = condition[offsets[0] + i * steps[0]]
                                     ? x[offsets[1] + i * steps[1]]
                                     : y[offsets[2] + i * steps[2]];
                  }
                });
    });
  });
}

}  // namespace

const Operator kBitShift{.name = "BitShift",
                         .inputs = kShiftInputs,
                         .outputs = kShiftOutput,
                         .attributes = kShiftAttributes,
                         .infer = infer_shift,
                         .evaluate = evaluate_shift};

const Operator kIsInf{.name = "IsInf",
                      .inputs = kIsInfInputs,
                      .outputs = kIsInfOutputs,
                      .attributes = kIsInfAttributes,
                      .infer = [](Inference& c) { c.set_output(0, DType::kBool, c.shape(0)); },
                      .evaluate = evaluate_is_inf};

const Operator kClip{.name = "Clip",
                     .inputs = kClipInputs,
                     .outputs = kNumberOutput,
                     .attributes = {},
                     .infer = infer_clip,
                     .evaluate = evaluate_clip};

const Operator kMod{.name = "Mod",
                    .inputs = kModInputs,
                    .outputs = kNumberOutput,
                    .attributes = kModAttributes,
                    .infer = [](Inference& c) { infer_broadcast(c, c.dtype(0)); },
                    .evaluate = evaluate_mod};

const Operator kPow{.name = "Pow",
                    .inputs = kPowInputs,
                    .outputs = kPowOutput,
                    .attributes = {},
                    .infer = [](Inference& c) { infer_broadcast(c, c.dtype(0)); },
                    .evaluate = evaluate_pow};

const Operator kPRelu{.name = "PRelu",
                      .inputs = kPReluInputs,
                      .outputs = kRealOutput,
                      .attributes = {},
                      .infer = infer_prelu,
                      .evaluate = evaluate_prelu};

const Operator kWhere{.name = "Where",
                      .inputs = kWhereInputs,
                      .outputs = kAnyOutput,
                      .attributes = {},
                      .infer = infer_where,
                      .evaluate = evaluate_where};

}  // namespace stretto::ir::ops
