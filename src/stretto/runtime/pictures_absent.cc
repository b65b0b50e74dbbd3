// In the place of pictures.cc where the decoders of pictures are not built.
#include "stretto/base/error.h"
#include "stretto/runtime/pictures.h"

namespace stretto::media {
struct Preprocess {};
}  // namespace stretto::media

namespace stretto::runtime {
namespace {

[[noreturn]] void refuse() {
  throw_unsupported(
      "preprocess: this build of Stretto was configured without pictures "
      "(STRETTO_BUILD_MEDIA=OFF); use one with them");
}

}  // namespace

std::shared_ptr<const media::Preprocess> parse_steps(const std::string&) { refuse(); }

PictureInput find_picture_input(const OptimizeOptions&, const std::vector<onnx::DeclaredInput>&,
                                const std::string&) {
  refuse();
}

std::shared_ptr<const Pictures> make_pictures(const std::string&, size_t, bool,
                                              const std::vector<TensorSpec>&,
                                              std::vector<ShapeRange>) {
  refuse();
}

Tensor prepared(const media::Preprocess&, bool, DType, const Tensor&, const std::string&, int) {
  refuse();
}

Tensor prepared(const Pictures&, const TensorSpec&, const Tensor&, int) { refuse(); }

double time_preprocess(const Pictures&, DType) { refuse(); }

}  // namespace stretto::runtime
