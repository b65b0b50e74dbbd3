// Graphs as JSON plus one block of constant data: what artefacts store.
#pragma once

#include <cstddef>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>

#include "stretto/base/pieces.h"
#include "stretto/ir/graph.h"

namespace stretto::ir {

// Appends the tensor's memory to `block`, aligned to kAlignment, and returns {dtype, shape,
// offset}.
nlohmann::json write_tensor(const Tensor& tensor, Pieces& block);
// Refers to `block`, kept alive by `owner`. Throws FormatError naming `file` for values outside of
// the block, other errors for what write_tensor() would not have written.
Tensor read_tensor(const nlohmann::json& description, std::span<const std::byte> block,
                   std::shared_ptr<const void> owner, const std::string& file);

// Appends the memory of every constant of the graph to `block`, each aligned to kAlignment, and
// returns the description that read_graph() understands.
nlohmann::json write_graph(const Graph& graph, Pieces& block);

// Constants refer to `block`, kept alive by `owner`. The result is inferred and verified. Throws
// FormatError naming `file` for anything that write_graph() would not have written.
Graph read_graph(const nlohmann::json& description, std::span<const std::byte> block,
                 std::shared_ptr<const void> owner, const std::string& file);

}  // namespace stretto::ir
