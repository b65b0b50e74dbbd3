#include "stretto/kernels/gather/problem.h"

#include "stretto/kernels/row_check.h"

namespace stretto::kernels {
namespace {

TEST(Gather, ShapesTypesThreads) {
  for (int threads : {1, 2, 3}) {
    for (int64_t inner : {1, 2, 7, 64}) {
      for (int64_t outer : {0, 1, 3}) {
        for (DType dtype : {DType::kFloat32, DType::kInt64, DType::kBool}) {
          for (DType index : {DType::kInt64, DType::kInt32}) {
            GatherProblem p{.outer = outer,
                            .axis = 5,
                            .inner = inner,
                            .indices = 23,
                            .dtype = dtype,
                            .index_dtype = index};
            p.target.threads = threads;
            EXPECT_GT(check_rows(kGather, p, 0), 0);  // data movement is exact
          }
        }
      }
    }
  }
  check_rows(kGather, GatherProblem{.axis = 4, .inner = 3, .indices = 0}, 0);
}

TEST(Gather, RunsOfIndicesThatFollowEachOther) {
  for (const int threads : {1, 2, 3}) {
    for (const int64_t step : {1, 7, 40, 300}) {  // indices of a run
      for (const int64_t inner : {1, 2, 3}) {
        GatherProblem p{.outer = 5, .axis = 700, .inner = inner, .indices = 1000};
        p.target.threads = threads;
        check_rows(kGather, p, 0, [&](Workbench& b) {
          int64_t* index = reinterpret_cast<int64_t*>(b.input(1).data());
          for (int64_t i = 0; i < p.indices; ++i) {
            index[i] = (i / step * 211 + i) % p.axis - (i % 3 == 0 ? p.axis : 0);
          }
          index[500] = p.axis;  // zeros, before the first entry
          index[501] = 0;
          index[502] = -p.axis - 1;
        });
      }
    }
  }
}

TEST(Gather, NegativeAndOutOfRange) {
  const GatherProblem p{.outer = 2, .axis = 4, .inner = 1, .indices = 6};
  check_rows(kGather, p, 0, [](Workbench& b) {
    int64_t* index = reinterpret_cast<int64_t*>(b.input(1).data());
    const int64_t values[] = {-1, -4, -5, 4, 0, 1000000};
    std::copy(std::begin(values), std::end(values), index);
  });
  Workbench bench(kGather, &p);
  bench.unalign_inputs();
  int64_t* index = reinterpret_cast<int64_t*>(bench.input(1).data());
  index[0] = -1;
  index[1] = 7;
  bench.run(0);
  EXPECT_EQ(bench.output(0)[0], bench.input(0)[3]);
  EXPECT_EQ(bench.output(0)[1], 0);
}

}  // namespace
}  // namespace stretto::kernels
