// How gradient codecs use the engine. A bucket goes through stages. A stage is a list of operations
// that all ranks submit alike; the next stage begins when they are done. Encoding happens in
// between.
//
// These are pure state machines. The caller (comm/gradient/gradients.cc) runs the operations from
// one thread, stage by stage in the order in which exchanges were started. Inf and NaN behave as
// gradient/stages/stages.h says.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "stretto/comm/engine/operation.h"
#include "stretto/comm/gradient/bucket.h"
#include "stretto/comm/options.h"
#include "stretto/comm/tuning/group_links.h"

namespace stretto::comm {

inline constexpr int kStages = 2;
// Shorter tensors are not encoded: it does not pay, and they are often those that must be exact.
inline constexpr int64_t kCodedElements = 1024;

// The exchange of one bucket, which must not move until finish() has returned.
struct Exchange {
  int first_stage = 0, end_stage = 1;  // the same on every rank
  // Returns the operations of a stage; their buffers are valid until the next call.
  std::function<std::vector<Operation>(int)> stage;
  std::function<void()> finish;  // called after the last stage; puts the average into the bucket
};

// Starts the exchange of a bucket that shares no elements with an unfinished one. The function owns
// what a codec keeps from step to step.
using StartExchange = std::function<Exchange(const Bucket&)>;

// The ranks that average gradients.
struct GradientGroup {
  int ranks = 1;
  std::function<GroupLinks()> links;  // what this rank knows now (Engine::link_model)
};

struct GradientCodec {
  std::string_view name;
  StartExchange (*make)(std::string_view name, const GradientGroup& group, const Options& options);
};

std::span<const GradientCodec> gradient_codecs();
const GradientCodec& find_gradient_codec(std::string_view name);  // throws InvalidArgument

// Averages `count` float32 values in place.
Operation average(float* values, int64_t count, std::string_view codec, std::string_view name);

// "layer1.weight .. layer4.bias (13 gradients)", for errors and traces.
std::string label(std::span<const GradientSlice> slices);

// For the list in codecs.cc. Plain: none, fp16, bf16, int8, the last with residuals.
StartExchange plain_exchange(std::string_view name, const GradientGroup& group,
                             const Options& options);
// Sends the greatest values of a bucket, taken as one tensor.
StartExchange topk_exchange(std::string_view name, const GradientGroup& group,
                            const Options& options);
// Factors every matrix for which PowerSgd::worthwhile(); averages the rest of the bucket unchanged,
// together with the first factors.
StartExchange powersgd_exchange(std::string_view name, const GradientGroup& group,
                                const Options& options);
// Chooses for each tensor the fastest codec within an error bound, from measurements of all ranks.
StartExchange mixed_exchange(std::string_view name, const GradientGroup& group,
                             const Options& options);

}  // namespace stretto::comm
