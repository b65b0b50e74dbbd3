// Protobuf messages field by field, with every surprise turned into a FormatError that names the
// file and the byte. Nothing is copied: strings are views into the source.
#pragma once

#include <fmt/core.h>

#include <cstdint>
#include <protozero/pbf_reader.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "stretto/base/error.h"

namespace stretto::onnx {

// The bytes of a model and the name they go by in messages. Outlives everything read from it.
struct Source {
  std::string name;
  std::string_view bytes;

  // -1 when `at` does not lie in the source.
  int64_t offset(const char* at) const {
    const bool inside = at >= bytes.data() && at <= bytes.data() + bytes.size();
    return inside ? at - bytes.data() : -1;
  }
  template <typename... Args>
  [[noreturn]] void fail(const char* at, fmt::format_string<Args...> format, Args&&... args) const {
    throw FormatError(name, offset(at), fmt::format(format, std::forward<Args>(args)...));
  }
};

class Fields {
 public:
  // `what` names the message in errors; it must outlive this object.
  Fields(const Source& source, std::string_view message, const char* what)
      : source_(source), reader_(message.data(), message.size()), what_(what) {}

  // Moves to the next field; every field is then either read by exactly one of the getters or
  // skipped.
  bool next();
  uint32_t tag() const { return reader_.tag(); }
  const char* position() const { return start_; }
  void skip();

  int64_t integer();  // int32, int64, enum
  float real();
  std::string_view bytes();  // bytes, message
  // Names and the like: valid UTF-8 without zero bytes, so that it can stand in messages and
  // reports.
  std::string_view text();
  // Values that are texts, such as labels: zero bytes may be among them.
  std::string_view text_value();
  // Repeated scalars, packed or one by one; appended.
  void integers(std::vector<int64_t>& list);
  void reals(std::vector<double>& list);
  // Repeated fixed-width scalars (float, double): their bytes, packed or one by one, appended.
  void fixed(size_t width, std::vector<char>& list);

 private:
  std::string_view checked_text(bool zeros);
  void expect(protozero::pbf_wire_type type, const char* kind);
  [[noreturn]] void broken(const std::exception& error) const;

  const Source& source_;
  protozero::pbf_reader reader_;
  const char* what_;
  const char* start_ = nullptr;
};

}  // namespace stretto::onnx
