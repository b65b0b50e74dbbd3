#include "stretto/kernels/concat_channels/candidates.h"

namespace stretto::kernels {
namespace concat_channels {

// Best first; the reference fits everything.
constexpr const Row* kRows[] = {
    &kBlocks,
    &kReference,
};

}  // namespace concat_channels

constinit const Family kConcatChannels =
    make_family<ConcatChannelsProblem, concat_channels::kRows, concat_channels::kReference>(
        "concat_channels");

}  // namespace stretto::kernels
