#include "stretto/runtime/programs_by_shape.h"

#include <algorithm>

#include "stretto/base/error.h"

namespace stretto::runtime {

bool has_shapes(const Program& program, std::span<const Shape> shapes, int64_t rows) {
  return program.rows == rows &&
         std::equal(shapes.begin(), shapes.end(), program.inputs.begin(), program.inputs.end(),
                    [](const Shape& shape, const TensorSpec& spec) { return shape == spec.shape; });
}

ShapeSource onnx_source(std::shared_ptr<onnx::Reader> reader) {
  ShapeSource source;
  source.stored = [reader] { return stored_model(*reader); };
  source.import = [reader = std::move(reader)](const std::map<std::string, Shape>& shapes) {
    return reader->import({.shapes = shapes});
  };
  return source;
}

void ProgramsByShape::check(std::span<const Shape> shapes) const {
  if (shapes.size() != inputs_.size()) {
    throw_invalid("expected {} inputs, got {}", inputs_.size(), shapes.size());
  }
  std::map<std::string_view, std::pair<int64_t, std::string_view>> named;  // size, input
  for (size_t i = 0; i < shapes.size(); ++i) {
    const OpenInput& input = inputs_[i];
    const Shape& shape = shapes[i];
    bool fits = shape.size() == input.shape.size();
    for (size_t axis = 0; fits && axis < shape.size(); ++axis) {
      const Dimension& d = input.shape[axis];
      fits = shape[axis] >= d.least && shape[axis] <= d.most;
    }
    if (!fits) {
      throw_invalid("input {}: expected shape {}, got {}", input.name,
                    shape_range_text(input.shape), shape_text(shape));
    }
    for (size_t axis = 0; axis < shape.size(); ++axis) {
      const std::string& name = input.shape[axis].name;
      if (name.empty()) continue;
      const auto [at, fresh] = named.try_emplace(name, shape[axis], input.name);
      if (fresh || at->second.first == shape[axis]) continue;
      throw_invalid("input {}: dimension {} is {} here and {} in input {}", input.name, name,
                    shape[axis], at->second.first, at->second.second);
    }
  }
}

ImportedModel ProgramsByShape::import(std::span<const Shape> shapes) const {
  std::map<std::string, Shape> by_name;
  for (size_t i = 0; i < inputs_.size(); ++i) by_name[inputs_[i].name] = shapes[i];
  return source_.import(by_name);
}

ImportedModel ProgramsByShape::import_in_turn(std::span<const Shape> shapes) {
  const std::lock_guard lock(mutex_);
  return import(shapes);
}

bool ProgramsByShape::fixed() const {
  return std::all_of(inputs_.begin(), inputs_.end(),
                     [](const OpenInput& input) { return is_fixed(input.shape); });
}

std::shared_ptr<const Program> ProgramsByShape::find(std::span<const Shape> shapes, int threads,
                                                     int64_t rows) {
  const std::lock_guard lock(programs_mutex_);
  const auto at = std::find_if(programs_.begin(), programs_.end(), [&](const auto& program) {
    return program->target.threads == threads && has_shapes(*program, shapes, rows);
  });
  if (at == programs_.end()) return nullptr;
  std::rotate(at, at + 1, programs_.end());
  return programs_.back();
}

void ProgramsByShape::keep(std::shared_ptr<const Program> program) {
  const std::lock_guard lock(programs_mutex_);
  programs_.push_back(std::move(program));
  if (programs_.size() > kept()) programs_.erase(programs_.begin());
}

bool ProgramsByShape::pack_for(std::span<const Shape> shapes, const kernels::Target& target) {
  check(shapes);
  const int64_t before = siblings_->weights().bytes();
  siblings_->compile(import_in_turn(shapes), target, {}, false);
  return siblings_->weights().bytes() > before;
}

std::shared_ptr<const Program> ProgramsByShape::program(std::span<const Shape> shapes,
                                                        const kernels::Target& target, int64_t rows,
                                                        passes::Ragged* report) {
  if (auto found = find(shapes, target.threads, rows)) return found;
  check(shapes);
  const std::lock_guard lock(mutex_);
  if (auto found = find(shapes, target.threads, rows)) return found;  // made while this one waited
  passes::Ragged ragged{.mask = lengths_, .rows = rows, .known = &known_masks_};
  auto program = siblings_->compile(import(shapes), target, {}, true, rows > 0 ? &ragged : nullptr);
  if (report != nullptr) *report = std::move(ragged);
  keep(program);
  return program;
}

}  // namespace stretto::runtime
