// Copies the innermost dimension of every part in runs; long runs are cut so that threads share
// them evenly. No arithmetic, so no instruction set of its own. Limit: memory bandwidth.
#include <algorithm>
#include <cstring>

#include "stretto/kernels/copy_region/candidates.h"

namespace stretto::kernels::copy_region {
namespace {

constexpr int64_t kChunk = 4096;    // elements of one piece of a run
constexpr int64_t kShortRun = 8;    // elements: shorter ones are copied column by column
constexpr int64_t kTogether = 256;  // rows that all parts write while they lie in the cache

template <typename T>
void copy_run(const T* from, int64_t stride, T* to, int64_t count) {
  if (stride == 1) {
    std::memcpy(to, from, static_cast<size_t>(count) * sizeof(T));
  } else if (stride == 0) {
    std::fill_n(to, count, *from);
  } else {
    for (int64_t i = 0; i < count; ++i) to[i] = from[i * stride];
  }
}

// What one part writes of its rows [begin, end), where these are its runs, row by row.
template <typename T>
void copy_rows(const CopyRegionProblem& p, const CopyPart& part, const int64_t* out_stride,
               const T* x, T* y, int64_t begin, int64_t end) {
  const int last = p.rank - 1, along = std::max(last - 1, 0);
  const int64_t width = part.extent[last], step = part.in_stride[last];
  const int64_t length = last == 0 ? 1 : part.extent[along];  // rows that lie evenly
  const int64_t in = part.in_stride[along], out = out_stride[along];
  for (int64_t row = begin; row < end;) {
    int64_t from = 0, to = part.out_offset[last];
    for (int64_t k = last - 1, rest = row; k >= 0; --k) {
      const int64_t index = rest % part.extent[k];
      rest /= part.extent[k];
      from += index * part.in_stride[k];
      to += (index + part.out_offset[k]) * out_stride[k];
    }
    const int64_t count = std::min({length - row % length, end - row, kTogether});
    if (width < kShortRun) {
      for (int64_t j = 0; j < width; ++j) {
        const T* const a = x + from + j * step;
        T* const b = y + to + j;
        for (int64_t i = 0; i < count; ++i) b[i * out] = a[i * in];
      }
    } else {
      for (int64_t i = 0; i < count; ++i)
        copy_run(x + from + i * in, step, y + to + i * out, width);
    }
    row += count;
  }
}

template <typename T>
void run_as(const CopyRegionProblem& p, const Args& args, const Worker& worker) {
  T* y = static_cast<T*>(args.outputs[0]);
  int64_t out_stride[CopyRegionProblem::kMaxRank], count = 1;
  for (int k = p.rank - 1; k >= 0; count *= p.dims[k--]) out_stride[k] = count;
  if (p.fill && worker.phase == 0) {
    T value;
    const FillBytes fill = fill_bytes(p);
    std::memcpy(&value, fill.bytes, sizeof(T));
    const Range range = split(count, worker, 64);
    std::fill(y + range.begin, y + range.end, value);
    return;
  }
  const int last = p.rank - 1;
  const auto rows_of = [&](const CopyPart& part) {
    int64_t rows = 1;
    for (int k = 0; k < last; ++k) rows *= part.extent[k];
    return rows;
  };
  const auto input_of = [&](const CopyPart& part) {
    return static_cast<const T*>(args.inputs[part.input]) + part.in_offset;
  };
  // Parts beside each other write the same lines of memory.
  const bool together = std::all_of(p.part, p.part + p.parts, [&](const CopyPart& part) {
    return part.extent[last] <= kChunk && rows_of(part) == rows_of(p.part[0]);
  });
  if (together) {
    const Range work = split(p.parts == 0 ? 0 : rows_of(p.part[0]), worker);
    for (int64_t begin = work.begin; begin < work.end; begin += kTogether) {
      const int64_t end = std::min(begin + kTogether, work.end);
      for (int i = 0; i < p.parts; ++i) {
        copy_rows(p, p.part[i], out_stride, input_of(p.part[i]), y, begin, end);
      }
    }
    return;
  }
  for (int i = 0; i < p.parts; ++i) {
    const CopyPart& part = p.part[i];
    const T* x = input_of(part);
    const int64_t pieces = (part.extent[last] + kChunk - 1) / kChunk;
    const Range work = split(rows_of(part) * pieces, worker);
    if (pieces == 1) {
      copy_rows(p, part, out_stride, x, y, work.begin, work.end);
      continue;
    }
    for (int64_t job = work.begin; job < work.end; ++job) {
      const int64_t begin = job % pieces * kChunk;
      int64_t from = begin * part.in_stride[last], to = begin + part.out_offset[last];
      for (int64_t k = last - 1, rest = job / pieces; k >= 0; --k) {
        const int64_t index = rest % part.extent[k];
        rest /= part.extent[k];
        from += index * part.in_stride[k];
        to += (index + part.out_offset[k]) * out_stride[k];
      }
      copy_run(x + from, part.in_stride[last], y + to, std::min(kChunk, part.extent[last] - begin));
    }
  }
}

Fit fits(const CopyRegionProblem&) { return Fit::yes(0.5); }

int phases(const CopyRegionProblem& p) { return p.fill ? 2 : 1; }

void run(const CopyRegionProblem& p, const Args& args, const Worker& worker) {
  switch (dtype_bytes(p.dtype)) {
    case 1:
      return run_as<uint8_t>(p, args, worker);
    case 2:
      return run_as<uint16_t>(p, args, worker);
    case 4:
      return run_as<uint32_t>(p, args, worker);
    case 8:
      return run_as<uint64_t>(p, args, worker);
  }
}

}  // namespace

const Row kRuns{.name = "runs", .fits = fits, .phases = phases, .run = run};

}  // namespace stretto::kernels::copy_region
