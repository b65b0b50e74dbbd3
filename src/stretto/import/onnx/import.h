// Reads ONNX models, opset 6 to the newest, with a reader of our own: the file is mapped, weights
// stay in it where they are aligned, functions and constant branches are expanded, and older forms
// of operators become the newest one.
//
// Errors, always with the file's name: FormatError (broken file, with the byte), InvalidArgument
// (an input whose shape is open; a node that contradicts its operator), Unsupported (operators and
// types that Stretto lacks, all of them in one text).
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "stretto/base/pieces.h"
#include "stretto/import/model.h"

namespace stretto::onnx {

// What stands in a file with weights from byte `offset` on.
struct ExternalData {
  std::string location;  // as the model names the file
  uint64_t offset = 0;
  Pieces bytes;  // each tensor in one of them
};

struct ImportOptions {
  // Shapes of inputs whose file leaves dimensions open, by input name. They must agree with the
  // dimensions that the file fixes, and with each other where the file gives one symbol to several.
  // import_onnx_file() and import_onnx_bytes() make inputs of those that have an initialiser
  // (Reader::feed).
  std::map<std::string, Shape> shapes;
};

// A dimension as the file declares it.
struct DeclaredDimension {
  int64_t size = -1;  // -1: open
  // All of one name are equal; empty: it stands alone, as where the file fixes it. One that has a
  // size as well is open in the file, and the weights behind it fix it.
  std::string name;
};

struct DeclaredInput {
  std::string name;
  std::optional<std::vector<DeclaredDimension>>
      shape;                        // absent: the file does not even say how many
  bool is_tensor = true;            // of numbers; else strings, a sequence or an optional value
  DType dtype = DType::kUndefined;  // of a tensor, where the engine has it
};

class Body;

// A model that stays in memory, to be imported once for every shape that its inputs are given.
// Large constants of all these graphs are the same memory.
class Reader {
 public:
  static std::unique_ptr<Reader> of_file(const std::string& path);
  // `bytes` are copied when a dimension is open, and needed during this call only.
  static std::unique_ptr<Reader> of_bytes(std::span<const std::byte> bytes, const std::string& name,
                                          const std::string& folder);
  // Of bytes that `owner` keeps alive, those of `data` included; nothing is copied, and no file is
  // looked for.
  static std::unique_ptr<Reader> of_memory(std::span<const std::byte> bytes,
                                           std::shared_ptr<const void> owner,
                                           const std::string& name,
                                           std::vector<ExternalData> data = {});
  ~Reader();

  // Makes inputs of those graph inputs of these names that have an initialiser, which is otherwise
  // their value in every run. To be called before all else. Other names are left alone.
  void feed(const std::set<std::string>& names);
  // The names of inputs that have an initialiser and are constants therefore. None of files before
  // version 4 of the format, where every initialiser has to be listed as an input.
  std::vector<std::string> constant_inputs() const;

  const std::vector<DeclaredInput>& inputs() const;
  std::span<const std::byte> bytes() const;  // of the model, as long as this object lives
  // All that tensors of the model, those of its branches and functions included, have in other
  // files: views, as long as this object lives. Throws FormatError where a file is not there.
  std::vector<ExternalData> external_data();
  bool open() const;  // whether the file leaves any dimension open
  // One caller at a time.
  ImportedModel import(const ImportOptions& options = {});
  // What import() says of the model apart from its graph, which stays empty.
  ImportedModel describe() const;
  // The graph to be run in stages (pieces.h), for as long as this object lives. The first thing to
  // be asked for of bytes, which it copies.
  std::unique_ptr<Body> body();

 private:
  struct State;
  void keep_bytes();
  explicit Reader(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

ImportedModel import_onnx_file(const std::string& path, const ImportOptions& options = {});

// The same from memory, which is not needed afterwards; `name` stands for the file in messages, and
// external data is looked for in `folder` (none when empty).
ImportedModel import_onnx_bytes(std::span<const std::byte> bytes, const std::string& name,
                                const std::string& folder = {}, const ImportOptions& options = {});

}  // namespace stretto::onnx
