#include "pictures.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <numeric>

#include "model_options.h"
#include "stretto/base/file.h"
#include "stretto/runtime/model_state.h"
#include "table.h"

namespace stretto::cli {
namespace {

constexpr int64_t kMostAtOnce = 16;  // photos of one run: more are no faster and take memory
constexpr size_t kBest = 5;

// Tensors one behind the other along the first axis.
Tensor joined(const std::vector<Tensor>& parts) {
  Shape shape = parts[0].shape();
  shape[0] = 0;
  for (const Tensor& part : parts) shape[0] += part.shape()[0];
  Tensor all(parts[0].dtype(), shape);
  auto* to = static_cast<std::byte*>(all.mutable_data());
  for (const Tensor& part : parts) {
    if (part.bytes() > 0) std::memcpy(to, part.data(), part.bytes());
    to += part.bytes();
  }
  return all;
}

}  // namespace

std::vector<int64_t> group_sizes(const Dimension& batch, int64_t count) {
  const int64_t most = std::max(batch.least, std::min(batch.most, kMostAtOnce));
  const int64_t groups = (count + most - 1) / most;
  if (count / groups < batch.least) {
    throw_invalid("infer: the model takes {} pictures at a time, and {} were given",
                  shape_range_text({batch}), count);
  }
  std::vector<int64_t> sizes(static_cast<size_t>(groups), count / groups);
  for (int64_t i = 0; i < count % groups; ++i) ++sizes[static_cast<size_t>(i)];
  return sizes;
}

Photos take_photos(std::vector<std::string>& inputs) {
  Photos photos;
  std::vector<std::string> others;
  for (const std::string& input : inputs) {
    if (!is_picture(input)) {
      others.push_back(input);
      continue;
    }
    // As other inputs are split; a path with an = in its folders has a / before it.
    const size_t equals = input.find('=');
    const bool named = equals != std::string::npos && input.find('/') > equals;
    const std::string name = named ? input.substr(0, equals) : "";
    if (!photos.paths.empty() && name != photos.name) {
      throw_invalid("--input: photos are given for one input, and {} names another",
                    name.empty() ? photos.name : name);
    }
    photos.name = name;
    photos.paths.push_back(named ? input.substr(equals + 1) : input);
  }
  inputs = std::move(others);
  return photos;
}

std::vector<Tensor> run_on_photos(const Model& model, const Photos& photos) {
  const auto* pictures = model.state().pictures.get();
  if (pictures == nullptr) {
    std::string inputs;
    for (const TensorSpec& spec : model.inputs()) {
      inputs +=
          fmt::format("{}{} {}", inputs.empty() ? "" : ", ", spec.name, shape_text(spec.shape));
    }
    throw_invalid(
        "infer: {} is a picture, and the model takes tensors ({}); optimise it with --preprocess "
        "'imagenet(224)', or the steps that it was trained with",
        photos.paths[0], inputs);
  }
  const std::string& name = model.inputs()[pictures->index].name;
  if (!photos.name.empty() && photos.name != name) {
    throw_invalid("infer: --input {}: the input that takes pictures is {}", photos.name, name);
  }
  if (model.inputs().size() > 1) {
    throw_unsupported(
        "infer: the model has inputs besides {}, so photos cannot be given as files; "
        "run it in Python",
        name);
  }
  const auto count = static_cast<int64_t>(photos.paths.size());
  const auto sizes = group_sizes(model.input_ranges()[pictures->index][0], count);
  Session session(model);
  std::vector<std::vector<Tensor>> parts(model.outputs().size());
  auto path = photos.paths.begin();
  for (const int64_t size : sizes) {
    std::vector<runtime::GivenPicture> group;
    for (int64_t i = 0; i < size; ++i) group.push_back({.path = *path++});
    const std::vector<Tensor> outputs = session.run({runtime::prepare_all(model, group)});
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (size < count && (outputs[i].rank() == 0 || outputs[i].shape()[0] != size)) {
        throw_unsupported(
            "infer: output {} of shape {} is not one per picture; give one photo at "
            "a time",
            model.outputs()[i].name, shape_text(outputs[i].shape()));
      }
      parts[i].push_back(outputs[i]);
    }
  }
  std::vector<Tensor> outputs;
  for (const std::vector<Tensor>& part : parts) {
    outputs.push_back(part.size() == 1 ? part[0] : joined(part));
  }
  return outputs;
}

std::vector<std::string> read_labels(const std::string& path) {
  std::vector<std::string> labels;
  if (path.empty()) return labels;
  const std::string text = read_file(path);
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    labels.push_back(text.substr(begin, end - begin));
    if (labels.back().ends_with('\r')) labels.back().pop_back();
    begin = end + 1;
  }
  if (labels.empty()) throw_invalid("--labels {}: the file has no line", path);
  return labels;
}

bool has_classes(const std::vector<Tensor>& outputs) {
  return !outputs.empty() && is_float(outputs[0].dtype()) && outputs[0].rank() == 2 &&
         outputs[0].shape()[1] > 1;
}

std::vector<std::vector<Class>> best_classes(const std::vector<Tensor>& outputs,
                                             const std::vector<std::string>& labels) {
  const auto rows = static_cast<size_t>(outputs[0].shape()[0]),
             count = static_cast<size_t>(outputs[0].shape()[1]);
  if (!labels.empty() && labels.size() != count) {
    throw_invalid("--labels: the file has {} lines, and the model {} classes", labels.size(),
                  count);
  }
  const std::vector<double> scores = outputs[0].as_doubles();
  std::vector<std::vector<Class>> classes;
  for (size_t row = 0; row < rows; ++row) {
    const double* score = scores.data() + row * count;
    std::vector<size_t> order(count);
    std::iota(order.begin(), order.end(), size_t{0});
    const size_t best = std::min(kBest, count);
    // NaN is below every number.
    const auto before = [&](size_t a, size_t b) {
      if (std::isnan(score[a]) || std::isnan(score[b])) {
        return std::isnan(score[b]) && (!std::isnan(score[a]) || a < b);
      }
      return score[a] > score[b] || (score[a] == score[b] && a < b);
    };
    std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(best), order.end(),
                      before);
    std::vector<Class>& list = classes.emplace_back();
    for (size_t i = 0; i < best; ++i) {
      list.push_back({.index = static_cast<int64_t>(order[i]),
                      .label = labels.empty() ? "" : labels[order[i]],
                      .score = score[order[i]]});
    }
  }
  return classes;
}

void print_classes(const std::vector<std::vector<Class>>& classes, const Photos& photos) {
  const bool named = photos.paths.size() == classes.size();
  bool labelled = false;
  for (size_t row = 0; row < classes.size(); ++row) {
    std::vector<std::string> titles{">class", "label", ">score"};
    labelled = std::any_of(classes[row].begin(), classes[row].end(),
                           [](const Class& one) { return !one.label.empty(); });
    if (!labelled) titles.erase(titles.begin() + 1);
    Table table(titles);
    for (const Class& one : classes[row]) {
      std::vector<std::string> cells{fmt::format("{}", one.index), one.label,
                                     fmt::format("{:.6g}", one.score)};
      if (!labelled) cells.erase(cells.begin() + 1);
      table.row(cells);
    }
    fmt::print("{}\n{}", named ? photos.paths[row] : fmt::format("picture {}", row), table.text());
  }
  if (!labelled) fmt::print("--labels FILE, a line per class, says what the classes are\n");
}

void add_classes(nlohmann::json& result, const std::vector<std::vector<Class>>& classes,
                 const Photos& photos) {
  nlohmann::json rows = nlohmann::json::array();
  for (const std::vector<Class>& best : classes) {
    nlohmann::json row = nlohmann::json::array();
    for (const Class& one : best) {
      row.push_back({{"class", one.index},
                     {"label", one.label.empty() ? nlohmann::json() : nlohmann::json(one.label)},
                     {"score", one.score}});
    }
    rows.push_back(std::move(row));
  }
  result["pictures"] = photos.paths;
  result["classes"] = std::move(rows);
}

}  // namespace stretto::cli
