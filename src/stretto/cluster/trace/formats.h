// The readers behind the rows of trace_formats(): a file each.
#pragma once

#include "stretto/cluster/trace/lines.h"
#include "stretto/cluster/trace/trace.h"

namespace stretto::cluster {

bool is_openb(std::string_view first_line);
void read_openb(std::string_view text, const TraceOptions& options, Trace& trace);

bool is_philly(std::string_view first_line);
void read_philly(std::string_view text, const TraceOptions& options, Trace& trace);

bool is_chronus(std::string_view first_line);
void read_chronus(std::string_view text, const TraceOptions& options, Trace& trace);

bool is_tiresias(std::string_view first_line);
void read_tiresias(std::string_view text, const TraceOptions& options, Trace& trace);

bool is_gavel(std::string_view first_line);
void read_gavel(std::string_view text, const TraceOptions& options, Trace& trace);

bool is_sacct(std::string_view first_line);
void read_sacct(std::string_view text, const TraceOptions& options, Trace& trace);

}  // namespace stretto::cluster
