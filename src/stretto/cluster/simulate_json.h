// A simulation as JSON (docs/formats/simulation.md).
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "stretto/cluster/fit.h"
#include "stretto/cluster/simulate.h"

namespace stretto::cluster {

nlohmann::json to_json(const Simulation& simulation);
nlohmann::json to_json(const Fit& fit);

}  // namespace stretto::cluster
