#include <algorithm>
#include <map>
#include <memory>

#include "stretto/base/error.h"
#include "stretto/comm/gradient/exchange.h"
#include "stretto/comm/gradient/stages/stages.h"

namespace stretto::comm {
namespace {

// The state that lasts from step to step. Exchanges point to factors, which a map never moves.
struct State {
  PowerSgdOptions options;
  Residuals residuals;
  std::map<std::string, PowerSgd> factors;  // by parameter
};

class Matrices {
 public:
  Matrices(std::shared_ptr<State> state, const Bucket& bucket)
      : state_(std::move(state)), bucket_(bucket) {
    auto* values = static_cast<float*>(bucket.values);
    for (const GradientSlice& slice : bucket.slices) {
      if (suits(slice))
        matrices_.push_back({&slice, values, &factors(slice), {}});
      else
        rest_.push_back({values, slice.count});
      values += slice.count;
    }
  }

  bool none() const { return matrices_.empty(); }

  Operation stage(int index) {
    if (index == 1) take_back();
    packed_.clear();
    for (Matrix& matrix : matrices_) {
      matrix.wanted = index == 0 ? matrix.factors->begin(
                                       matrix.gradient,
                                       state_->residuals.of({*matrix.slice}, bucket_.loss_scale))
                                 : matrix.factors->next();
      const auto* from = static_cast<const float*>(matrix.wanted.input);
      packed_.insert(packed_.end(), from, from + matrix.wanted.count);
    }
    for (const Rest& rest : rest_)
      if (index == 0) packed_.insert(packed_.end(), rest.values, rest.values + rest.count);
    return average(packed_.data(), static_cast<int64_t>(packed_.size()), "none",
                   fmt::format("{} of {}", index == 0 ? "P" : "Q", label(bucket_.slices)));
  }

  void finish() {
    const float* from = packed_.data();
    for (Matrix& matrix : matrices_) from = fill(matrix, from);
    for (Matrix& matrix : matrices_) matrix.factors->finish(matrix.gradient);
  }

 private:
  struct Matrix {
    const GradientSlice* slice;
    float* gradient;
    PowerSgd* factors;
    WantedCollective wanted;
  };
  struct Rest {
    float* values;
    int64_t count;
  };

  bool suits(const GradientSlice& slice) const {
    return slice.is_matrix() && slice.count >= kCodedElements &&
           PowerSgd::worthwhile(slice.rows, slice.columns, state_->options.rank);
  }

  PowerSgd& factors(const GradientSlice& slice) {
    return state_->factors
        .try_emplace(fmt::format("{} {}x{}", slice.parameter, slice.rows, slice.columns),
                     state_->options, slice.rows, slice.columns)
        .first->second;
  }

  static const float* fill(const Matrix& matrix, const float* from) {
    std::copy_n(from, matrix.wanted.count, static_cast<float*>(matrix.wanted.output));
    return from + matrix.wanted.count;
  }

  void take_back() {
    const float* from = packed_.data();
    for (const Matrix& matrix : matrices_) from = fill(matrix, from);
    for (const Rest& rest : rest_) {
      std::copy_n(from, rest.count, rest.values);
      from += rest.count;
    }
  }

  const std::shared_ptr<State> state_;
  const Bucket& bucket_;
  std::vector<Matrix> matrices_;
  std::vector<Rest> rest_;
  std::vector<float> packed_;
};

}  // namespace

StartExchange powersgd_exchange(std::string_view, const GradientGroup& group,
                                const Options& options) {
  auto state = std::make_shared<State>();
  state->options.rank = options.powersgd_rank;
  const StartExchange plain = plain_exchange("none", group, options);
  return [=](const Bucket& bucket) -> Exchange {
    if (bucket.dtype != DType::kFloat32) return plain(bucket);
    auto matrices = std::make_shared<Matrices>(state, bucket);
    if (matrices->none()) return plain(bucket);
    return {.end_stage = 2,
            .stage = [matrices](int index) { return std::vector{matrices->stage(index)}; },
            .finish = [matrices] { matrices->finish(); }};
  };
}

}  // namespace stretto::comm
