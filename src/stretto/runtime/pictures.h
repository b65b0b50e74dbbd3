// Models that take pictures: OptimizeOptions::preprocess turned into a stage before the program.
//
// The stage is no part of the graph, because the size of a picture is none of the graph's: pictures
// of any size need no other program. In a build without the decoders (STRETTO_BUILD_MEDIA=OFF)
// pictures_absent.cc takes the place of pictures.cc.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "stretto/import/onnx/import.h"
#include "stretto/stretto.h"
#include "stretto/tensor/tensor.h"

namespace stretto::media {
struct Preprocess;
}

namespace stretto::runtime {

// Sides and pixels of the pictures that a run takes.
inline constexpr int64_t kMostPictureSide = 1 << 20;

struct Pictures {
  std::string text;  // the steps, as media::preprocess_text() writes them
  std::shared_ptr<const media::Preprocess> steps;
  size_t index = 0;                // of the input among those of the program
  bool channels_last = false;      // of what the program takes
  std::vector<TensorSpec> inputs;  // Model::inputs()
  std::vector<ShapeRange> ranges;  // Model::input_ranges()
};

// The input that takes what the steps of `options` make, before anything is imported. Throws
// InvalidArgument naming `source` where there is none, or more than one.
struct PictureInput {
  size_t index = 0;
  bool channels_last = false;
  Shape shape;  // of one picture: 1 x 3 x H x W or 1 x H x W x 3
};
PictureInput find_picture_input(const OptimizeOptions& options,
                                const std::vector<onnx::DeclaredInput>& declared,
                                const std::string& source);

// The stage before a program with these inputs, `ranges` of which a run may have. Throws
// InvalidArgument where they are none that the steps make, Unsupported without media.
std::shared_ptr<const Pictures> make_pictures(const std::string& steps, size_t index,
                                              bool channels_last,
                                              const std::vector<TensorSpec>& inputs,
                                              std::vector<ShapeRange> ranges);

// What the program takes, as `dtype`, of pixels (H x W x 3, H x W x 1, or a batch of them) or of
// the bytes of one file. `label` names them in errors. At most `threads` threads make a batch.
Tensor prepared(const media::Preprocess& steps, bool channels_last, DType dtype,
                const Tensor& pictures, const std::string& label, int threads);

// The same for a model's input; what is prepared already comes back as it is.
Tensor prepared(const Pictures& pictures, const TensorSpec& taken, const Tensor& given,
                int threads);

// Throws InvalidArgument or, in a build without media, Unsupported.
std::shared_ptr<const media::Preprocess> parse_steps(const std::string& text);

// Milliseconds that one picture of kTimedPicture takes: the median of some runs.
inline constexpr std::array<int64_t, 2> kTimedPicture{375, 500};  // rows, columns
double time_preprocess(const Pictures& pictures, DType dtype);

}  // namespace stretto::runtime
