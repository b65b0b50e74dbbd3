// Any bytes are either a model or one of the importer's own errors. What imports must survive its
// text form. Seeds: tests/fuzz/onnx.
#include <cstddef>
#include <cstdint>

#include "stretto/base/error.h"
#include "stretto/import/onnx/import.h"
#include "stretto/ir/text.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace stretto;
  onnx::ImportedModel model;
  try {
    model = onnx::import_onnx_bytes({reinterpret_cast<const std::byte*>(data), size}, "fuzz.onnx");
  } catch (const FormatError&) {
    return 0;
  } catch (const InvalidArgument&) {
    return 0;
  } catch (const Unsupported&) {
    return 0;
  }
  const std::string text = ir::to_text(model.graph);
  STRETTO_CHECK(ir::to_text(ir::parse_text(text)) == text, "the text form changes:\n{}", text);
  return 0;
}
