// Reads ONNX models, opset 7 to the newest, with a reader of our own: the file is mapped, weights
// stay in it where they are aligned, functions and constant branches are expanded, and older forms
// of operators become the newest one.
//
// Errors, always with the file's name: FormatError (broken file, with the byte), InvalidArgument
// (an input whose shape is open; a node that contradicts its operator), Unsupported (operators and
// types that Stretto lacks, all of them in one text).
#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "stretto/import/model.h"

namespace stretto::onnx {

struct ImportOptions {
  // Shapes of inputs whose file leaves dimensions open, by input name. They must agree with the
  // dimensions that the file fixes, and with each other where the file gives one symbol to several.
  std::map<std::string, Shape> shapes;
};

ImportedModel import_onnx_file(const std::string& path, const ImportOptions& options = {});

// The same from memory, which is not needed afterwards; `name` stands for the file in messages, and
// external data is looked for in `folder` (none when empty).
ImportedModel import_onnx_bytes(std::span<const std::byte> bytes, const std::string& name,
                                const std::string& folder = {}, const ImportOptions& options = {});

}  // namespace stretto::onnx
