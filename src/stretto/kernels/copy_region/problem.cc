#include "stretto/kernels/copy_region/problem.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "stretto/base/error.h"

namespace stretto::kernels {
namespace {

CopyRegionProblem start(const Target& target, DType dtype, const Shape& output) {
  CopyRegionProblem p{.target = target, .dtype = dtype};
  if (output.size() > CopyRegionProblem::kMaxRank) {
    throw_unsupported("copy: {} dimensions, at most {}", output.size(),
                      CopyRegionProblem::kMaxRank);
  }
  p.rank = std::max<int32_t>(1, static_cast<int32_t>(output.size()));
  std::copy(output.begin(), output.end(), p.dims);
  return p;
}

CopyPart& add_part(CopyRegionProblem& p, const Shape& input) {
  if (p.parts == p.kMaxParts) throw_unsupported("copy: more than {} inputs", p.kMaxParts);
  CopyPart& part = p.part[p.parts++];
  part.input = p.inputs;
  p.input_elements[p.inputs++] = element_count(input);
  std::fill_n(part.extent, p.rank, 1);
  return part;
}

// Dimension k and the next are one when every part spans the next whole and walks both alike.
void merge(CopyRegionProblem& p) {
  for (int k = p.rank - 2; k >= 0; --k) {
    const int64_t size = p.dims[k + 1];
    bool whole = true;
    for (int i = 0; i < p.parts; ++i) {
      const CopyPart& part = p.part[i];
      whole =
          whole && part.extent[k + 1] == size && part.out_offset[k + 1] == 0 &&
          (part.extent[k] <= 1 || size == 1 || part.in_stride[k] == part.in_stride[k + 1] * size);
    }
    if (!whole) continue;
    const auto close = [&](int64_t* values) {
      std::copy(values + k + 2, values + p.rank, values + k + 1);
      values[p.rank - 1] = 0;
    };
    for (int i = 0; i < p.parts; ++i) {
      CopyPart& part = p.part[i];
      if (size != 1) part.in_stride[k] = part.in_stride[k + 1];
      part.extent[k] *= size;
      part.out_offset[k] *= size;
      close(part.extent);
      close(part.in_stride);
      close(part.out_offset);
    }
    p.dims[k] *= size;
    close(p.dims);
    p.dims[p.rank - 1] = 1;
    --p.rank;
  }
}

// Elements of an axis of the output: element i < count at `to` comes from `from` + i * step.
struct Run {
  int64_t from, step, count, to;
};

// At most three: what lies before the input, the input, and what lies behind it.
std::vector<Run> extended_axis(int64_t size, int64_t before, int64_t out, Extension mode) {
  const int64_t first = std::clamp<int64_t>(before, 0, out);
  const int64_t end = std::clamp<int64_t>(before + size, first, out);
  const int64_t behind = out - end;
  std::vector<Run> runs;
  const int64_t most = mode == Extension::kReflect ? size - 1 : size;
  if (mode != Extension::kEdge && (before > most || out - (before + size) > most)) {
    throw_unsupported("copy: an axis of {} is extended by more than {} at one side", size, most);
  }
  if (first > 0) {
    const Run copies[] = {{before, -1, first, 0}, {0, 0, first, 0}, {size - before, 1, first, 0}};
    runs.push_back(copies[static_cast<size_t>(mode)]);
  }
  if (end > first) runs.push_back({first - before, 1, end - first, first});
  if (behind > 0) {
    const int64_t skipped = end - (before + size);  // when all of the input was cut off
    const Run copies[] = {{size - 2 - skipped, -1, behind, end},
                          {size - 1, 0, behind, end},
                          {skipped, 1, behind, end}};
    runs.push_back(copies[static_cast<size_t>(mode)]);
  }
  return runs;
}

}  // namespace

CopyRegionProblem concat_problem(const Target& target, DType dtype, std::span<const Shape> inputs,
                                 int64_t axis) {
  Shape output = inputs[0];
  output[axis] = 0;
  for (const Shape& input : inputs) output[axis] += input[axis];
  CopyRegionProblem p = start(target, dtype, output);
  int64_t at = 0;
  for (const Shape& input : inputs) {
    CopyPart& part = add_part(p, input);
    std::ranges::copy(input, part.extent);
    std::ranges::copy(row_major_strides(input), part.in_stride);
    part.out_offset[axis] = at;
    at += input[axis];
  }
  merge(p);
  return p;
}

CopyRegionProblem slice_problem(const Target& target, DType dtype, const Shape& input,
                                std::span<const int64_t> start_at, std::span<const int64_t> step,
                                const Shape& output) {
  CopyRegionProblem p = start(target, dtype, output);
  CopyPart& part = add_part(p, input);
  const std::vector<int64_t> strides = row_major_strides(input);
  for (size_t k = 0; k < output.size(); ++k) {
    part.extent[k] = output[k];
    part.in_offset += start_at[k] * strides[k];
    part.in_stride[k] = step[k] * strides[k];
  }
  merge(p);
  return p;
}

CopyRegionProblem pad_problem(const Target& target, DType dtype, const Shape& input,
                              std::span<const int64_t> before, const Shape& output, double value) {
  CopyRegionProblem p = start(target, dtype, output);
  CopyPart& part = add_part(p, input);
  const std::vector<int64_t> strides = row_major_strides(input);
  p.fill_value = value;
  for (size_t k = 0; k < output.size(); ++k) {
    const int64_t cropped = std::max<int64_t>(0, -before[k]);
    part.out_offset[k] = std::max<int64_t>(0, before[k]);
    part.extent[k] =
        std::max<int64_t>(0, std::min(input[k] - cropped, output[k] - part.out_offset[k]));
    part.in_offset += cropped * strides[k];
    part.in_stride[k] = strides[k];
    if (part.extent[k] != output[k]) p.fill = 1;
  }
  merge(p);
  return p;
}

CopyRegionProblem extend_problem(const Target& target, DType dtype, const Shape& input,
                                 std::span<const int64_t> before, const Shape& output,
                                 Extension mode) {
  CopyRegionProblem p = start(target, dtype, output);
  const std::vector<int64_t> strides = row_major_strides(input);
  std::vector<CopyPart> parts(1);
  std::fill_n(parts[0].extent, p.rank, 1);
  for (size_t k = 0; k < output.size(); ++k) {
    const std::vector<Run> runs = extended_axis(input[k], before[k], output[k], mode);
    std::vector<CopyPart> more;
    for (const CopyPart& part : parts) {
      for (const Run& run : runs) {
        CopyPart& made = more.emplace_back(part);
        made.extent[k] = run.count;
        made.in_stride[k] = run.step * strides[k];
        made.in_offset += run.from * strides[k];
        made.out_offset[k] = run.to;
      }
    }
    if (more.size() > static_cast<size_t>(p.kMaxParts)) {
      throw_unsupported("copy: more than {} regions", p.kMaxParts);
    }
    parts = std::move(more);
  }
  p.parts = static_cast<int32_t>(parts.size());
  std::ranges::copy(parts, p.part);
  p.inputs = 1;
  p.input_elements[0] = element_count(input);
  merge(p);
  return p;
}

CopyRegionProblem write_problem(const Target& target, DType dtype, const Shape& input,
                                std::span<const int64_t> before, const Shape& output) {
  CopyRegionProblem p = start(target, dtype, output);
  CopyPart& part = add_part(p, input);
  std::ranges::copy(input, part.extent);
  std::ranges::copy(row_major_strides(input), part.in_stride);
  std::ranges::copy(before, part.out_offset);
  merge(p);
  return p;
}

CopyRegionProblem expand_problem(const Target& target, DType dtype, const Shape& input,
                                 const Shape& output) {
  if (broadcast(input, output) != output) {
    throw_invalid("expand: {} does not broadcast to {}", shape_text(input), shape_text(output));
  }
  CopyRegionProblem p = start(target, dtype, output);
  CopyPart& part = add_part(p, input);
  const std::vector<int64_t> strides = row_major_strides(input);
  const size_t missing = output.size() - input.size();
  for (size_t k = 0; k < output.size(); ++k) {
    part.extent[k] = output[k];
    if (k >= missing && input[k - missing] == output[k]) part.in_stride[k] = strides[k - missing];
  }
  merge(p);
  return p;
}

std::string problem_key(const CopyRegionProblem& p) {
  const size_t rank = static_cast<size_t>(p.rank);
  const auto text = [&](const int64_t* values) {
    return fmt::format("{}", fmt::join(std::span(values, rank), ","));
  };
  std::string key = fmt::format("copy_region {} {}", dtype_name(p.dtype), text(p.dims));
  if (p.fill) key += fmt::format(" fill {}", p.fill_value);
  for (int i = 0; i < p.parts; ++i) {
    const CopyPart& part = p.part[i];
    key += fmt::format(" {}@{}({})[{}]>{}", part.input, part.in_offset, text(part.extent),
                       text(part.in_stride), text(part.out_offset));
  }
  for (int i = 0; i < p.inputs; ++i)
    key += fmt::format("{}{}", i ? "," : " of ", p.input_elements[i]);
  return key + " " + target_text(p.target);
}

Signature problem_signature(const CopyRegionProblem& p) {
  Signature s;
  for (int i = 0; i < p.inputs; ++i) {
    s.inputs.push_back({.name = "x", .dtype = p.dtype, .shape = {p.input_elements[i]}});
  }
  s.outputs.push_back({.name = "y", .dtype = p.dtype, .shape = Shape(p.dims, p.dims + p.rank)});
  return s;
}

double problem_flops(const CopyRegionProblem&) { return 0; }

}  // namespace stretto::kernels
