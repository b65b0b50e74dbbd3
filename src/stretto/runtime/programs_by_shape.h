// A model with open dimensions: one program per set of input shapes, made when it is first asked
// for. All come from one source with one set of packed weights, so a new shape costs no packing.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "stretto/import/model.h"
#include "stretto/import/onnx/import.h"
#include "stretto/runtime/program.h"
#include "stretto/runtime/siblings.h"
#include "stretto/runtime/stored_model.h"
#include "stretto/tensor/shape_range.h"

namespace stretto::runtime {

struct OpenInput {
  std::string name;
  ShapeRange shape;
};

// Where the graphs for new shapes come from.
struct ShapeSource {
  // The model with these shapes, by input name. Called by one thread at a time.
  std::function<ImportedModel(const std::map<std::string, Shape>&)> import;
  // As artefacts hold it; views, as long as this object lives.
  std::function<StoredModel()> stored;
};

// Of a model that `reader` keeps in memory.
ShapeSource onnx_source(std::shared_ptr<onnx::Reader> reader);

class ProgramsByShape {
 public:
  // `lengths`: the input by which programs for real tokens are made, too; empty: none are.
  // `siblings`: of other programs of the model, whose weights are shared; null: there are none.
  ProgramsByShape(std::vector<OpenInput> inputs, ShapeSource source, std::string lengths = {},
                  std::shared_ptr<Siblings> siblings = nullptr)
      : inputs_(std::move(inputs)),
        source_(std::move(source)),
        lengths_(std::move(lengths)),
        siblings_(siblings ? std::move(siblings) : std::make_shared<Siblings>()) {}

  const std::vector<OpenInput>& inputs() const { return inputs_; }
  const ShapeSource& source() const { return source_; }
  Siblings& siblings() { return *siblings_; }
  bool fixed() const;  // no dimension is open
  const std::string& lengths() const { return lengths_; }

  // Throws InvalidArgument naming the input and what it takes.
  void check(std::span<const Shape> shapes) const;

  // The program for these shapes of the inputs, in their order. Programs used lately are kept, at
  // most kept(); others live as long as somebody holds them. Throws what check() and import throw.
  // With `rows`: the one for at most so many real tokens; `report`: what became of attentions, when
  // it is made now.
  std::shared_ptr<const Program> program(std::span<const Shape> shapes,
                                         const kernels::Target& target, int64_t rows = 0,
                                         passes::Ragged* report = nullptr);
  // Packs what a program for these shapes needs; true if that was not there yet.
  bool pack_for(std::span<const Shape> shapes, const kernels::Target& target);
  // Takes in a program made elsewhere.
  void keep(std::shared_ptr<const Program> program);

  ImportedModel import(std::span<const Shape> shapes) const;
  // The same for callers in any thread. Shapes are not checked.
  ImportedModel import_in_turn(std::span<const Shape> shapes);

  static constexpr size_t kKept = 16;
  // Of models with lengths: what batches of one shape need whose tokens differ fourfold.
  static constexpr size_t kKeptRagged = 64;
  size_t kept() const { return lengths_.empty() ? kKept : kKeptRagged; }

 private:
  std::shared_ptr<const Program> find(std::span<const Shape> shapes, int threads, int64_t rows);

  const std::vector<OpenInput> inputs_;
  const ShapeSource source_;
  const std::string lengths_;
  const std::shared_ptr<Siblings> siblings_;
  std::map<std::string, bool> known_masks_;               // see passes::Ragged
  std::mutex mutex_;                                      // of a program being made
  std::mutex programs_mutex_;                             // of the list
  std::vector<std::shared_ptr<const Program>> programs_;  // the one used last is the last
};

// Whether the program is for these shapes of its inputs, and so many rows.
bool has_shapes(const Program& program, std::span<const Shape> shapes, int64_t rows = 0);

// Its member; null for null.
inline std::shared_ptr<Siblings> siblings_of(const std::shared_ptr<ProgramsByShape>& by_shape) {
  return by_shape ? std::shared_ptr<Siblings>(by_shape, &by_shape->siblings()) : nullptr;
}

}  // namespace stretto::runtime
