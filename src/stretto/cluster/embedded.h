// Texts that are written into output folders, embedded at build time.
#pragma once

#include <string_view>

namespace stretto::cluster {

std::string_view submit_rule_text();       // slurm/submit_rule.lua, with a place for its table
std::string_view submit_plugin_text();     // slurm/submit_plugin.cpp, the same
std::string_view cloud_controller_text();  // terraform/cloud_controller.sh
std::string_view cloud_node_text();

}  // namespace stretto::cluster
