// For the families' tests: every row of a family against its reference, on every instruction set
// that this machine can run.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <memory>

#include "stretto/kernels/workbench.h"

namespace stretto::kernels {

// NaN into the padding lanes of a blocked input: no kernel may let them into a real one.
inline void poison_padding(Workbench& bench) {
  const Signature& s = bench.signature();
  for (size_t i = 0; i < s.inputs.size(); ++i) {
    const TensorInfo& info = s.inputs[i];
    if (info.layout != Layout::kBlocked || info.dtype != DType::kFloat32) continue;
    std::span<float> values = bench.input(static_cast<int>(i));
    if (values.empty()) continue;
    const int64_t plane = info.shape[2] * info.shape[3], channels = info.shape[1];
    const int64_t block = bench.block(), blocks = (channels + block - 1) / block;
    for (int64_t at = 0; at < static_cast<int64_t>(values.size()); ++at) {
      if (at / (block * plane) % blocks * block + at % block >= channels) {
        values[at] = std::numeric_limits<float>::quiet_NaN();
      }
    }
  }
}

// One team per size for all tests: making threads costs more than most of these problems.
inline ThreadTeam* shared_team(int threads) {
  static std::map<int, std::unique_ptr<ThreadTeam>> teams;
  auto& team = teams[threads];
  if (!team) team = std::make_unique<ThreadTeam>(threads);
  return team.get();
}

// Seed 7 for the data. `prepare` may overwrite inputs. Returns the rows checked.
template <typename P>
int check_rows(const Family& family, P p, double tolerance,
               const std::function<void(Workbench&)>& prepare = {}) {
  int checked = 0;
  for (Isa isa : usable_isas()) {
    p.target.isa = isa;
    Workbench bench(family, &p, 7, shared_team(p.target.threads));
    poison_padding(bench);
    if (prepare) prepare(bench);
    bench.unalign_inputs();
    for (int row = 0; row < family.rows; ++row) {
      if (row == family.reference) continue;
      if (!family.fits(row, &p).ok) continue;
      ++checked;
      for (const int units : {2, 3, 16}) {
        EXPECT_TRUE(bench.same_in_units(row, units))
            << family.row_name(row) << " on " << family.key(&p) << " in " << units << " units";
      }
      const Difference d = bench.check(row);
      if (d.only_nan && d.worst_index < 0) continue;  // the mean of nothing is NaN: both agree
      EXPECT_LE(d.relative_to_max, tolerance)
          << family.row_name(row) << " on " << family.key(&p) << " at " << d.worst_index << ": got "
          << d.got << ", expected " << d.expected << " (seed 7)";
    }
  }
  return checked;
}

// Sprinkles NaN and both infinities over the real elements of input `i`.
inline void sprinkle_specials(Workbench& bench, int i) {
  std::span<float> x = bench.input(i);
  constexpr float kInf = std::numeric_limits<float>::infinity();
  for (size_t at = 3; at < x.size(); at += 37) {
    x[at] = at % 3 == 0 ? std::numeric_limits<float>::quiet_NaN() : at % 3 == 1 ? kInf : -kInf;
  }
}

}  // namespace stretto::kernels
