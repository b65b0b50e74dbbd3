// What holds for any text at all, for the fuzzer and for the test of its corpus.
#pragma once

#include <string>
#include <string_view>

#include "stretto/base/error.h"
#include "stretto/ir/text.h"

namespace stretto::ir {

// A text is either a graph, which reads back from its own text, or refused with an error that names
// the line or the node. Anything else throws InternalError. Returns whether it was a graph.
inline bool check_any_text(std::string_view input) {
  std::string text;
  try {
    text = to_text(parse_text(input));
  } catch (const InvalidArgument&) {
    return false;
  } catch (const Unsupported&) {
    return false;
  }
  STRETTO_CHECK(to_text(parse_text(text)) == text, "the text form changes:\n{}", text);
  return true;
}

}  // namespace stretto::ir
