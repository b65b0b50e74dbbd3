// Codecs that need collectives of their own, as pure state machines. begin() returns the collective
// that the codec needs; the caller runs it on all ranks and makes the next call. There is one
// object per tensor. The gradient and the residual (from a ResidualStore) belong to the caller and
// must not move between begin() and finish(). After finish() the gradient is the average over
// ranks, with the same bits on every rank. Not thread-safe.
//
// If a gradient holds inf or NaN, the result holds inf or NaN on every rank, so that a loss scaler
// skips the step. Residuals, momenta and factors stay finite.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "stretto/base/cpu.h"
#include "stretto/comm/codec/codec.h"
#include "stretto/comm/collective/schedule.h"
#include "stretto/comm/reduce/reduce.h"
#include "stretto/tensor/dtype.h"

namespace stretto::comm {

// A collective on buffers of the state machine, which are valid until its next call.
struct WantedCollective {
  Collective kind = Collective::kAllReduce;
  DType dtype = DType::kFloat32;
  ReduceOp op = ReduceOp::kAverage;
  int64_t count = 0;  // all_reduce: of the tensor; all_gather: of each block
  const void* input = nullptr;
  void* output = nullptr;
};

struct TopKOptions {
  double density = 0.001;       // share of the values that is sent
  int64_t warmup_steps = 1000;  // density goes from 1/4 to 1/256 by factors of 4, then to `density`
  int64_t least = 0;   // values that are sent at least, or an eighth of all if those are fewer
  float momentum = 0;  // 0: the optimizer has the momentum; otherwise momentum correction,
                       // with the optimizer's momentum set to 0
};

// Deep gradient compression (Lin et al., 2018): sends the greatest values of the accumulated
// gradients and keeps the others in the residual, with momentum correction and momentum factor
// masking.
class TopK {
 public:
  TopK(TopKOptions options, int ranks, int64_t count);

  double density(int64_t step) const;
  WantedCollective begin(const float* gradient, float* residual, int64_t step);
  void finish(float* gradient);

 private:
  void select(const float* gradient, const float* residual, int64_t chosen);

  const TopKOptions options_;
  const int ranks_;
  const int64_t count_;
  std::vector<float> velocity_;           // momentum, when there is any
  std::vector<int32_t> sent_, received_;  // indices, then values, of one rank and of all
  std::vector<int64_t> boundary_;         // candidates of equal leading bits
};

struct PowerSgdOptions {
  int rank = 2;
  uint64_t seed = 1;  // the same on all ranks
};

// PowerSGD (Vogels et al., 2019): a gradient of rows x columns is approximated by P Q^T with `rank`
// columns each, from one step of subspace iteration that starts from the last step's Q.
class PowerSgd {
 public:
  PowerSgd(PowerSgdOptions options, int64_t rows, int64_t columns);

  // Whether P and Q together are less than half of the matrix.
  static bool worthwhile(int64_t rows, int64_t columns, int rank);

  WantedCollective begin(const float* gradient, float* residual);  // P
  WantedCollective next();                                         // Q
  void finish(float* gradient);

 private:
  void orthogonalise();

  const int rank_;
  const int64_t rows_, columns_;
  const float* gradient_ = nullptr;
  float* residual_ = nullptr;           // gradient + residual between begin and finish
  bool finite_ = true;                  // on this rank
  std::vector<float> p_, q_, fresh_q_;  // [rank][rows], [rank][columns]
};

struct MixedOptions {
  double error_bound = 0.01;    // of one encoding, relative to the gradient's L2 norm
  int64_t measure_every = 500;  // steps
};

// Chooses one of codecs() for a tensor: the one with the least time on wire and processor whose
// error is within the bound. Uses measurements that all ranks share, so all choose the same.
class Mixed {
 public:
  explicit Mixed(MixedOptions options) : options_(options) {}

  // Encodes the gradient with every codec. encode_s: the seconds that encoding and decoding take
  // with each of codecs() on a core of this rank that is free, measured by the caller; or empty.
  WantedCollective begin(Isa isa, const float* gradient, int64_t count,
                         std::span<const double> encode_s = {});
  // What an encoded byte takes on the wire, the same on all ranks.
  const Codec& finish(double wire_s_per_byte);

  const Codec& choice() const { return codecs()[choice_]; }
  // Takes another codec of codecs() instead, if its error is within the bound and it takes at most
  // `extra_s` longer than the choice.
  void prefer(const Codec& codec, double extra_s);
  std::span<const float> errors() const { return {agreed_.data(), agreed_.size() / 2}; }

 private:
  const MixedOptions options_;
  int64_t count_ = 0;
  size_t choice_ = 0;
  std::vector<float> measured_, agreed_;  // errors, then seconds, of every codec
  std::vector<double> seconds_;           // with the wire, as finish() compared them
};

}  // namespace stretto::comm
