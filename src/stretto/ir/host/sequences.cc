// Sequences and optional values, and the cutting and joining of tensors that they need.
#include <algorithm>
#include <cstring>

#include "stretto/base/error.h"
#include "stretto/ir/host/host.h"

namespace stretto::ir {
namespace {

// All elements of a sequence are of one kind and element type.
void check_alike(const HostCall& call, const AnyValue& a, const AnyValue& b) {
  const bool alike = a.is_tensor() ? b.is_tensor() && a.tensor().dtype() == b.tensor().dtype()
                                   : a.is_strings() == b.is_strings();
  if (!alike) {
    call.fail(fmt::format("elements of one sequence are of one type, but one is {} and another {}",
                          a.kind(), b.kind()));
  }
}

// Where an element stands; `most`: the last place allowed.
int64_t place(const HostCall& call, size_t input, int64_t size, int64_t most) {
  const int64_t given = call.integer(input, "position");
  const int64_t at = given < 0 ? given + size : given;
  if (at < 0 || at > most) {
    call.fail(fmt::format("position {} lies outside of a sequence of {}", given, size));
  }
  return at;
}

}  // namespace

Tensor part_of(const Tensor& x, int64_t axis, int64_t begin, int64_t end) {
  Shape shape = x.shape();
  shape[axis] = end - begin;
  const size_t element = dtype_bytes(x.dtype());
  int64_t inner = 1, outer = 1;
  for (int64_t i = axis + 1; i < x.rank(); ++i) inner *= x.dim(i);
  for (int64_t i = 0; i < axis; ++i) outer *= x.dim(i);
  const auto* from = static_cast<const std::byte*>(x.data());
  const size_t run = static_cast<size_t>((end - begin) * inner) * element;
  const size_t first = static_cast<size_t>(begin * inner) * element;
  if (outer == 1) {
    return {x.dtype(), std::move(shape), from + first, std::make_shared<Tensor>(x)};
  }
  Tensor part(x.dtype(), std::move(shape));
  auto* to = static_cast<std::byte*>(part.mutable_data());
  const size_t stride = static_cast<size_t>(x.dim(axis) * inner) * element;
  for (int64_t i = 0; i < outer && run > 0; ++i) {
    std::memcpy(to + static_cast<size_t>(i) * run, from + static_cast<size_t>(i) * stride + first,
                run);
  }
  return part;
}

Tensor joined(std::span<const Tensor> parts, int64_t axis) {
  Shape shape = parts[0].shape();
  int64_t size = 0;
  for (const Tensor& part : parts) {
    Shape expected = shape;
    if (part.rank() == parts[0].rank()) expected[axis] = part.dim(axis);
    if (part.shape() != expected || part.dtype() != parts[0].dtype()) {
      throw_invalid("tensors of {} {} and {} {} cannot be joined along axis {}",
                    dtype_name(parts[0].dtype()), shape_text(shape), dtype_name(part.dtype()),
                    shape_text(part.shape()), axis);
    }
    size += part.dim(axis);
  }
  shape[axis] = size;
  Tensor whole(parts[0].dtype(), shape);
  int64_t inner = 1, outer = 1;
  for (int64_t i = axis + 1; i < whole.rank(); ++i) inner *= whole.dim(i);
  for (int64_t i = 0; i < axis; ++i) outer *= whole.dim(i);
  const size_t element = dtype_bytes(whole.dtype());
  const size_t stride = static_cast<size_t>(size * inner) * element;
  auto* to = static_cast<std::byte*>(whole.mutable_data());
  for (const Tensor& part : parts) {
    const size_t run = static_cast<size_t>(part.dim(axis) * inner) * element;
    const auto* from = static_cast<const std::byte*>(part.data());
    for (int64_t i = 0; i < outer && run > 0; ++i) {
      std::memcpy(to + static_cast<size_t>(i) * stride, from + static_cast<size_t>(i) * run, run);
    }
    to += run;
  }
  return whole;
}

Tensor without_axis(const Tensor& x, int64_t axis) {
  Shape shape = x.shape();
  shape.erase(shape.begin() + axis);
  return x.reshaped(std::move(shape));
}

Tensor with_axis(const Tensor& x, int64_t axis) {
  Shape shape = x.shape();
  shape.insert(shape.begin() + axis, 1);
  return x.reshaped(std::move(shape));
}

void host_sequence_construct(HostCall& call) {
  Sequence sequence;
  for (size_t i = 0; i < call.inputs.size(); ++i) {
    sequence.push_back(call.input(i));
    check_alike(call, sequence[0], sequence.back());
  }
  call.outputs[0] = std::move(sequence);
}

void host_sequence_empty(HostCall& call) { call.outputs[0] = Sequence(); }

void host_sequence_at(HostCall& call) {
  const Sequence& sequence = call.sequence(0);
  const auto size = static_cast<int64_t>(sequence.size());
  call.outputs[0] = sequence[static_cast<size_t>(place(call, 1, size, size - 1))];
}

void host_sequence_insert(HostCall& call) {
  Sequence sequence = call.sequence(0);
  const auto size = static_cast<int64_t>(sequence.size());
  const int64_t at = call.has_input(2) ? place(call, 2, size, size) : size;
  if (!sequence.empty()) check_alike(call, sequence[0], call.input(1));
  sequence.insert(sequence.begin() + at, call.input(1));
  call.outputs[0] = std::move(sequence);
}

void host_sequence_erase(HostCall& call) {
  Sequence sequence = call.sequence(0);
  const auto size = static_cast<int64_t>(sequence.size());
  if (size == 0) call.fail("the sequence is empty");
  const int64_t at = call.has_input(1) ? place(call, 1, size, size - 1) : size - 1;
  sequence.erase(sequence.begin() + at);
  call.outputs[0] = std::move(sequence);
}

void host_sequence_length(HostCall& call) {
  call.outputs[0] = Tensor::scalar<int64_t>(static_cast<int64_t>(call.sequence(0).size()));
}

void host_split_to_sequence(HostCall& call) {
  const Tensor& x = call.tensor(0);
  const int64_t axis =
      normalize_axis(call.attributes.integer("axis", 0), x.rank(), call.op + ": axis");
  const int64_t size = x.dim(axis);
  const bool one_each = !call.has_input(1);
  const bool keeps = !one_each || call.attributes.integer("keepdims", 1) != 0;
  std::vector<int64_t> sizes;
  if (one_each) {
    sizes.assign(static_cast<size_t>(size), 1);
  } else if (call.tensor(1).rank() == 0) {
    const int64_t step = call.integer(1, "split");
    if (step < 1) call.fail(fmt::format("split: expected a positive size, got {}", step));
    for (int64_t at = 0; at < size; at += step) sizes.push_back(std::min(step, size - at));
  } else {
    sizes = call.tensor(1).as_int64s();
  }
  Sequence sequence;
  int64_t at = 0;
  for (const int64_t part : sizes) {
    if (part < 0 || part > size - at) call.fail("split: its sizes do not add up to the axis");
    const Tensor tensor = part_of(x, axis, at, at + part);
    sequence.push_back(keeps ? tensor : without_axis(tensor, axis));
    at += part;
  }
  if (at != size) call.fail("split: its sizes do not add up to the axis");
  call.outputs[0] = std::move(sequence);
}

void host_concat_from_sequence(HostCall& call) {
  const Sequence& sequence = call.sequence(0);
  if (sequence.empty()) call.fail("the sequence is empty");
  const bool fresh = call.attributes.integer("new_axis", 0) != 0;
  std::vector<Tensor> parts;
  for (const AnyValue& value : sequence) {
    if (!value.is_tensor()) call.fail("expected a sequence of tensors, got one of " + value.kind());
    parts.push_back(value.tensor());
  }
  const int64_t rank = parts[0].rank() + (fresh ? 1 : 0);
  const int64_t axis = normalize_axis(call.attributes.integer("axis", 0), rank, call.op + ": axis");
  for (Tensor& part : parts) {
    if (fresh && part.shape() != parts[0].shape() && part.rank() + 1 != rank) {
      call.fail("its tensors have different shapes");
    }
    if (fresh && part.rank() + 1 == rank) part = with_axis(part, axis);
  }
  call.outputs[0] = joined(parts, axis);
}

void host_optional(HostCall& call) {
  call.outputs[0] = call.has_input(0) ? call.inputs[0] : AnyValue();
}

void host_optional_has_element(HostCall& call) {
  call.outputs[0] = Tensor::scalar<bool>(call.has_input(0));
}

void host_optional_get_element(HostCall& call) {
  if (!call.has_input(0)) call.fail("the optional value is not there");
  call.outputs[0] = call.inputs[0];
}

void host_identity(HostCall& call) {
  call.outputs[0] = call.inputs.empty() ? AnyValue() : call.inputs[0];
}

}  // namespace stretto::ir
