// Operators of ai.onnx.ml on strings and maps: CategoryMapper, OneHotEncoder, ZipMap.
#include <algorithm>
#include <map>

#include "stretto/base/error.h"
#include "stretto/ir/host/host.h"

namespace stretto::ir {
namespace {

using Texts = std::vector<std::string>;

Texts texts_of(const HostCall& call, std::string_view name) {
  const Attribute* found = call.attributes.find(name);
  const auto* list = found == nullptr ? nullptr : std::get_if<Texts>(found);
  return list == nullptr ? Texts{} : *list;
}

template <typename Key>
std::map<Key, size_t> places_of(const std::vector<Key>& keys) {
  std::map<Key, size_t> places;
  for (size_t i = 0; i < keys.size(); ++i) places.try_emplace(keys[i], i);
  return places;
}

}  // namespace

void host_category_mapper(HostCall& call) {
  const Texts texts = texts_of(call, "cats_strings");
  const std::vector<int64_t> integers = call.attributes.integers("cats_int64s", {});
  if (texts.size() != integers.size()) {
    call.fail(fmt::format("cats_strings and cats_int64s: {} and {} values", texts.size(),
                          integers.size()));
  }
  if (call.input(0).is_strings()) {
    const int64_t missing = call.attributes.integer("default_int64", -1);
    const auto places = places_of(texts);
    const Strings& x = call.strings(0);
    Tensor y(DType::kInt64, x.shape);
    std::transform(x.values.begin(), x.values.end(), y.mutable_values<int64_t>().begin(),
                   [&](const std::string& text) {
                     const auto at = places.find(text);
                     return at == places.end() ? missing : integers[at->second];
                   });
    call.outputs[0] = std::move(y);
    return;
  }
  const std::string missing = call.attributes.text("default_string", "_Unused");
  const auto places = places_of(integers);
  Strings y{call.tensor(0).shape(), {}};
  for (int64_t value : call.tensor(0).as_int64s()) {
    const auto at = places.find(value);
    y.values.push_back(at == places.end() ? missing : texts[at->second]);
  }
  call.outputs[0] = std::move(y);
}

// Of strings; the graph has the one of numbers.
void host_one_hot_encoder(HostCall& call) {
  const Texts texts = texts_of(call, "cats_strings");
  if (texts.empty()) call.fail("cats_strings: expected categories for an input of strings");
  const Strings& x = call.strings(0);
  const auto places = places_of(texts);
  if (places.size() != texts.size()) call.fail("cats_strings: a category stands there twice");
  Shape shape = x.shape;
  shape.push_back(static_cast<int64_t>(texts.size()));
  element_count(shape);  // throws where it is too large
  Tensor y(DType::kFloat32, shape);
  const std::span<float> to = y.mutable_values<float>();
  std::fill(to.begin(), to.end(), 0.0f);
  for (size_t i = 0; i < x.values.size(); ++i) {
    const auto at = places.find(x.values[i]);
    if (at != places.end()) {
      to[i * texts.size() + at->second] = 1;
    } else if (call.attributes.integer("zeros", 1) == 0) {
      call.fail(fmt::format("\"{}\" is none of the categories", x.values[i]));
    }
  }
  call.outputs[0] = std::move(y);
}

// One map per row, from labels to the row's numbers.
void host_zip_map(HostCall& call) {
  const Tensor& x = call.tensor(0);
  const size_t rank = x.shape().size();
  if (rank != 1 && rank != 2) {
    call.fail(fmt::format("X: expected one or two dimensions, got {}", call.input(0).kind()));
  }
  auto keys = std::make_shared<MapKeys>();
  keys->texts = texts_of(call, "classlabels_strings");
  if (keys->texts.empty()) keys->integers = call.attributes.integers("classlabels_int64s", {});
  const int64_t columns = x.shape().back();
  if (static_cast<int64_t>(keys->size()) != columns) {
    call.fail(fmt::format("expected {} class labels, got {}", columns, keys->size()));
  }
  const Tensor floats = x.converted(DType::kFloat32);
  const std::span<const float> values = floats.values<float>();
  Sequence rows;
  for (size_t at = 0; columns > 0 && at < values.size(); at += static_cast<size_t>(columns)) {
    const auto row = values.subspan(at, static_cast<size_t>(columns));
    rows.emplace_back(Map{keys, {row.begin(), row.end()}});
  }
  call.outputs[0] = std::move(rows);
}

}  // namespace stretto::ir
