// Every key of a site file: the one list from which the reader takes ranges and defaults, and from
// which the published schema and the tables of docs/formats/site.md are written.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace stretto::cluster {

enum class KeyKind : uint8_t {
  kName,      // letters, digits, - and _
  kNames,     // a list of these
  kUser,      // as the machines know him
  kUsers,     // a list of these
  kNodes,     // "m[0-3],r0"
  kHosts,     // the same, also addresses
  kGres,      // "gpu:v100"
  kDevices,   // "/dev/nvidia[0-7]"
  kResource,  // "nvidia.com/gpu"
  kSizes,     // "1", "2-7" or "8+"
  kTime,      // "90m", "2-00:00"
  kChoice,    // one of some words
  kCount,     // a whole number
  kNumber,
  kTruth,
};

// What the values of a kind look like, of a list its members. Texts consist of letters and digits
// and `first` or `others`, and so need no quotes in anything that is written from them.
struct KeyForm {
  KeyKind kind;
  std::string_view words;  // "a name"
  bool list = false;
  std::string_view first = "", others = "";  // further characters: the first, and those behind it
  size_t longest = 0;                        // 0: no text
  std::string_view pattern = "";             // a narrower regular expression, for the schema
};

struct KeyRules {
  bool required = false;
  double least = 0, most = 0;     // of numbers; both are allowed
  std::string_view choices = "";  // "off|requeue|cancel"
};

struct Key {
  std::string_view table;  // "", "chips.KIND", "nodes", ... as in the file
  std::string_view name;
  KeyKind kind;
  std::string_view meaning;    // for docs/formats/site.md
  std::string_view fallback;   // the default, as it would be written in the file
  std::string_view otherwise;  // or in words, where it depends on other keys
  KeyRules rules = {};
};

struct KeyTable {
  std::string_view name;     // as Key::table has it
  bool many;                 // [[name]]
  std::string_view meaning;  // for docs/formats/site.md
};

std::span<const KeyTable> key_tables();
std::span<const Key> keys();
const Key& key_of(std::string_view table, std::string_view name);  // it exists
const KeyForm& form_of(KeyKind kind);
std::string header_of(std::string_view table);  // "[[nodes]]", "[limits]"

// A JSON Schema of the data that a site file holds.
nlohmann::ordered_json site_schema();
// A section with a table of keys for each table of the file, in Markdown.
std::string site_reference();

}  // namespace stretto::cluster
