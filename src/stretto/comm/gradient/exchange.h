// How gradient codecs use the engine. A bucket goes through stages: each is a list of operations
// that all ranks submit alike, and the next begins when they are done. Encoding happens in between.
//
// Pure state machines: whoever calls (comm/gradients.cc) carries the operations out, from one
// thread, stage by stage in the order in which the exchanges were started. Inf and NaN behave as
// codec/stages.h promises.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "stretto/comm/gradient/bucket.h"
#include "stretto/comm/operation.h"
#include "stretto/comm/options.h"

namespace stretto::comm {

inline constexpr int kStages = 2;
// Shorter tensors are not worth a codec, and are often the ones that need to be exact.
inline constexpr int64_t kCodedElements = 1024;

// One bucket's way. The bucket stays where it is until finish() has been called.
struct Exchange {
  int first_stage = 0, end_stage = 1;  // the same on every rank
  // The operations of a stage; their buffers stay until the next call.
  std::function<std::vector<Operation>(int)> stage;
  std::function<void()> finish;  // after the last stage: the average is in the bucket
};

// Starts the exchange of a bucket, whose elements are in no other exchange that is not finished.
// What a codec keeps from step to step belongs to the function.
using StartExchange = std::function<Exchange(const Bucket&)>;

struct GradientCodec {
  std::string_view name;
  bool staged;  // needs the names and shapes of parameters; the others are rows of codecs()
  StartExchange (*make)(std::string_view name, int ranks, const Options& options);
};

std::span<const GradientCodec> gradient_codecs();
const GradientCodec& find_gradient_codec(std::string_view name);  // throws InvalidArgument

// Averages `count` float32 values in place.
Operation average(float* values, int64_t count, std::string_view codec, std::string_view name);

// "layer1.weight .. layer4.bias (13 gradients)": for errors and traces.
std::string label(std::span<const GradientSlice> slices);

// For the list in codecs.cc. Plain: none, fp16, bf16, int8, the last with residuals.
StartExchange plain_exchange(std::string_view name, int ranks, const Options& options);
// The greatest values of a bucket, as one tensor.
StartExchange topk_exchange(std::string_view name, int ranks, const Options& options);
// Every matrix for which it pays; what is left of a bucket is averaged as it is, together with the
// first factors.
StartExchange powersgd_exchange(std::string_view name, int ranks, const Options& options);
// The codec that is fastest for a tensor within an error bound, from measurements of all ranks.
StartExchange mixed_exchange(std::string_view name, int ranks, const Options& options);

}  // namespace stretto::comm
