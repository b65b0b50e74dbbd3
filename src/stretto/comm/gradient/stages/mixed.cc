#include <cmath>
#include <limits>
#include <vector>

#include "stretto/base/error.h"
#include "stretto/comm/gradient/stages/stages.h"
#include "stretto/tune/choose.h"

namespace stretto::comm {
namespace {

// A codec's time counts so many times: it is measured on a core that has nothing else to do, but
// then runs beside the backward pass, which the wire does not slow down.
constexpr double kBusyCore = 2;

}  // namespace

WantedCollective Mixed::begin(Isa isa, const float* gradient, int64_t count,
                              std::span<const double> encode_s) {
  const std::span<const Codec> rows = codecs();
  if (!encode_s.empty() && encode_s.size() != rows.size())
    throw_invalid("mixed: expected {} encoding times, got {}", rows.size(), encode_s.size());
  count_ = count;
  measured_.assign(2 * rows.size(), 0);
  agreed_ = measured_;
  double norm = 0;
  for (int64_t i = 0; i < count; ++i) norm += static_cast<double>(gradient[i]) * gradient[i];
  std::vector<std::byte> coded;
  std::vector<float> decoded(static_cast<size_t>(count));
  for (size_t row = 0; row < rows.size(); ++row) {
    if (!encode_s.empty()) measured_[rows.size() + row] = static_cast<float>(encode_s[row]);
    coded.resize(static_cast<size_t>(rows[row].encoded_bytes(count)));
    rows[row].encode(isa, gradient, nullptr, count, coded.data());
    rows[row].decode(isa, coded.data(), count, decoded.data());
    double error = 0;
    for (int64_t i = 0; i < count; ++i) {
      const double difference = static_cast<double>(decoded[i]) - gradient[i];
      error += difference * difference;
    }
    // A gradient that is not finite gives no error, so only `none` is allowed.
    float relative = norm > 0 ? static_cast<float>(std::sqrt(error / norm)) : 0;
    if (!std::isfinite(norm) || !std::isfinite(relative))
      relative = row == 0 ? 0 : std::numeric_limits<float>::infinity();
    measured_[row] = relative;
  }
  return {.op = ReduceOp::kMax,
          .count = static_cast<int64_t>(measured_.size()),
          .input = measured_.data(),
          .output = agreed_.data()};
}

const Codec& Mixed::finish(double wire_s_per_byte) {
  const std::span<const Codec> rows = codecs();
  seconds_.clear();
  for (size_t row = 0; row < rows.size(); ++row) {
    seconds_.push_back(static_cast<double>(rows[row].encoded_bytes(count_)) * wire_s_per_byte +
                       kBusyCore * agreed_[rows.size() + row]);
  }
  const int winner = tune::choose_checked(seconds_, [&](int row, std::span<const double>) {
    return agreed_[static_cast<size_t>(row)] <= options_.error_bound;
  });
  if (winner >= 0) choice_ = static_cast<size_t>(winner);
  return choice();
}

void Mixed::prefer(const Codec& codec, double extra_s) {
  const auto row = static_cast<size_t>(&codec - codecs().data());
  if (agreed_[row] <= options_.error_bound && seconds_[row] <= seconds_[choice_] + extra_s)
    choice_ = row;
}

}  // namespace stretto::comm
