// What holds for any bytes given as an ONNX model, for the fuzzer and for the test of its corpus.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "stretto/base/error.h"
#include "stretto/import/onnx/import.h"
#include "stretto/ir/text.h"

namespace stretto::onnx {

// What the error of `f` says; it has to be ours, and to name the file. Empty: there was none.
// Anything else throws InternalError.
template <typename F>
std::string refusal_of(F&& f) {
  try {
    f();
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
    return error.what();
  }
  return "";
}

// Bytes are either a model, which survives its text form, or refused. Returns whether it was a
// model.
inline bool check_any_model(std::span<const std::byte> bytes) {
  ImportedModel model;
  const std::string refusal = refusal_of([&] { model = import_onnx_bytes(bytes, "fuzz.onnx"); });
  if (refusal.find("external data") != std::string::npos) {
    // The model's own bytes as the weights of a file.
    std::vector<ExternalData> data(1);
    data[0].location = "weights";
    data[0].bytes.add_view(bytes);
    const auto nobody = std::make_shared<int>(0);
    refusal_of([&] { Reader::of_memory(bytes, nobody, "fuzz.onnx", std::move(data))->import(); });
  }
  if (!refusal.empty()) return false;
  refusal_of([&] { Reader::of_bytes(bytes, "fuzz.onnx", "")->external_data(); });
  const std::string text = ir::to_text(model.graph);
  STRETTO_CHECK(ir::to_text(ir::parse_text(text)) == text, "the text form changes:\n{}", text);
  return true;
}

}  // namespace stretto::onnx
