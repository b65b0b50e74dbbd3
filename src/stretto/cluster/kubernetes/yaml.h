// YAML for Kubernetes: plain data, one document after the other.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <string>
#include <string_view>

namespace stretto::cluster {

// `value` in block style, with an end of line. Texts that are more than a plain word are written in
// double quotes with JSON's escapes, which YAML has too, so that no text can become anything else.
std::string to_yaml(const nlohmann::ordered_json& value);

}  // namespace stretto::cluster
