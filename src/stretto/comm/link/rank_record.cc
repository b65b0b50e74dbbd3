#include "stretto/comm/link/rank_record.h"

#include <fmt/core.h>

#include <nlohmann/json.hpp>

namespace stretto::comm {
namespace {

// Far beyond what any host has; a record is written by another process.
constexpr size_t kMaxEntries = 256, kMaxText = 4096;
constexpr int kMaxPort = 65535;

std::string text_of(const nlohmann::json& json) {
  const auto& text = json.get_ref<const std::string&>();
  if (text.size() > kMaxText)
    throw nlohmann::json::other_error::create(0, "a text is too long", &json);
  return text;
}

const nlohmann::json& list_of(const nlohmann::json& json, const char* name) {
  const nlohmann::json& list = json.at(name);
  if (!list.is_array() || list.size() > kMaxEntries)
    throw nlohmann::json::other_error::create(
        0, fmt::format("'{}' is not a list of at most {} entries", name, kMaxEntries), &json);
  return list;
}

}  // namespace

std::string encode_record(const RankRecord& r) {
  using nlohmann::json;
  json out{{"port", r.port},           {"everywhere", r.listens_everywhere},
           {"host", r.host},           {"rack", r.rack},
           {"machine", r.machine},     {"local_name", r.local_name},
           {"agreement", r.agreement}, {"addresses", json::array()},
           {"no_rdma", r.rdma.reason}, {"rdma", json::array()}};
  for (const Address& a : r.addresses) out["addresses"].push_back({a.interface, a.text});
  for (const auto& rail : r.rdma.rails) out["rdma"].push_back({rail.name, rail.ethernet});
  // The name of a host may be no UTF-8.
  return out.dump(-1, ' ', false, json::error_handler_t::replace);
}

std::optional<RankRecord> parse_record(std::string_view text, std::string* reason) {
  if (text.size() > kMaxRecord) {
    *reason = fmt::format("it has {} bytes; the limit is {}", text.size(), kMaxRecord);
    return std::nullopt;
  }
  try {
    const auto json = nlohmann::json::parse(text);
    RankRecord r;
    const auto port = json.at("port").get<int64_t>();
    if (port < 1 || port > kMaxPort) {
      *reason = fmt::format("port {} does not exist", port);
      return std::nullopt;
    }
    r.port = static_cast<int>(port);
    r.listens_everywhere = json.at("everywhere").get<bool>();
    r.host = text_of(json.at("host"));
    r.rack = text_of(json.at("rack"));
    r.machine = text_of(json.at("machine"));
    r.local_name = text_of(json.at("local_name"));
    for (const auto& entry : list_of(json, "agreement"))
      r.agreement.emplace_back(text_of(entry.at(0)), text_of(entry.at(1)));
    for (const auto& entry : list_of(json, "addresses")) {
      r.addresses.push_back({text_of(entry.at(0)), text_of(entry.at(1))});
      SocketAddress address;
      if (parse_address(without_zone(r.addresses.back().text), 1, &address)) continue;
      *reason = fmt::format("'{}' is not an address", r.addresses.back().text);
      return std::nullopt;
    }
    r.rdma.reason = text_of(json.at("no_rdma"));
    for (const auto& entry : list_of(json, "rdma"))
      r.rdma.rails.push_back({text_of(entry.at(0)), entry.at(1).get<bool>()});
    return r;
  } catch (const nlohmann::json::exception& e) {
    *reason = e.what();
    return std::nullopt;
  }
}

}  // namespace stretto::comm
