#include "stretto/cluster/kubernetes/yaml.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace stretto::cluster {
namespace {

using Json = nlohmann::ordered_json;

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

// Whether every YAML parser reads it as this text: a word that begins with a letter, and none of
// those that some take for true, false, null or a number.
bool is_plain(std::string_view text) {
  if (text.empty() || text.size() > 200 || !is_letter(text[0])) return false;
  for (const char c : text) {
    if (!is_letter(c) && !(c >= '0' && c <= '9') && c != '-' && c != '_' && c != '.' && c != '/') {
      return false;
    }
  }
  std::string lower(text);
  for (char& c : lower) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  constexpr std::string_view kWords[] = {"y",  "n",   "yes",  "no",  "true", "false",
                                         "on", "off", "null", "nan", "inf"};
  return std::find(std::begin(kWords), std::end(kWords), lower) == std::end(kWords);
}

std::string scalar(const Json& value) {
  if (value.is_string() && is_plain(value.get_ref<const std::string&>())) {
    return value.get<std::string>();
  }
  return value.dump(-1, ' ', true, Json::error_handler_t::replace);  // also of {} and []
}

bool is_block(const Json& value) { return value.is_structured() && !value.empty(); }

void write_block(std::string& out, const Json& value, size_t indent, bool in_item) {
  const std::string margin(indent, ' ');
  bool first = in_item;  // "- " is already there
  const auto begin = [&] {
    if (!first) out += margin;
    first = false;
  };
  if (value.is_object()) {
    for (const auto& [key, each] : value.items()) {
      begin();
      out += scalar(key) + ":";
      if (is_block(each)) {
        out += '\n';
        write_block(out, each, indent + (each.is_array() ? 0 : 2), false);
      } else {
        out += " " + scalar(each) + "\n";
      }
    }
    return;
  }
  for (const Json& each : value) {
    begin();
    out += "- ";
    if (is_block(each)) {
      write_block(out, each, indent + 2, true);
    } else {
      out += scalar(each) + "\n";
    }
  }
}

}  // namespace

std::string to_yaml(const Json& value) {
  if (!is_block(value)) return scalar(value) + "\n";
  std::string out;
  write_block(out, value, 0, false);
  return out;
}

}  // namespace stretto::cluster
