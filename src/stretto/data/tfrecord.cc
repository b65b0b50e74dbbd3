#include "stretto/data/tfrecord.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <protozero/pbf_reader.hpp>

#include "stretto/base/error.h"
#include "stretto/base/file.h"
#include "stretto/base/interrupt.h"
#include "stretto/media/decode.h"

namespace stretto::data {
namespace {

using protozero::data_view;
using protozero::pbf_reader;

constexpr uint64_t kBefore = 12, kBehind = 4;  // length and its checksum; checksum of the data

constexpr std::array<uint32_t, 256> make_crc_table() {
  constexpr uint32_t kPolynomial = 0x82F63B78;  // Castagnoli's, bits reversed
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < table.size(); ++i) {
    uint32_t value = i;
    for (int bit = 0; bit < 8; ++bit) value = value >> 1 ^ (value % 2 == 1 ? kPolynomial : 0);
    table[i] = value;
  }
  return table;
}
constexpr std::array<uint32_t, 256> kCrcTable = make_crc_table();

bool is_tfrecord_name(std::string_view name) {
  if (name.ends_with(".tfrecord") || name.ends_with(".tfrecords")) return true;
  constexpr std::string_view kShape = "-00000-of-00000";
  if (name.size() <= kShape.size()) return false;
  name.remove_prefix(name.size() - kShape.size());
  return std::equal(name.begin(), name.end(), kShape.begin(), [](char c, char shape) {
    return shape == '0' ? c >= '0' && c <= '9' : c == shape;
  });
}

// What a Feature (tf.train) holds of what is looked for.
data_view only_bytes(pbf_reader feature) {
  std::optional<data_view> found;
  while (feature.next(1, protozero::pbf_wire_type::length_delimited)) {
    pbf_reader list = feature.get_message();
    while (list.next(1, protozero::pbf_wire_type::length_delimited)) {
      if (found) throw std::runtime_error("several values of image/encoded");
      found = list.get_view();
    }
  }
  return found.value_or(data_view{});
}

int64_t only_number(pbf_reader feature) {
  std::optional<int64_t> found;
  const auto set = [&](int64_t value) {
    if (found) throw std::runtime_error("several values of image/class/label");
    found = value;
  };
  while (feature.next(3, protozero::pbf_wire_type::length_delimited)) {
    pbf_reader list = feature.get_message();
    while (list.next(1)) {
      if (list.wire_type() == protozero::pbf_wire_type::length_delimited) {
        for (const int64_t value : list.get_packed_int64()) set(value);
      } else if (list.wire_type() == protozero::pbf_wire_type::varint) {
        set(list.get_int64());
      } else {
        list.skip();
      }
    }
  }
  return found.value_or(-1);
}

// One entry of Features' map.
void read_feature(pbf_reader entry, data_view& picture, int64_t& label) {
  std::string_view key;
  std::optional<pbf_reader> value;
  while (entry.next()) {
    if (entry.wire_type() != protozero::pbf_wire_type::length_delimited) {
      entry.skip();
    } else if (entry.tag() == 1) {
      const data_view view = entry.get_view();
      key = {view.data(), view.size()};
    } else if (entry.tag() == 2) {
      value = entry.get_message();
    } else {
      entry.skip();
    }
  }
  if (!value) return;
  if (key == "image/encoded") picture = only_bytes(*value);
  if (key == "image/class/label") label = only_number(*value);
}

void read_example(pbf_reader example, data_view& picture, int64_t& label) {
  while (example.next(1, protozero::pbf_wire_type::length_delimited)) {
    pbf_reader features = example.get_message();
    while (features.next(1, protozero::pbf_wire_type::length_delimited)) {
      read_feature(features.get_message(), picture, label);
    }
  }
}

std::string_view ending_of(std::span<const std::byte> picture) {
  const auto formats = media::formats();
  const auto format = std::find_if(formats.begin(), formats.end(),
                                   [&](const auto& row) { return row.matches(picture); });
  if (format == formats.end()) return "";
  switch (format->format) {
    case media::Format::kJpeg:
      return ".jpg";
    case media::Format::kPng:
      return ".png";
    case media::Format::kWebp:
      return ".webp";
  }
  return "";
}

Found read_record(const std::string& path, std::span<const std::byte> file, uint64_t begin,
                  uint64_t length, size_t number) {
  const auto fail = [&](std::string_view what) {
    throw FormatError(path, static_cast<int64_t>(begin),
                      fmt::format("record {}: {}", number, what));
  };
  const std::span<const std::byte> record = file.subspan(begin, length);
  data_view picture;
  int64_t label = -1;
  try {
    read_example(pbf_reader(reinterpret_cast<const char*>(record.data()), record.size()), picture,
                 label);
  } catch (const protozero::exception&) {
    fail("expected a tf.train.Example");
  } catch (const std::runtime_error& e) {
    fail(e.what());
  }
  if (picture.size() == 0) fail("it has no image/encoded");
  if (label < -1) fail(fmt::format("the label is {}", label));
  const auto offset =
      static_cast<uint64_t>(reinterpret_cast<const std::byte*>(picture.data()) - file.data());
  return {.name = fmt::format("{}{}", number, ending_of(file.subspan(offset, picture.size()))),
          .offset = offset,
          .length = picture.size(),
          .label = label};
}

uint32_t word_at(std::span<const std::byte> bytes, uint64_t at) {
  uint32_t word = 0;
  std::memcpy(&word, bytes.data() + at, sizeof word);
  return word;
}

}  // namespace

uint32_t masked_crc32c(std::span<const std::byte> bytes) {
  uint32_t crc = ~uint32_t{0};
  for (const std::byte b : bytes) {
    crc = crc >> 8 ^ kCrcTable[(crc ^ std::to_integer<uint32_t>(b)) & 0xFF];
  }
  crc = ~crc;
  return (crc >> 15 | crc << 17) + 0xA282EAD8;
}

bool is_tfrecord(const std::string& source) { return names_containers(source, is_tfrecord_name); }

std::vector<Found> find_in_tfrecord(const std::string& path, const std::string& name) {
  const auto map = MappedFile::open(path);
  const std::span<const std::byte> file = map->bytes();
  std::vector<Found> samples;
  uint64_t at = 0;
  while (at < file.size()) {
    check_interrupt();
    const auto fail = [&](std::string_view what) {
      throw FormatError(name, static_cast<int64_t>(at),
                        fmt::format("record {}: {}", samples.size(), what));
    };
    if (file.size() - at < kBefore + kBehind) fail("the file ends in its head");
    if (masked_crc32c(file.subspan(at, sizeof(uint64_t))) != word_at(file, at + 8)) {
      fail("expected a TFRecord: the checksum of the length is wrong");
    }
    uint64_t length = 0;
    std::memcpy(&length, file.data() + at, sizeof length);
    if (length > file.size() - at - kBefore - kBehind) {
      fail(fmt::format("it has {} bytes, but the file ends before", length));
    }
    samples.push_back(read_record(name, file, at + kBefore, length, samples.size()));
    at += kBefore + length + kBehind;
  }
  return samples;
}

Dataset open_tfrecord(const std::string& source) {
  return open_containers(source, "tfrecord", list_containers(source, is_tfrecord_name),
                         [](const std::string& file) { return find_in_tfrecord(file); });
}

}  // namespace stretto::data
