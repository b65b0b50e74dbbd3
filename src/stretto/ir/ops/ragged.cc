// stretto.RowIndex and stretto.TakeRows: the rows of a batch that a mask keeps, one behind the
// other, and back (see ir/fused.h).
#include <algorithm>
#include <cstring>
#include <limits>

#include "stretto/ir/ops/dispatch.h"
#include "stretto/ir/ops/table.h"

namespace stretto::ir::ops {
namespace {

constexpr TypeSet kInt32 = type_bit(DType::kInt32);
constexpr Port kMask[] = {{"mask", kBoolType}};
constexpr Port kIndices[] = {{"rows", kInt32},
                             {"places", kInt32},
                             {"starts", kInt32},
                             {"positions", kInt32},
                             {"samples", kInt32}};
constexpr AttributeSpec kRows[] = {{"rows", AttributeKind::kInt, true}};
constexpr Port kTaken[] = {{"x", kAllTypes, Arity::kRequired, 'T'}, {"index", kIndexTypes}};
constexpr Port kOutputs[] = {{"y", kAllTypes, Arity::kRequired, 'T'}};

constexpr int32_t kNowhere = std::numeric_limits<int32_t>::max();

void infer_index(Inference& c) {
  const int64_t rows = c.attributes().integer("rows", 0);
  if (c.rank(0) != 2 || element_count(c.shape(0)) >= kNowhere) {
    throw_invalid("mask: expected shape [batch, length] of less than {} elements, got {}", kNowhere,
                  shape_text(c.shape(0)));
  }
  if (rows < 0 || rows >= kNowhere) throw_invalid("rows: expected 0 or more, got {}", rows);
  const Shape shapes[] = {{rows}, {element_count(c.shape(0))}, {c.shape(0)[0] + 1}, {rows}, {rows}};
  for (int i = 0; i < 5; ++i) c.set_output(i, DType::kInt32, shapes[i]);
}

void evaluate_index(Evaluation& c) {
  const int64_t rows = c.attributes.integer("rows", 0);
  const Tensor& mask = c.inputs[0];
  const int64_t batch = mask.dim(0), length = mask.dim(1);
  int32_t* filled[5];
  for (int i = 0; i < 5; ++i) {
    Tensor& output = c.make_output(i);
    filled[i] = data_of<int32_t>(output);
    std::fill_n(filled[i], output.count(), kNowhere);
  }
  auto& [row_of, place_of, starts, positions, samples] = filled;
  int64_t next = 0;
  for (int64_t b = 0; b < batch; ++b) {
    starts[b] = static_cast<int32_t>(next);
    for (int64_t s = 0; s < length; ++s) {
      const int64_t at = b * length + s;
      if (!data_of<bool>(mask)[at] || next == rows) continue;
      row_of[next] = static_cast<int32_t>(at);
      place_of[at] = static_cast<int32_t>(next);
      positions[next] = static_cast<int32_t>(s);
      samples[next] = static_cast<int32_t>(b);
      ++next;
    }
  }
  starts[batch] = static_cast<int32_t>(next);
}

void infer_take(Inference& c) {
  if (c.rank(0) < 1 || c.rank(1) != 1) {
    throw_invalid("expected x of rank 1 or more and a list of indices, got {} and {}",
                  shape_text(c.shape(0)), shape_text(c.shape(1)));
  }
  Shape shape = c.shape(0);
  shape[0] = c.shape(1)[0];
  c.set_output(0, c.dtype(0), std::move(shape));
}

void evaluate_take(Evaluation& c) {
  const Tensor& x = c.inputs[0];
  const int64_t count = x.dim(0);
  const std::vector<int64_t> index = c.inputs[1].as_int64s();
  Tensor& y = make_output_like(c, 0, x);
  if (y.bytes() == 0) return;
  const size_t run = y.bytes() / index.size();
  auto* to = data_of<std::byte>(y);
  for (int64_t from : index) {
    if (from < 0) from += count;
    if (from >= 0 && from < count) {
      std::memcpy(to, data_of<std::byte>(x) + static_cast<size_t>(from) * run, run);
    } else {
      std::memset(to, 0, run);
    }
    to += run;
  }
}

}  // namespace

const Operator kRowIndex{.name = "stretto.RowIndex",
                         .inputs = kMask,
                         .outputs = kIndices,
                         .attributes = kRows,
                         .infer = infer_index,
                         .evaluate = evaluate_index};

const Operator kTakeRows{.name = "stretto.TakeRows",
                         .inputs = kTaken,
                         .outputs = kOutputs,
                         .attributes = {},
                         .infer = infer_take,
                         .evaluate = evaluate_take};

}  // namespace stretto::ir::ops
