#include <algorithm>
#include <numeric>
#include <set>
#include <unordered_map>

#include "stretto/base/error.h"
#include "stretto/base/interrupt.h"
#include "stretto/data/index.h"

namespace stretto::data {
namespace {

using Names = std::vector<std::string>;

bool has_labels(const Dataset& dataset) {
  for (int64_t i = 0; i < dataset.size(); ++i) {
    if (dataset.sample(i).label >= 0) return true;
    for (const Annotation& a : dataset.annotations(i)) {
      if (a.label >= 0) return true;
    }
  }
  return false;
}

// All names, and for each dataset what its labels become; empty: they stay.
Names merge_classes(std::span<const Dataset> datasets, std::vector<std::vector<int64_t>>& labels) {
  const auto named = std::find_if(datasets.begin(), datasets.end(),
                                  [](const Dataset& d) { return !d.class_names().empty(); });
  labels.assign(datasets.size(), {});
  if (named == datasets.end()) return {};
  for (const Dataset& d : datasets) {
    // Numbers in label maps stay as they are.
    if (d.class_names().empty() && has_labels(d)) {
      throw_invalid(
          "concat: {} has names of classes, and the labels of {} are numbers without names: "
          "expected names in both, or in none",
          named->source(), d.source());
    }
  }
  const bool same = std::all_of(datasets.begin(), datasets.end(), [&](const Dataset& d) {
    return d.class_names().empty() || d.class_names() == named->class_names();
  });
  if (same) return named->class_names();
  Names all;
  std::unordered_map<std::string, int64_t> numbers;
  for (size_t k = 0; k < datasets.size(); ++k) {
    std::set<std::string_view> seen;
    for (const std::string& name : datasets[k].class_names()) {
      if (!seen.insert(name).second) {
        throw_invalid(
            "concat: two classes of {} are called \"{}\", so that the classes of other "
            "sources cannot be told by name",
            datasets[k].source(), name);
      }
      const auto [at, added] = numbers.emplace(name, static_cast<int64_t>(all.size()));
      if (added) all.push_back(name);
      labels[k].push_back(at->second);
    }
  }
  return all;
}

int64_t relabelled(int64_t label, const std::vector<int64_t>& labels) {
  return label < 0 || labels.empty() ? label : labels[static_cast<size_t>(label)];
}

// The containers of a dataset, with what they are; a folder of files is one.
void add_containers(const Dataset::Table& from, Dataset::Table& to) {
  if (!from.one_file_each_below.empty()) {
    to.containers.push_back(from.one_file_each_below);
    to.container_kinds.push_back(from.masks_beside ? ContainerIs::kMasked : ContainerIs::kFolder);
    return;
  }
  to.containers.insert(to.containers.end(), from.containers.begin(), from.containers.end());
  if (from.container_kinds.empty()) {
    to.container_kinds.resize(to.containers.size(), ContainerIs::kFile);
  } else {
    to.container_kinds.insert(to.container_kinds.end(), from.container_kinds.begin(),
                              from.container_kinds.end());
  }
}

}  // namespace

Dataset concat(std::span<const Dataset> datasets) {
  if (datasets.empty()) throw_invalid("concat: expected at least one dataset");
  if (datasets.size() == 1) return datasets.front();
  std::vector<std::vector<int64_t>> labels;
  TableBuilder builder;
  Dataset::Table& table = builder.table();
  table.kind = "concat";
  table.class_names = merge_classes(datasets, labels);
  std::vector<Annotation> boxes;
  for (size_t k = 0; k < datasets.size(); ++k) {
    const Dataset& d = datasets[k];
    table.source += (k == 0 ? "" : ", ") + d.source();
    for (Part part : d.parts()) {
      part.begin += builder.size();
      table.parts.push_back(std::move(part));
    }
    for (RemotePart part : remote_parts(d)) {
      part.begin += builder.size();
      table.remote_parts.push_back(std::move(part));
    }
    const auto first = static_cast<uint32_t>(table.containers.size());
    add_containers(*d.table_, table);
    const bool one_folder = !d.table_->one_file_each_below.empty();
    for (int64_t i = 0; i < d.size(); ++i) {
      check_interrupt();
      const Sample s = d.sample(i);
      const auto found = d.annotations(i);
      boxes.assign(found.begin(), found.end());
      for (Annotation& box : boxes) box.label = relabelled(box.label, labels[k]);
      builder.add(d.name(i),
                  {.offset = s.offset,
                   .length = s.length,
                   .label = relabelled(s.label, labels[k]),
                   .container = first + (one_folder ? 0 : s.container),
                   .width = s.width,
                   .height = s.height,
                   .restart_bytes = s.restart_bytes,
                   .details_bytes = s.details_bytes},
                  boxes, d.details(i));
    }
  }
  return Dataset(std::move(builder).take());
}

}  // namespace stretto::data
