// Archives and records for tests.
#pragma once

#include <cstring>
#include <protozero/pbf_writer.hpp>
#include <span>
#include <string>
#include <string_view>

#include "stretto/base/error.h"
#include "stretto/data/tfrecord.h"

namespace stretto::data {

// A member as ustar has it, with its content rounded up to blocks.
inline std::string tar_member(std::string_view name, std::string_view content, char type = '0') {
  std::string header(512, '\0');
  const auto put = [&](size_t at, std::string_view text) { header.replace(at, text.size(), text); };
  put(0, name.substr(0, 100));
  put(100, "0000644");
  put(124, fmt::format("{:011o}", content.size()));
  put(148, "        ");
  header[156] = type;
  put(257, std::string_view("ustar\0"
                            "00",
                            8));
  unsigned sum = 0;
  for (const char c : header) sum += static_cast<unsigned char>(c);
  put(148, fmt::format("{:06o}", sum));
  header[154] = '\0';
  std::string bytes = header + std::string(content);
  bytes.resize((bytes.size() + 511) / 512 * 512);
  return bytes;
}

inline std::string tar_end() { return std::string(1024, '\0'); }

inline std::string feature(std::string_view key, std::string_view value) {
  std::string entry, list;
  protozero::pbf_writer w(entry);
  w.add_string(1, key.data(), key.size());
  w.add_message(2, value.data(), value.size());
  return entry;
}

inline std::string bytes_feature(std::string_view key, std::string_view bytes) {
  std::string list, value;
  protozero::pbf_writer(list).add_bytes(1, bytes.data(), bytes.size());
  protozero::pbf_writer(value).add_message(1, list);
  return feature(key, value);
}

inline std::string number_feature(std::string_view key, int64_t number, bool packed = true) {
  std::string list, value;
  if (packed) {
    protozero::pbf_writer(list).add_packed_int64(1, &number, &number + 1);
  } else {
    protozero::pbf_writer(list).add_int64(1, number);
  }
  protozero::pbf_writer(value).add_message(3, list);
  return feature(key, value);
}

inline std::string example(const std::vector<std::string>& entries) {
  std::string features, bytes;
  protozero::pbf_writer w(features);
  for (const std::string& entry : entries) w.add_message(1, entry);
  protozero::pbf_writer(bytes).add_message(1, features);
  return bytes;
}

inline std::string tf_record(std::string_view data) {
  const auto text = [](auto number) {
    return std::string(reinterpret_cast<const char*>(&number), sizeof number);
  };
  const std::string length = text(uint64_t{data.size()});
  return length + text(masked_crc32c(std::as_bytes(std::span(length)))) + std::string(data) +
         text(masked_crc32c(std::as_bytes(std::span(data))));
}

}  // namespace stretto::data
