// Regular expressions in the syntax of RE2, which ONNX names: no references back, and time linear
// in the length of the text whatever the pattern is.
#pragma once

#include <memory>
#include <string>
#include <string_view>

namespace stretto::ir {

class Regex {
 public:
  // Throws InvalidArgument saying what is wrong with the pattern, Unsupported for syntax that is
  // missing here.
  explicit Regex(std::string_view pattern);
  ~Regex();

  bool matches(std::string_view text) const;  // all of it

 private:
  struct Machine;
  std::unique_ptr<Machine> machine_;
};

}  // namespace stretto::ir
