// The file of a tuning cache: one path and one policy for inference and for the gradient engine.
//
// Processes that save at the same time lose nothing: each one locks PATH.lock, reads the file, adds
// what it found, and renames a new file into place. Nothing here throws for the state of a file,
// because a model runs without one; what goes wrong is logged (base/log.h), once per process:
//   damaged          renamed to PATH.damaged (or PATH.damaged.1 ...), and a new file is started
//   of an old version  read as empty; the first save renames it to PATH.VERSION
//   of a newer version, not a regular file, not readable: left alone; nothing is read or saved
#pragma once

#include <string>

#include "stretto/tune/tuning_cache.h"

namespace stretto::tune {

// The file that an option names: empty means $STRETTO_TUNING_CACHE or, without it,
// tuning-cache-VERSION.tsv in cache_directory(). "none" means no file; the result is empty then.
std::string tuning_cache_path(const std::string& option = "");

// What the file knows; empty for an empty path and for a file that does not exist.
TuningCache load_tuning_cache(const std::string& path);

// Adds to the file and to what other processes have added meanwhile; `found` wins. False when it
// was not saved. Does nothing for an empty path.
bool add_to_tuning_cache(const std::string& path, const TuningCache& found);

// Takes `choices` out of the file, except where it names another candidate by now. False when that
// was not saved. Does nothing for an empty path.
bool forget_in_tuning_cache(const std::string& path, const TuningCache& choices);

}  // namespace stretto::tune
