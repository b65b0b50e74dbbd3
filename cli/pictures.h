// Photos for 'stretto infer', and the classes that come out.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "stretto/stretto.h"

namespace stretto::cli {

// Takes the photos out of the values of --input: "photo.jpg", or "image=photo.jpg". Photos of
// different names are an error.
struct Photos {
  std::string name;  // of the input; empty: none was given
  std::vector<std::string> paths;
};
Photos take_photos(std::vector<std::string>& inputs);

// Runs the model on photos, as many at a time as it takes, and puts the outputs together. Throws
// InvalidArgument where the model takes no pictures or needs other inputs besides.
std::vector<Tensor> run_on_photos(const Model& model, const Photos& photos);

struct Class {
  int64_t index = 0;
  std::string label;  // empty without labels
  double score = 0;
};

// The lines of a file, one per class; of an empty name none.
std::vector<std::string> read_labels(const std::string& path);

// Whether an output holds a score for each of several classes: floats of [batch, classes].
bool has_classes(const std::vector<Tensor>& outputs);
// The five best classes of each row of the first output, the best first. Throws InvalidArgument if
// there are labels, and not as many as classes.
std::vector<std::vector<Class>> best_classes(const std::vector<Tensor>& outputs,
                                             const std::vector<std::string>& labels);

void print_classes(const std::vector<std::vector<Class>>& classes, const Photos& photos);
// "pictures" and "classes" of the JSON output.
void add_classes(nlohmann::json& result, const std::vector<std::vector<Class>>& classes,
                 const Photos& photos);

}  // namespace stretto::cli
