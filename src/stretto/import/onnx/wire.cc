#include "stretto/import/onnx/wire.h"

#include <bit>
#include <cstring>
#include <protozero/varint.hpp>

namespace stretto::onnx {

static_assert(std::endian::native == std::endian::little, "ONNX stores little-endian numbers");

using protozero::pbf_wire_type;

namespace {

// Length of the UTF-8 sequence at `text`; 0 when it is none (Unicode 15, table 3-7).
size_t sequence_length(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return 1;
  const size_t length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead > 0xf4 || text.size() < length) return 0;
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
  }
  const unsigned char second = byte(1);
  const bool excluded = (lead == 0xe0 && second < 0xa0) || (lead == 0xed && second > 0x9f) ||
                        (lead == 0xf0 && second < 0x90) || (lead == 0xf4 && second > 0x8f);
  return excluded ? 0 : length;
}

}  // namespace

bool Fields::next() {
  start_ = reader_.data().data();
  try {
    return reader_.next();
  } catch (const protozero::exception& error) {
    broken(error);
  }
}

void Fields::broken(const std::exception& error) const {
  if (dynamic_cast<const protozero::end_of_buffer_exception*>(&error) != nullptr) {
    source_.fail(start_, "{}: the data ends inside a field; the file is truncated or damaged",
                 what_);
  }
  source_.fail(start_, "{}: broken protobuf ({})", what_, error.what());
}

void Fields::expect(pbf_wire_type type, const char* kind) {
  if (reader_.wire_type() != type) {
    source_.fail(start_, "{}: field {} is no {}", what_, static_cast<uint32_t>(reader_.tag()),
                 kind);
  }
}

void Fields::skip() {
  try {
    reader_.skip();
  } catch (const protozero::exception& error) {
    broken(error);
  }
}

int64_t Fields::integer() {
  expect(pbf_wire_type::varint, "integer");
  try {
    return reader_.get_int64();
  } catch (const protozero::exception& error) {
    broken(error);
  }
}

float Fields::real() {
  expect(pbf_wire_type::fixed32, "float");
  try {
    return reader_.get_float();
  } catch (const protozero::exception& error) {
    broken(error);
  }
}

std::string_view Fields::bytes() {
  expect(pbf_wire_type::length_delimited, "text or message");
  try {
    const protozero::data_view view = reader_.get_view();
    return {view.data(), view.size()};
  } catch (const protozero::exception& error) {
    broken(error);
  }
}

std::string_view Fields::text() { return checked_text(false); }
std::string_view Fields::text_value() { return checked_text(true); }

std::string_view Fields::checked_text(bool zeros) {
  const std::string_view all = bytes();
  for (size_t at = 0; at < all.size();) {
    const size_t length = all[at] == 0 && !zeros ? 0 : sequence_length(all.substr(at));
    if (length == 0) {
      source_.fail(all.data() + at, "{}: field {} is no text in UTF-8", what_,
                   static_cast<uint32_t>(tag()));
    }
    at += length;
  }
  return all;
}

void Fields::integers(std::vector<int64_t>& list) {
  if (reader_.wire_type() == pbf_wire_type::varint) {
    list.push_back(integer());
    return;
  }
  const std::string_view packed = bytes();
  const char* at = packed.data();
  const char* end = at + packed.size();
  try {
    while (at != end) list.push_back(static_cast<int64_t>(protozero::decode_varint(&at, end)));
  } catch (const protozero::exception& error) {
    broken(error);
  }
}

void Fields::reals(std::vector<double>& list) {
  std::vector<char> bits;
  fixed(sizeof(float), bits);
  for (size_t i = 0; i < bits.size(); i += sizeof(float)) {
    float value;
    std::memcpy(&value, bits.data() + i, sizeof value);
    list.push_back(value);
  }
}

void Fields::fixed(size_t width, std::vector<char>& list) {
  if (reader_.wire_type() == pbf_wire_type::length_delimited) {
    const std::string_view packed = bytes();
    if (packed.size() % width != 0) {
      source_.fail(start_, "{}: field {} has {} bytes, expected a multiple of {}", what_,
                   static_cast<uint32_t>(tag()), packed.size(), width);
    }
    list.insert(list.end(), packed.begin(), packed.end());
    return;
  }
  expect(width == 4 ? pbf_wire_type::fixed32 : pbf_wire_type::fixed64, "number of that width");
  try {
    const uint64_t bits = width == 4 ? reader_.get_fixed32() : reader_.get_fixed64();
    const auto* raw = reinterpret_cast<const char*>(&bits);
    list.insert(list.end(), raw, raw + width);
  } catch (const protozero::exception& error) {
    broken(error);
  }
}

}  // namespace stretto::onnx
