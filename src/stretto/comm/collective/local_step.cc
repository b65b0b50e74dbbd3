#include "stretto/comm/collective/local_step.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <vector>

#include "stretto/base/error.h"
#include "stretto/comm/reduce/reduce_sum.h"

namespace stretto::comm {
namespace {

// Adds sources of which some are encoded, piece by piece, so that the sums stay in the cache.
class CodedSum {
 public:
  CodedSum(const Schedule& schedule, const Step& step, const LocalBuffers& buffers,
           const LocalContext& context)
      : sources_(schedule.sources(step)), buffers_(buffers), context_(context) {}

  void run(const Step& step) {
    auto* out = reinterpret_cast<float*>(write_at(buffers_, step.place, DType::kFloat32));
    const bool divide = step.last && context_.reduction.op == ReduceOp::kAverage;
    for (int64_t at = 0; at < step.count; at += kPiece) {
      at_ = at;
      count_ = std::min(kPiece, step.count - at);
      sum_hosts();
      if (divide) {
        const float ranks = static_cast<float>(context_.reduction.ranks);
        for (int64_t i = 0; i < count_; ++i) total_[i] /= ranks;
      }
      std::copy_n(total_.data(), count_, out + at);
    }
  }

 private:
  static constexpr int64_t kPiece = 2048;  // a multiple of every codec's block

  void sum_hosts() {
    for (size_t begin = 0, end; begin < sources_.size(); begin = end) {
      end = begin + 1;
      while (end < sources_.size() && !sources_[end].begins_host) ++end;
      // A host of one source is added to the total directly, which gives the same bits.
      const bool alone = begin > 0 && end == begin + 1;
      float* sum = begin == 0 || alone ? total_.data() : host_.data();
      for (size_t s = begin; s < end; ++s) add(sources_[s], sum, !alone && s == begin);
      if (sum == host_.data()) add_plain(host_.data(), total_.data());
    }
  }

  void add(const Source& source, float* sum, bool first) {
    if (source.exponent == 0 || context_.reduction.op != ReduceOp::kAverage)
      return add(source.place, sum, first);
    add(source.place, scaled_.data(), true);
    const float scale = std::ldexp(1.0f, source.exponent);
    for (int64_t i = 0; i < count_; ++i) scaled_[i] *= scale;
    if (first)
      std::copy_n(scaled_.data(), count_, sum);
    else
      add_plain(scaled_.data(), sum);
  }

  void add(Place place, float* sum, bool first) const {
    if (place.buffer == Buffer::kCoded) {
      const Codec& codec = *context_.codec;
      const std::byte* from = buffers_.slots[place.offset] + codec.encoded_bytes(at_);
      return (first ? codec.decode : codec.decode_add)(context_.isa, from, count_, sum);
    }
    const float* from =
        reinterpret_cast<const float*>(read_at(buffers_, place, DType::kFloat32)) + at_;
    if (first)
      std::copy_n(from, count_, sum);
    else
      add_plain(from, sum);
  }

  void add_plain(const float* from, float* sum) const {
    const void* const both[] = {sum, from};
    const HostGroup apart[] = {{.begin = 0, .end = 1}, {.begin = 1, .end = 2}};
    sum_sources(context_.isa, DType::kFloat32, both, apart, 1, count_, sum);
  }

  std::span<const Source> sources_;
  const LocalBuffers& buffers_;
  const LocalContext& context_;
  int64_t at_ = 0, count_ = 0;
  std::array<float, kPiece> total_, host_, scaled_;
};

void reduce_step(const Schedule& schedule, const Step& step, const LocalBuffers& buffers,
                 const LocalContext& context) {
  const std::span<const Source> sources = schedule.sources(step);
  const bool coded = std::any_of(sources.begin(), sources.end(), [](const Source& source) {
    return source.place.buffer == Buffer::kCoded;
  });
  if (coded) return CodedSum(schedule, step, buffers, context).run(step);
  std::vector<ReduceSource> plain;
  for (const Source& source : sources)
    plain.push_back({read_at(buffers, source.place, context.reduction.dtype), source.begins_host,
                     source.host_sum});
  Reduction reduction = context.reduction;
  reduction.last = step.last;
  reduce(context.isa, reduction, plain, step.count, write_at(buffers, step.place, reduction.dtype));
}

// Encodes the values as they are, and adds what that loses of them to the residual.
void encode_sum(const Step& step, const Source& source, const float* values, float* residual,
                std::byte* slot, const LocalContext& context) {
  const bool average = context.reduction.op == ReduceOp::kAverage;
  // As in encode_step; of a partial sum, in the units of contributions.
  const float scale = !average      ? 1.0f
                      : step.result ? static_cast<float>(context.reduction.ranks)
                                    : std::ldexp(1.0f, source.exponent);
  std::array<float, 2048> lost;  // a multiple of every codec's block
  const auto piece = static_cast<int64_t>(lost.size());
  for (int64_t at = 0; at < step.count; at += piece) {
    const int64_t count = std::min(piece, step.count - at);
    std::fill_n(lost.data(), count, 0.0f);
    context.codec->encode(context.isa, values + at, lost.data(), count,
                          slot + context.codec->encoded_bytes(at));
    for (int64_t i = 0; i < count; ++i) residual[at + i] += scale * lost[i];
  }
}

NonFinite encode_step(const Step& step, const Source& from, const LocalBuffers& buffers,
                      const LocalContext& context) {
  const Place source = from.place;
  const Codec& codec = *context.codec;
  std::byte* slot = buffers.slots[step.place.offset];
  float* residual = buffers.residual == nullptr ? nullptr : buffers.residual + source.offset;
  const float* values = reinterpret_cast<const float*>(read_at(buffers, source, DType::kFloat32));
  // The loss of an average becomes a contribution, which a later average divides by the ranks
  // again.
  const bool scaled = residual != nullptr && step.result && !step.adds_loss &&
                      context.reduction.op == ReduceOp::kAverage;
  const float ranks = static_cast<float>(context.reduction.ranks);
  for (int64_t i = 0; scaled && i < step.count; ++i) residual[i] /= ranks;
  NonFinite found;
  if (step.adds_loss && residual != nullptr)
    encode_sum(step, from, values, residual, slot, context);
  else
    found = codec.encode(context.isa, values, residual, step.count, slot);
  for (int64_t i = 0; scaled && i < step.count; ++i) residual[i] *= ranks;
  if (!step.result) return found;
  codec.decode(context.isa, slot, step.count,
               reinterpret_cast<float*>(write_at(buffers, source, DType::kFloat32)));
  return {};
}

constexpr int64_t kResidualBlock = 256;

// Whether all sums are finite. The length is a constant because compilers vectorise that at -O2
// too, which makes it twice as fast.
bool sum_block(const float* a, const float* b, float* sums) {
  for (int64_t i = 0; i < kResidualBlock; ++i) sums[i] = a[i] + b[i];
  int32_t any = 0;
  for (int64_t i = 0; i < kResidualBlock; ++i) {
    const int32_t exponent = std::bit_cast<int32_t>(sums[i]) & 0x7f800000;
    any |= exponent == 0x7f800000 ? -1 : 0;
  }
  return any == 0;
}

}  // namespace

void add_residual(const float* in, float* residual, int64_t count, float* out) {
  std::array<float, kResidualBlock> sums, rest{}, owed{};
  for (int64_t begin = 0; begin < count; begin += kResidualBlock) {
    const int64_t size = std::min(kResidualBlock, count - begin);
    const float *a = in + begin, *b = residual + begin;
    if (size < kResidualBlock) {
      std::copy_n(a, size, rest.data());
      std::copy_n(b, size, owed.data());
      a = rest.data();
      b = owed.data();
    }
    if (sum_block(a, b, sums.data())) {
      std::copy_n(sums.data(), size, out + begin);
      std::fill_n(residual + begin, size, 0.0f);
    } else if (out != in) {
      std::copy_n(in + begin, size, out + begin);
    }
  }
}

const std::byte* read_at(const LocalBuffers& buffers, Place place, DType dtype) {
  const std::byte* base = place.buffer == Buffer::kInput    ? buffers.input
                          : place.buffer == Buffer::kOutput ? buffers.output
                                                            : buffers.scratch;
  return base == nullptr ? nullptr : base + place.offset * static_cast<int64_t>(dtype_bytes(dtype));
}

std::byte* write_at(const LocalBuffers& buffers, Place place, DType dtype) {
  STRETTO_CHECK(place.buffer == Buffer::kOutput || place.buffer == Buffer::kScratch,
                "a step writes to buffer {}", static_cast<int>(place.buffer));
  return const_cast<std::byte*>(read_at(buffers, place, dtype));
}

NonFinite run_local_step(const Schedule& schedule, const Step& step, const LocalBuffers& buffers,
                         const LocalContext& context) {
  const DType dtype = context.reduction.dtype;
  switch (step.action) {
    case Action::kReduce:
      reduce_step(schedule, step, buffers, context);
      return {};
    case Action::kCopy: {
      const std::byte* from = read_at(buffers, schedule.sources(step)[0].place, dtype);
      std::byte* to = write_at(buffers, step.place, dtype);
      if (to != nullptr && to != from)
        std::memcpy(to, from, static_cast<size_t>(step.count) * dtype_bytes(dtype));
      return {};
    }
    case Action::kEncode:
      return encode_step(step, schedule.sources(step)[0], buffers, context);
    case Action::kDecode:
      context.codec->decode(context.isa, buffers.slots[schedule.sources(step)[0].place.offset],
                            step.count,
                            reinterpret_cast<float*>(write_at(buffers, step.place, dtype)));
      return {};
    case Action::kSend:
    case Action::kReceive:
      break;
  }
  STRETTO_CHECK(false, "a transfer is not a local step");
}

}  // namespace stretto::comm
