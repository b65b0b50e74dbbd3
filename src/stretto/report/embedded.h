// The parts of the page, embedded at build time from the files beside this one; the plotting
// library comes from the system.
#pragma once

#include <string_view>

namespace stretto::report {

std::string_view page_text();        // page.html: the frame, with {{style}}, {{chart}}, ... to fill
std::string_view style_text();       // style.css
std::string_view parts_text();       // parts.js: tables and plots, before the script of a page
std::string_view script_text();      // script.js, of the report
std::string_view simulation_text();  // simulation.js
std::string_view chart_text();       // Chart.js

}  // namespace stretto::report
