#include "stretto/data/tar.h"

#include <unistd.h>

#include <charconv>
#include <nlohmann/json.hpp>
#include <optional>

#include "stretto/base/error.h"
#include "stretto/base/interrupt.h"
#include "stretto/data/folder.h"
#include "stretto/data/tar_reader.h"

namespace stretto::data {
namespace {

using nlohmann::json;

constexpr uint64_t kLongestNumber = 32, kLongestJson = uint64_t{1} << 20;

bool is_tar_name(std::string_view name) { return name.ends_with(".tar"); }

// It is told what to do.
bool is_compressed_name(std::string_view name) {
  return name.ends_with(".tgz") || name.ends_with(".tar.gz") || name.ends_with(".tar.zst") ||
         name.ends_with(".tar.xz") || name.ends_with(".tar.bz2");
}

// "a/b.c.jpg": "a/b" and "c.jpg" in small letters.
struct SplitName {
  std::string_view key;
  std::string ending;
};

// Nothing for names that are no part of a sample.
std::optional<SplitName> split_member(std::string_view name) {
  const size_t slash = name.rfind('/');
  const size_t base = slash == name.npos ? 0 : slash + 1;
  const size_t dot = name.find('.', base);
  if (dot == name.npos || dot == base) return std::nullopt;
  SplitName parts{.key = name.substr(0, dot), .ending = std::string(name.substr(dot + 1))};
  for (char& c : parts.ending) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return parts;
}

[[noreturn]] void fail_member(const std::string& path, const TarReader::Member& member,
                              std::string_view what) {
  throw FormatError(path, static_cast<int64_t>(member.offset),
                    fmt::format("member {}: {}", member.name, what));
}

int64_t number_in(const std::string& path, const TarReader::Member& member, std::string text) {
  text.erase(0, text.find_first_not_of(" \t\r\n"));
  text.erase(text.find_last_not_of(" \t\r\n") + 1);
  int64_t number = 0;
  const auto [rest, problem] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (problem != std::errc() || rest != text.data() + text.size() || number < 0) {
    fail_member(path, member, "expected a number of at least 0");
  }
  return number;
}

void label_in_json(const std::string& path, const TarReader::Member& member,
                   const std::string& text, Found& sample) {
  const json object = json::parse(text, nullptr, false);
  if (!object.is_object()) fail_member(path, member, "expected a JSON object");
  const auto label = object.find("label");
  if (label == object.end() || label->is_null()) return;
  if (label->is_string()) {
    sample.label_name = label->get<std::string>();
  } else if (label->is_number_unsigned() && label->get<uint64_t>() <= uint64_t{INT64_MAX}) {
    sample.label = label->get<int64_t>();
  } else {
    fail_member(path, member, "expected a \"label\" that is a name or a number of at least 0");
  }
}

// Puts members together.
class Grouper {
 public:
  Grouper(const std::string& path, const std::string& name) : path_(name), reader_(path, name) {}

  std::vector<Found> run() {
    TarReader::Member member;
    while (reader_.next(member)) {
      check_interrupt();
      const std::optional<SplitName> parts = split_member(member.name);
      if (!parts) continue;
      if (!open_ || parts->key != key_ || member.archive != archive_) {
        close();
        open_ = true;
        archive_ = member.archive;
        key_ = parts->key;
      }
      add(member, parts->ending);
    }
    close();
    return std::move(samples_);
  }

 private:
  void add(const TarReader::Member& member, const std::string& ending) {
    if (is_picture_name("." + ending) && ending.find('.') == ending.npos) {
      if (sample_.length > 0) fail_member(path_, member, "the sample has a picture already");
      if (member.length == 0) fail_member(path_, member, "expected a picture, got no bytes");
      sample_.name = member.name;
      sample_.offset = member.offset;
      sample_.length = member.length;
    } else if (ending == "cls") {
      class_ = member;
    } else if (ending == "json") {
      json_ = member;
    }
  }

  // Of a group without a picture, whose members may be of anything.
  bool has_label() const {
    if (class_) return true;
    if (!json_ || json_->length > kLongestJson) return false;
    const json object = json::parse(reader_.read(*json_, kLongestJson), nullptr, false);
    return object.is_object() && object.contains("label");
  }

  void take_label() {
    if (json_) label_in_json(path_, *json_, reader_.read(*json_, kLongestJson), sample_);
    if (!class_) return;
    sample_.label = number_in(path_, *class_, reader_.read(*class_, kLongestNumber));
    sample_.label_name.clear();
  }

  void close() {
    if (!open_) return;
    if (sample_.length > 0) {
      take_label();
      samples_.push_back(std::move(sample_));
    } else if (has_label()) {
      throw FormatError(
          path_, -1,
          fmt::format("sample {}: expected a member {}.jpg, .jpeg, .png or .webp", key_, key_));
    }
    sample_ = {};
    class_ = json_ = std::nullopt;
    open_ = false;
  }

  const std::string& path_;  // as errors name it
  TarReader reader_;
  std::vector<Found> samples_;
  bool open_ = false;
  int64_t archive_ = 0;
  std::string key_;
  Found sample_;
  std::optional<TarReader::Member> class_, json_;  // of the label
};

}  // namespace

bool is_tar(const std::string& source) {
  return names_containers(source, is_tar_name) ||
         (is_compressed_name(source) && ::access(source.c_str(), F_OK) == 0);
}

std::vector<Found> find_in_tar(const std::string& path, const std::string& name) {
  return Grouper(path, name).run();
}

Dataset open_tar(const std::string& source) {
  if (is_compressed_name(source)) throw_compressed(source);
  return open_containers(source, "tar", list_containers(source, is_tar_name),
                         [](const std::string& file) { return find_in_tar(file); });
}

}  // namespace stretto::data
