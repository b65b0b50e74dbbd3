// Pages: from the JSON of docs/formats/report.md, or of a simulation, to one self-contained HTML
// file.
#pragma once

#include <string>
#include <string_view>

namespace stretto::report {

// A page with plots and tables that loads nothing from anywhere. Fields that are missing leave out
// what they would show. Throws InvalidArgument when `json` is not a JSON object.
std::string report_html(std::string_view json);

// The same of what `stretto cluster simulate --json` prints (docs/formats/simulation.md).
std::string simulation_html(std::string_view json);

// The style sheet of these pages, for others that shall look alike.
std::string_view report_style();

}  // namespace stretto::report
