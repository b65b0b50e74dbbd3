// What holds for any bytes given as an ONNX model, for the fuzzer and for the test of its corpus.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "stretto/base/error.h"
#include "stretto/import/onnx/import.h"
#include "stretto/ir/text.h"

namespace stretto::onnx {

// Bytes are either a model, which survives its text form, or refused with an error that names the
// file. Anything else throws InternalError. Returns whether it was a model.
inline bool check_any_model(std::span<const std::byte> bytes) {
  ImportedModel model;
  try {
    model = import_onnx_bytes(bytes, "fuzz.onnx");
  } catch (const InternalError&) {
    throw;
  } catch (const std::exception& error) {
    // FormatError, InvalidArgument or Unsupported; nothing that only the standard library throws.
    const bool ours = dynamic_cast<const FormatError*>(&error) != nullptr ||
                      dynamic_cast<const InvalidArgument*>(&error) != nullptr ||
                      dynamic_cast<const Unsupported*>(&error) != nullptr;
    if (!ours) throw;
    STRETTO_CHECK(std::string(error.what()).starts_with("fuzz.onnx"), "the file is not named: {}",
                  error.what());
    return false;
  }
  const std::string text = ir::to_text(model.graph);
  STRETTO_CHECK(ir::to_text(ir::parse_text(text)) == text, "the text form changes:\n{}", text);
  return true;
}

}  // namespace stretto::onnx
