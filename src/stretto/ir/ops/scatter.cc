// ScatterElements and ScatterND: a copy of the data with some elements written by index.
#include <algorithm>
#include <atomic>
#include <cstring>

#include "stretto/ir/ops/dispatch.h"
#include "stretto/ir/ops/elementwise.h"
#include "stretto/ir/ops/indexing.h"
#include "stretto/ir/ops/table.h"

namespace stretto::ir::ops {
namespace {

constexpr Port kInputs[] = {{"data", kAllTypes, Arity::kRequired, 'T'},
                            {"indices", kIndexTypes},
                            {"updates", kAllTypes, Arity::kRequired, 'T'}};
constexpr Port kNdInputs[] = {{"data", kAllTypes, Arity::kRequired, 'T'},
                              {"indices", type_bit(DType::kInt64)},
                              {"updates", kAllTypes, Arity::kRequired, 'T'}};
constexpr Port kOutputs[] = {{"output", kAllTypes, Arity::kRequired, 'T'}};
constexpr AttributeSpec kElementsAttributes[] = {{"axis", AttributeKind::kInt},
                                                 {"reduction", AttributeKind::kString}};
constexpr AttributeSpec kNdAttributes[] = {{"reduction", AttributeKind::kString}};

constexpr int64_t kCopyGrain = 1 << 16;  // bytes
constexpr int64_t kFewColumns = 64;      // too few of a row to give a thread its own

constexpr std::string_view kReductions[] = {"none", "add", "mul", "max", "min"};

void check_reduction(const Inference& c) {
  const std::string name = c.attributes().text("reduction", "none");
  if (std::find(std::begin(kReductions), std::end(kReductions), name) == std::end(kReductions)) {
    throw_invalid("reduction: expected none, add, mul, max or min, got {}", name);
  }
  if (name != "none" && (type_bit(c.dtype(0)) & kNumericTypes) == 0) {
    throw_unsupported("reduction: {} does not apply to {}", name, dtype_name(c.dtype(0)));
  }
}

enum class Reduction : uint8_t { kNone, kAdd, kMul, kMax, kMin };

template <Reduction kBy, typename T>
T combined(T old, T update) {
  if constexpr (kBy == Reduction::kNone) return update;
  // In two choices, of which the first one is a processor's instruction.
  if constexpr (kBy == Reduction::kMax) {
    const T larger = old < update ? update : old;
    return update != update ? update : larger;
  }
  if constexpr (kBy == Reduction::kMin) {
    const T smaller = update < old ? update : old;
    return update != update ? update : smaller;
  }
  // A float's sum or product is that of doubles, rounded.
  if constexpr (std::is_floating_point_v<T>)
    return kBy == Reduction::kAdd ? old + update : old * update;
  const auto a = static_cast<uint64_t>(old), b = static_cast<uint64_t>(update);
  return static_cast<T>(kBy == Reduction::kAdd ? a + b : a * b);
}

template <Reduction kBy, typename T>
inline void combine_eight(T* __restrict to, const T* __restrict from) {
  for (int i = 0; i < 8; ++i) to[i] = combined<kBy>(to[i], from[i]);
}

// The updates of neighbouring elements: eight at a time, which the compiler makes vectors of.
template <Reduction kBy, typename T>
void combine_run(T* to, const T* from, int64_t count) {
  if constexpr (kBy == Reduction::kNone) {
    std::memcpy(to, from, static_cast<size_t>(count) * sizeof(T));
    return;
  }
  int64_t i = 0;
  for (; i + 8 <= count; i += 8) combine_eight<kBy>(to + i, from + i);
  for (; i < count; ++i) to[i] = combined<kBy>(to[i], from[i]);
}

// Calls f.template operator()<reduction, type>() for the attribute `reduction`, after the data was
// copied to the output: f writes the updates `from` over it at `to`, both void pointers.
template <typename F>
void scatter(Evaluation& c, F&& f) {
  const Tensor& data = c.inputs[0];
  const std::string name = c.attributes.text("reduction", "none");
  const auto place = std::find(std::begin(kReductions), std::end(kReductions), name);
  const auto by = static_cast<Reduction>(place - std::begin(kReductions));
  // 16-bit floats are rounded when all updates are in.
  const bool is_half =
      by != Reduction::kNone && is_float(data.dtype()) && dtype_bytes(data.dtype()) == 2;
  const Tensor added = is_half ? c.inputs[2].converted(DType::kFloat32) : c.inputs[2];
  Tensor wide;
  if (is_half) wide = data.converted(DType::kFloat32);
  Tensor& out = is_half ? wide : make_output_like(c, 0, data);
  if (!is_half) {
    parallel(c.team, static_cast<int64_t>(data.bytes()), kCopyGrain,
             [&](int64_t begin, int64_t end) {
               std::memcpy(data_of<std::byte>(out) + begin, data_of<std::byte>(data) + begin,
                           static_cast<size_t>(end - begin));
             });
  }
  const auto apply = [&]<Reduction kBy>() {
    if constexpr (kBy == Reduction::kNone) {
      with_width(out.dtype(), [&]<typename T>() {
        f.template operator()<kBy>(data_of<T>(out), data_of<T>(added));
      });
    } else {
      with_type<kRealOrInteger>(out.dtype(), [&]<typename T>() {
        f.template operator()<kBy>(data_of<T>(out), data_of<T>(added));
      });
    }
  };
  if (by == Reduction::kNone) apply.template operator()<Reduction::kNone>();
  if (by == Reduction::kAdd) apply.template operator()<Reduction::kAdd>();
  if (by == Reduction::kMul) apply.template operator()<Reduction::kMul>();
  if (by == Reduction::kMax) apply.template operator()<Reduction::kMax>();
  if (by == Reduction::kMin) apply.template operator()<Reduction::kMin>();
  if (is_half) c.outputs[0] = wide.converted(data.dtype());
}

void infer_elements(Inference& c) {
  check_reduction(c);
  const int64_t axis = normalize_axis(c.attributes().integer("axis", 0), c.rank(0), "axis");
  check_elements_shape(c.shape(0), c.shape(1), axis);
  if (c.shape(2) != c.shape(1)) {
    throw_invalid("updates: expected the indices' shape {}, got {}", shape_text(c.shape(1)),
                  shape_text(c.shape(2)));
  }
  c.set_output(0, c.dtype(0), c.shape(0));
}

// The updates of the elements [begin, end) of the rows [first, last). False, with a wrong element
// written, where an index is none.
template <Reduction kBy, typename T, typename Index>
bool scatter_rows(const ElementRows& rows, T* to, const T* from, const Index* indices,
                  int64_t first, int64_t last, int64_t begin, int64_t end) {
  uint64_t outside = 0;
  const auto size = static_cast<uint64_t>(rows.size);
  for (int64_t row = first; row < last; ++row) {
    T* const base = to + rows.base(row);
    const Index* const index = indices + row * rows.length;
    const T* const update = from + row * rows.length;
    for (int64_t i = begin; i < end; ++i) {
      const auto given = static_cast<int64_t>(index[i]);
      auto place = static_cast<uint64_t>(given < 0 ? given + rows.size : given);
      outside |= place >= size ? 1 : 0;
      place = place < size ? place : 0;
      T& element = base[i * rows.step + static_cast<int64_t>(place) * rows.stride];
      element = combined<kBy>(element, update[i]);
    }
  }
  return outside == 0;
}

// Updates of one element apply in order, so one thread does them all: it has whole rows where these
// lie along the axis, and the same columns of every row where they do not.
void evaluate_elements(Evaluation& c) {
  const Tensor& indices = c.inputs[1];
  const int64_t axis = normalize_axis(c.attributes.integer("axis", 0), c.inputs[0].rank(), "axis");
  const ElementRows rows(c.inputs[0].shape(), indices.shape(), axis);
  const bool along = axis == c.inputs[0].rank() - 1;
  const int64_t total = along ? rows.count : rows.length, other = along ? rows.length : rows.count;
  const int64_t grain =
      std::max<int64_t>(along ? 1 : kFewColumns, kElementwiseGrain / (other + 1) + 1);
  std::atomic<bool> fits = rows.size > 0 || indices.count() == 0;
  scatter(c, [&]<Reduction kBy, typename T>(T* to, const T* from) {
    const auto apply = [&](const auto* index) {
      parallel(c.team, fits && other > 0 ? total : 0, grain, [&](int64_t begin, int64_t end) {
        const bool fit = along ? scatter_rows<kBy>(rows, to, from, index, begin, end, 0, other)
                               : scatter_rows<kBy>(rows, to, from, index, 0, other, begin, end);
        if (!fit) fits = false;
      });
    };
    indices.dtype() == DType::kInt32 ? apply(data_of<int32_t>(indices))
                                     : apply(data_of<int64_t>(indices));
  });
  if (!fits) normalized_indices(indices.as_int64s(), rows.size);  // says which
}

void infer_nd(Inference& c) {
  check_reduction(c);
  const Shape& data = c.shape(0);
  const Shape& indices = c.shape(1);
  if (indices.empty() || indices.back() < 1 || indices.back() > c.rank(0)) {
    throw_invalid("indices: shape {} does not index data of shape {}", shape_text(indices),
                  shape_text(data));
  }
  Shape expected(indices.begin(), indices.end() - 1);
  expected.insert(expected.end(), data.begin() + indices.back(), data.end());
  if (c.shape(2) != expected) {
    throw_invalid("updates: expected shape {}, got {}", shape_text(expected),
                  shape_text(c.shape(2)));
  }
  c.set_output(0, c.dtype(0), data);
}

// Threads share the elements of every update among themselves, for updates of one position apply in
// order.
void evaluate_nd(Evaluation& c) {
  const Shape& data = c.inputs[0].shape();
  const Shape& indices = c.inputs[1].shape();
  const std::vector<int64_t> positions =
      tuple_positions(data, indices, c.inputs[1].values<int64_t>(), 0);
  const int64_t run = element_count(std::span(data).subspan(indices.back()));
  const auto count = static_cast<int64_t>(positions.size());
  const int64_t grain = std::max<int64_t>(kFewColumns, kElementwiseGrain / (count + 1) + 1);
  scatter(c, [&]<Reduction kBy, typename T>(T* to, const T* from) {
    parallel(c.team, run, grain, [&](int64_t begin, int64_t end) {
      for (int64_t i = 0; i < count; ++i) {
        T* const element = to + positions[static_cast<size_t>(i)];
        const T* const update = from + i * run;
        combine_run<kBy>(element + begin, update + begin, end - begin);
      }
    });
  });
}

}  // namespace

const Operator kScatterElements{.name = "ScatterElements",
                                .inputs = kInputs,
                                .outputs = kOutputs,
                                .attributes = kElementsAttributes,
                                .infer = infer_elements,
                                .evaluate = evaluate_elements};

const Operator kScatterND{.name = "ScatterND",
                          .inputs = kNdInputs,
                          .outputs = kOutputs,
                          .attributes = kNdAttributes,
                          .infer = infer_nd,
                          .evaluate = evaluate_nd};

}  // namespace stretto::ir::ops
