#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <memory>
#include <random>
#include <utility>

#include "stretto/base/error.h"
#include "stretto/comm/collective/local_step.h"
#include "stretto/comm/gradient/exchange.h"
#include "stretto/comm/gradient/stages/stages.h"
#include "stretto/tune/measure.h"

namespace stretto::comm {
namespace {

constexpr int64_t kProbeElements = 1 << 20;  // more than fits a small cache, as gradients are
// Copying as much would take longer than a message of its own.
constexpr int64_t kInPlaceElements = 16 << 10;
constexpr double kMessage_s = 100e-6;  // of one more operation
// While no rank knows what the wire costs, buckets that can tell are sent as they are: the time of
// a coded all-reduce is often that of its codec, so only plain ones tell. So many steps after the
// first step a tensor is measured again, then after twice as many, and so on. Other buckets, and
// tensors that have waited for kPlainSteps, go by the default cost.
constexpr int64_t kGuessSteps = 4, kPlainSteps = 16;
constexpr int64_t kNoStep = -2;

struct Tensor {
  Mixed mixed;
  int64_t measured_step = -1;  // never
  int64_t wait_steps = 0;      // until it is measured again
  // The last step with a codec without feedback, which leaves no residual. Buckets that are cut
  // anew change the slices of a parameter, so this holds only for the step after.
  int64_t clean_step = kNoStep;
};

// The state that lasts from step to step. Exchanges point to tensors, which a map never moves.
struct State {
  MixedOptions options;
  GradientGroup group;
  Residuals residuals;
  std::map<std::string, Tensor> tensors;
  std::vector<double> element_s;  // the processor's time, per codec; measured once
};

std::vector<double> measure_codecs() {
  std::minstd_rand random(1);
  std::vector<float> values(kProbeElements);
  for (float& value : values) value = static_cast<float>(random()) * 0x1p-30f - 1;
  std::vector<std::byte> coded(static_cast<size_t>(4 * kProbeElements));
  std::vector<float> residual(values.size());
  std::vector<tune::Trial> trials;
  for (const Codec& codec : codecs().subspan(1)) {
    // What a rank of two does to a value: it adds the residual, encodes it or the sum, decodes what
    // it gets for the sum, and decodes the sum, also its own part, which the others have so.
    const auto run = [&] {
      if (codec.feedback)
        add_residual(values.data(), residual.data(), kProbeElements, values.data());
      codec.encode(usable_isa(), values.data(), codec.feedback ? residual.data() : nullptr,
                   kProbeElements, coded.data());
      for (int i = 0; i < 2; ++i)
        codec.decode(usable_isa(), coded.data(), kProbeElements, values.data());
    };
    trials.push_back({std::string(codec.name), run, [] {}});
  }
  // Every codec's time counts, however slow it is: its messages may be the shortest.
  constexpr double kNever = std::numeric_limits<double>::infinity();
  std::vector<double> seconds =
      tune::measure(trials, {.budget_s = 0, .min_rounds = 3, .hopeless = kNever});
  for (double& s : seconds) s /= static_cast<double>(kProbeElements);
  seconds.insert(seconds.begin(), 0);  // nothing is encoded
  return seconds;
}

class MixedExchange {
 public:
  MixedExchange(std::shared_ptr<State> state, const Bucket& bucket)
      : state_(std::move(state)), bucket_(bucket) {
    auto* values = static_cast<float*>(bucket.values);
    for (const GradientSlice& slice : bucket.slices) {
      Tensor& tensor =
          state_->tensors
              .try_emplace(fmt::format("{} {}+{}", slice.parameter, slice.begin, slice.count),
                           Tensor{Mixed(state_->options)})
              .first->second;
      Part part{&slice, values, &tensor, false};
      if (slice.count >= kCodedElements) {
        part.due =
            tensor.measured_step < 0 || bucket.step - tensor.measured_step >= tensor.wait_steps;
        if (part.due) tensor.measured_step = bucket.step;
        measures_ |= part.due;
      }
      parts_.push_back(part);
      values += slice.count;
    }
  }

  bool measures() const { return measures_; }

  std::vector<Operation> stage(int index) {
    if (index == 0) return {measure()};
    if (measures_) decide();
    return send();
  }

  void finish() {
    for (const Message& message : messages_) {
      const float* from = message.packed.data();
      for (const Part* part : message.parts) {
        if (message.packed.empty()) break;
        std::copy_n(from, part->slice->count, part->values);
        from += part->slice->count;
      }
    }
  }

 private:
  struct Part {
    const GradientSlice* slice;
    float* values;
    Tensor* tensor;
    bool due;  // to be measured; never if it is too short for a codec
  };
  // Parts with one codec, which is a row of codecs(). They are packed unless they lie one after
  // another in the bucket.
  struct Message {
    size_t codec = 0;
    int64_t count = 0;
    std::vector<const Part*> parts;
    std::vector<float> packed;
  };

  Operation measure() {
    if (state_->element_s.empty()) state_->element_s = measure_codecs();
    // The greatest of what ranks know counts, so a rank that does not know says 0.
    const GroupLinks links = state_->group.links();
    coded_share_ = links.coded_share;
    measured_.assign(1, static_cast<float>(links.known[kWireByte]));
    for (const Part& part : parts_) {
      if (!part.due) continue;
      std::vector<double> seconds = state_->element_s;
      for (double& s : seconds) s *= static_cast<double>(part.slice->count);
      const WantedCollective wanted =
          part.tensor->mixed.begin(usable_isa(), part.values, part.slice->count, seconds);
      const auto* from = static_cast<const float*>(wanted.input);
      measured_.insert(measured_.end(), from, from + wanted.count);
      outputs_.push_back(wanted);
    }
    Operation operation = average(measured_.data(), static_cast<int64_t>(measured_.size()), "",
                                  "errors of " + label(bucket_.slices));
    operation.codec = "none";
    operation.reduction = ReduceOp::kMax;
    return operation;
  }

  void decide() {
    const bool known = measured_[0] > 0 || coded_share_ == 0;
    const int64_t every = state_->options.measure_every;
    const bool tells = 4 * static_cast<double>(bucket_.count()) * coded_share_ >= kTellingBytes;
    const float* from = measured_.data() + 1;
    auto output = outputs_.begin();
    for (const Part& part : parts_) {
      if (!part.due) continue;
      std::copy_n(from, output->count, static_cast<float*>(output->output));
      from += output->count;
      ++output;
      int64_t& wait = part.tensor->wait_steps;
      const bool waits = tells && wait < kPlainSteps;
      const double byte_s = known ? measured_[0] : waits ? 0 : LinkModel{}.wire_byte_s;
      part.tensor->mixed.finish(byte_s * coded_share_);
      wait = known ? every : std::min(wait == 0 ? kGuessSteps : 2 * wait, every);
    }
    // Short tensors follow the largest one where a message of their own would take longer.
    const auto largest = std::max_element(
        parts_.begin(), parts_.end(),
        [](const Part& a, const Part& b) { return a.slice->count < b.slice->count; });
    for (const Part& part : parts_) {
      if (part.due && part.slice->count < kInPlaceElements)
        part.tensor->mixed.prefer(largest->tensor->mixed.choice(), kMessage_s);
    }
  }

  // Long runs of parts with one codec are sent from where they are, the others of a codec together.
  void group_parts() {
    std::vector<Message> short_runs(codecs().size());
    for (size_t begin = 0, end; begin < parts_.size(); begin = end) {
      Message run{.codec = codec_of(parts_[begin])};
      for (end = begin; end < parts_.size() && codec_of(parts_[end]) == run.codec; ++end) {
        run.parts.push_back(&parts_[end]);
        run.count += parts_[end].slice->count;
      }
      if (run.count >= kInPlaceElements) {
        messages_.push_back(std::move(run));
        continue;
      }
      Message& message = short_runs[run.codec];
      message.codec = run.codec;
      message.count += run.count;
      message.parts.insert(message.parts.end(), run.parts.begin(), run.parts.end());
    }
    for (Message& message : short_runs)
      if (message.count > 0) messages_.push_back(std::move(message));
  }

  size_t codec_of(const Part& part) const {
    return static_cast<size_t>(&part.tensor->mixed.choice() - codecs().data());
  }

  std::vector<Operation> send() {
    group_parts();
    std::vector<Operation> operations;
    for (Message& message : messages_) {
      float* values = message.parts.front()->values;
      std::vector<GradientSlice> slices;
      for (const Part* part : message.parts) slices.push_back(*part->slice);
      const Part& last = *message.parts.back();
      if (last.values + last.slice->count != values + message.count) {
        for (const Part* part : message.parts)
          message.packed.insert(message.packed.end(), part->values,
                                part->values + part->slice->count);
        values = message.packed.data();
      }
      const Codec& codec = codecs()[message.codec];
      operations.push_back(average(values, message.count, codec.name, label(slices)));
      // A codec without feedback sends what int8 has left, once.
      bool residual = codec.feedback;
      for (const Part* part : message.parts) {
        residual |= part->tensor->clean_step != bucket_.step - 1;
        part->tensor->clean_step = codec.feedback ? kNoStep : bucket_.step;
      }
      if (residual) operations.back().residual = state_->residuals.of(slices, bucket_.loss_scale);
    }
    return operations;
  }

  const std::shared_ptr<State> state_;
  const Bucket& bucket_;
  std::vector<Part> parts_;
  bool measures_ = false;
  std::vector<float> measured_;  // seconds per byte through the busiest network card, then errors
  double coded_share_ = 0;
  std::vector<WantedCollective> outputs_;
  std::vector<Message> messages_;
};

}  // namespace

StartExchange mixed_exchange(std::string_view, const GradientGroup& group, const Options& options) {
  auto state = std::make_shared<State>();
  state->group = group;
  state->options.error_bound = options.mixed_error;
  state->options.measure_every = options.mixed_every;
  const StartExchange plain = plain_exchange("none", group, options);
  return [=](const Bucket& bucket) -> Exchange {
    if (bucket.dtype != DType::kFloat32 || bucket.count() < kCodedElements) return plain(bucket);
    auto mixed = std::make_shared<MixedExchange>(state, bucket);
    return {.first_stage = mixed->measures() ? 0 : 1,
            .end_stage = 2,
            .stage = [mixed](int index) { return mixed->stage(index); },
            .finish = [mixed] { mixed->finish(); }};
  };
}

}  // namespace stretto::comm
