// Any text is either a graph, which reads back from its own text, or an error that names the line
// or the node. Seeds: tests/fuzz/text.
#include <cstddef>
#include <cstdint>

#include "stretto/base/error.h"
#include "stretto/ir/text.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace stretto;
  std::string text;
  try {
    text = ir::to_text(ir::parse_text({reinterpret_cast<const char*>(data), size}));
  } catch (const InvalidArgument&) {
    return 0;
  } catch (const Unsupported&) {
    return 0;
  }
  STRETTO_CHECK(ir::to_text(ir::parse_text(text)) == text, "the text form changes:\n{}", text);
  return 0;
}
