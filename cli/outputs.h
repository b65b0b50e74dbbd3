// Files that a verb writes: checked before the work.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace stretto::cli {

// A file and the option that names it. An empty path: the option was not given.
struct NamedFile {
  std::string_view option;
  std::string path;
};

// Throws InvalidArgument unless the path ends in one of `endings`: {".npz", ".npy"}.
void check_ending(const NamedFile& file, std::span<const std::string_view> endings);

// Throws InvalidArgument where one of `outputs` is the same file as another one, or as one of
// `inputs`; throws what check_writable() throws.
void check_outputs(std::span<const NamedFile> outputs, std::span<const NamedFile> inputs);

}  // namespace stretto::cli
