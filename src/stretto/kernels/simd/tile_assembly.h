// The tiles of tile_x86.S, for C++ and for the assembler.
#pragma once

// Sanitizers do not see what assembly reads and writes, so their builds use the C++ tiles.
#if defined(__x86_64__) && defined(__ELF__) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)
#define STRETTO_TILE_ASSEMBLY 1
#else
#define STRETTO_TILE_ASSEMBLY 0
#endif

#define STRETTO_TILE_MOST_ROWS 14

#if STRETTO_TILE_ASSEMBLY && !defined(__ASSEMBLER__)
#include <cstddef>

#include "stretto/kernels/simd/tile.h"

// [vectors][rows]
extern "C" {
extern const stretto::kernels::TileSet::Run stretto_tiles_avx2[][STRETTO_TILE_MOST_ROWS + 1];
extern const stretto::kernels::TileSet::Run stretto_tiles_avx512[][STRETTO_TILE_MOST_ROWS + 1];
}

namespace stretto::kernels {
static_assert(STRETTO_TILE_MOST_ROWS == TileSet::kMaxRows);
#define STRETTO_TILE_FIELD(name, offset) static_assert(offsetof(Tile, name) == offset);
#include "stretto/kernels/simd/tile_fields.inc"
#undef STRETTO_TILE_FIELD
}  // namespace stretto::kernels
#endif
