// Max, Mean, Min, Sum: any number of inputs that broadcast.
#include "stretto/ir/ops/elementwise.h"
#include "stretto/ir/ops/table.h"

namespace stretto::ir::ops {
namespace {

template <TypeSet kTypes>
constexpr Port kInputs[] = {{"data", kTypes, Arity::kVariadic, 'T'}};
template <TypeSet kTypes>
constexpr Port kOutputs[] = {{"result", kTypes, Arity::kRequired, 'T'}};

void infer(Inference& c) {
  if (c.input_count() == 0) throw_invalid("expected at least one input, got none");
  for (int i = 0; i < c.input_count(); ++i) {
    if (!c.has_input(i)) throw_invalid("input {} is missing", i);
  }
  infer_broadcast(c, c.dtype(0));
}

// kJoin(sum so far, next input); kMean divides by the number of inputs at the end.
template <TypeSet kTypes, auto kJoin, bool kMean = false>
void evaluate(Evaluation& c) {
  std::vector<Shape> shapes;
  for (const Tensor& input : c.inputs) shapes.push_back(input.shape());
  const StridedLoop loop = StridedLoop::broadcast(c.output_shapes[0], shapes);
  with_type<kTypes>(c.inputs[0].dtype(), [&]<typename T>() {
    T* y = data_of<T>(c.make_output(0));
    std::vector<const T*> x;
    for (const Tensor& input : c.inputs) x.push_back(data_of<T>(input));
    parallel(c.team, loop.count(), kElementwiseGrain, [&](int64_t begin, int64_t end) {
      loop.rows(begin, end,
                [&](int64_t at, int64_t length, const int64_t* offsets, const int64_t* steps) {
                  for (int64_t i = 0; i < length; ++i) {
                    auto joined = static_cast<Computed<T>>(x[0][offsets[0] + i * steps[0]]);
                    for (size_t j = 1; j < x.size(); ++j) {
                      joined =
                          kJoin(joined, static_cast<Computed<T>>(x[j][offsets[j] + i * steps[j]]));
                    }
                    if constexpr (kMean) joined /= static_cast<double>(x.size());
                    y[at + i] = static_cast<T>(joined);
                  }
                });
    });
  });
}

constexpr auto kMaximum = kEither<elements::Max, [](auto a, auto b) { return a < b ? b : a; }>;
constexpr auto kMinimum = kEither<elements::Min, [](auto a, auto b) { return b < a ? b : a; }>;
constexpr auto kSum = kFormulaOf<elements::Add>;

template <TypeSet kTypes>
constexpr Operator row(std::string_view name, void (*run)(Evaluation&)) {
  return {.name = name,
          .inputs = kInputs<kTypes>,
          .outputs = kOutputs<kTypes>,
          .attributes = {},
          .infer = infer,
          .evaluate = run};
}

constexpr Operator kRows[] = {
    row<kRealOrInteger>("Max", evaluate<kRealOrInteger, kMaximum>),
    row<kRealTypes>("Mean", evaluate<kRealTypes, kSum, true>),
    row<kRealOrInteger>("Min", evaluate<kRealOrInteger, kMinimum>),
    row<kRealTypes>("Sum", evaluate<kRealTypes, kSum>),
};

}  // namespace

std::span<const Operator> elementwise_variadic() { return kRows; }

}  // namespace stretto::ir::ops
