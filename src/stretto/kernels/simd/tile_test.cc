#include "stretto/kernels/simd/tile.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <random>
#include <string>
#include <vector>

namespace stretto::kernels {
namespace {

// `count` values that end where a page begins that may not be touched, so that a tile that reads
// too far crashes. Their start is aligned to a vector when `count` is a multiple of one.
class Fenced {
 public:
  explicit Fenced(int64_t count) {
    const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    const size_t bytes = static_cast<size_t>(count) * sizeof(float);
    const size_t room = (bytes + page - 1) / page * page;
    size_ = room + page;
    memory_ = static_cast<char*>(
        mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    if (memory_ == MAP_FAILED || mprotect(memory_ + room, page, PROT_NONE) != 0) std::abort();
    values_ = reinterpret_cast<float*>(memory_ + room - bytes);
  }
  ~Fenced() { munmap(memory_, size_); }
  Fenced(const Fenced&) = delete;
  Fenced& operator=(const Fenced&) = delete;
  float* get() const { return values_; }

 private:
  char* memory_;
  size_t size_;
  float* values_;
};

// Sums of small integers are exact in any order, so results must be equal.
void fill(float* to, int64_t count, std::mt19937& random) {
  for (int64_t i = 0; i < count; ++i)
    to[i] = static_cast<float>(static_cast<int>(random() % 9) - 4);
}

struct Shape {
  const char* name;
  int64_t a_row, a_group;  // 0: adjoining, as small as they can be
  std::vector<Tap> taps;
  int groups, steps, last_steps;
};

// Runs one tile with every value that it may read or write fenced, and checks it value by value.
void check(const TileSet& set, int rows, int vectors, const Shape& shape, std::mt19937& random) {
  const int64_t lanes = set.lanes, width = vectors * lanes;
  const int64_t a_row = shape.a_row, a_group = shape.a_group;
  const int64_t most_steps = std::max(shape.steps, shape.last_steps);
  const int64_t b_group = std::max<int64_t>(1, shape.taps.size()) * most_steps * width;
  int64_t a_size = 0;
  for (int g = 0; g < shape.groups; ++g) {
    const int64_t steps = g + 1 == shape.groups ? shape.last_steps : shape.steps;
    for (const Tap& tap : shape.taps) {
      a_size = std::max(a_size, (rows - 1) * a_row + g * a_group + tap.a + steps);
    }
  }
  std::vector<Tap> taps = shape.taps;
  for (size_t i = 0; i < taps.size(); ++i) taps[i].b = static_cast<int64_t>(i) * most_steps * width;
  const Fenced a(a_size), b(shape.groups * b_group), bias(width);
  const int64_t c_vector = random() % 2 ? lanes : rows * lanes;
  const int64_t c_row = c_vector == lanes ? width : lanes;
  const Fenced c(rows * width), residual(rows * width);
  fill(a.get(), a_size, random);
  fill(b.get(), shape.groups * b_group, random);
  fill(bias.get(), width, random);
  fill(c.get(), rows * width, random);
  fill(residual.get(), rows * width, random);

  Tile tile{.a = a.get(),
            .a_row = a_row,
            .a_group = a_group,
            .b = b.get(),
            .b_group = b_group,
            .taps = taps.data(),
            .tap_count = static_cast<int32_t>(taps.size()),
            .groups = shape.groups,
            .steps = shape.steps,
            .last_steps = shape.last_steps,
            .far_results = random() % 2 == 0,
            .c = c.get(),
            .c_row = c_row,
            .c_vector = c_vector};
  tile.accumulate = random() % 2;
  tile.bias = random() % 2 ? bias.get() : nullptr;
  tile.residual = random() % 2 ? residual.get() : nullptr;
  tile.residual_after = random() % 2;
  tile.relu = random() % 3 == 0;
  tile.clamp = random() % 2;
  tile.lo = -7;
  tile.hi = 5;
  if (random() % 2) {  // never read, only asked for
    tile.prefetch = b.get();
    tile.prefetch_end = b.get() + random() % 4096;
  }

  std::vector<float> expected(static_cast<size_t>(rows * width));
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t j = 0; j < width; ++j) {
      const int64_t at = r * c_row + j / lanes * c_vector + j % lanes;
      float sum = tile.accumulate ? c.get()[at] : tile.bias ? bias.get()[j] : 0;
      for (int64_t g = 0; g < shape.groups; ++g) {
        const int64_t steps = g + 1 == shape.groups ? shape.last_steps : shape.steps;
        for (const Tap& tap : taps) {
          for (int64_t i = 0; i < steps; ++i) {
            sum += a.get()[r * a_row + g * a_group + tap.a + i] *
                   b.get()[g * b_group + tap.b + i * width + j];
          }
        }
      }
      if (tile.residual && !tile.residual_after) sum += residual.get()[at];
      if (tile.relu) {
        sum = std::max(sum, 0.0f);
      } else if (tile.clamp) {
        sum = std::min(std::max(sum, tile.lo), tile.hi);
      }
      if (tile.residual && tile.residual_after) sum += residual.get()[at];
      expected[static_cast<size_t>(at)] = sum;
    }
  }
  set.run[vectors][rows](tile);
  for (int64_t i = 0; i < rows * width; ++i) {
    ASSERT_EQ(c.get()[i], expected[static_cast<size_t>(i)])
        << shape.name << ", " << rows << " rows x " << vectors << " vectors of " << lanes
        << ", value " << i << (tile.accumulate ? ", accumulates" : "")
        << (tile.bias ? ", bias" : "") << (tile.residual ? ", residual" : "")
        << (tile.residual_after ? " after" : "") << (tile.relu ? ", relu" : "")
        << (tile.clamp ? ", clamp" : "");
  }
}

// What the kernels ask for: rows of a matrix, maps blocked by channels, A by columns, few steps.
std::vector<Shape> shapes(int lanes, int rows) {
  const int64_t map = (rows + 2) * lanes;
  std::vector<Shape> all;
  for (int steps : {0, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33}) {
    all.push_back({"matrix", steps + 3, 0, {{0, 0}}, 1, steps, steps});
  }
  all.push_back({"two products", 40, 0, {{0, 0}, {rows * 40 + 5, 0}}, 1, 35, 35});
  all.push_back({"map", lanes, map, {{0, 0}}, 3, lanes, lanes});
  all.push_back({"one block", lanes, map, {{0, 0}}, 1, lanes, lanes});
  all.push_back({"map, taps", lanes, 3 * map, {{0, 0}, {lanes, 0}, {map, 0}}, 3, lanes, lanes});
  all.push_back({"map, short last block", lanes, map, {{0, 0}, {lanes, 0}}, 3, lanes, 3});
  all.push_back({"map, no taps", lanes, map, {}, 2, lanes, lanes});
  all.push_back({"stride 2", 2 * lanes, 2 * map, {{0, 0}, {lanes, 0}}, 2, lanes, lanes});
  all.push_back({"no taps", 2 * lanes, 2 * map, {}, 2, lanes, lanes});
  all.push_back({"by columns", 1, rows + 1, {{2, 0}}, 13, 1, 1});
  all.push_back({"by columns, taps", 1, rows + 9, {{2, 0}, {5, 0}}, 5, 1, 1});
  return all;
}

TEST(Tile, EveryShapeIsExact) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  for (Isa isa : usable_isas()) {
    const TileSet& set = tile_set(isa);
    for (int vectors = 1; vectors <= TileSet::kMaxVectors; ++vectors) {
      ASSERT_GE(set.max_rows[vectors], 1);
      for (int rows = 1; rows <= TileSet::kMaxRows; ++rows) {
        ASSERT_EQ(set.run[vectors][rows] != nullptr, rows <= set.max_rows[vectors]);
        if (rows > set.max_rows[vectors]) continue;
        for (const Shape& shape : shapes(set.lanes, rows)) {
          for (int i = 0; i < 8; ++i) {
            check(set, rows, vectors, shape, random);
            if (HasFatalFailure()) return;
          }
        }
      }
    }
  }
}

TEST(Tile, NanPassesTheBounds) {
  for (Isa isa : usable_isas()) {
    const TileSet& set = tile_set(isa);
    const std::vector<float> b(static_cast<size_t>(set.lanes), 1.0f);
    for (int bound = 0; bound < 2; ++bound) {
      const Fenced a(1), c(set.lanes), panel(set.lanes);
      a.get()[0] = std::numeric_limits<float>::quiet_NaN();
      std::copy(b.begin(), b.end(), panel.get());
      Tile tile{.a = a.get(), .b = panel.get(), .taps = &kNoTap, .steps = 1, .last_steps = 1};
      tile.c = c.get();
      tile.relu = bound == 0;
      tile.clamp = bound == 1;
      tile.hi = 1;
      set.run[1][1](tile);
      for (int i = 0; i < set.lanes; ++i) EXPECT_TRUE(std::isnan(c.get()[i]));
    }
  }
}

}  // namespace
}  // namespace stretto::kernels
