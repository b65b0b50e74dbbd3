// stretto peers: which other engines are installed.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "peers.h"
#include "table.h"
#include "verbs.h"

namespace stretto::cli {
namespace {

int run_peers(const Context& context) {
  const std::vector<Peer> peers = list_peers(context.python);
  if (context.talk->json) {
    nlohmann::json list = nlohmann::json::array();
    for (const Peer& peer : peers) {
      list.push_back({{"name", peer.name},
                      {"installed", peer.installed},
                      {"version", peer.installed ? nlohmann::json(peer.version) : nlohmann::json()},
                      {"setting", peer.about},
                      {"packages", peer.packages}});
    }
    print_json({{"peers", list}});
    return kOk;
  }
  Table table({"peer", "version", "setting", "to install"});
  for (const Peer& peer : peers) {
    table.row({peer.name, peer.installed ? peer.version : "-", peer.about,
               peer.installed ? "" : fmt::format("pip install {}", fmt::join(peer.packages, " "))});
  }
  fmt::print("{}", table.text());
  return kOk;
}

}  // namespace

std::function<int()> set_up_peers(Command&, const Context& context) {
  return [context] { return run_peers(context); };
}

}  // namespace stretto::cli
