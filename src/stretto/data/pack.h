// Packs: a dataset as a few large files and an index (docs/formats/pack.md). JPEG files become such
// as decode fast, bit for bit the same pixels.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "stretto/data/dataset.h"
#include "stretto/media/picture.h"

namespace stretto::data {

// A finished pack, or one whose making was interrupted.
bool is_pack(const std::string& source);

// Takes the time of reading the index, and of mapping it from 64 MiB on: the header, class names
// and the sizes of the shards are checked here, records when they are used, and pictures by
// verify_pack(). Throws FormatError naming the file that is damaged, and for an interrupted pack
// how to resume it.
Dataset open_pack(const std::string& source);

struct PackOptions {
  int threads = 0;  // 0: one per core that this process may use
  // Leave out pictures that cannot be decoded and files that are gone or may not be read; else the
  // first ends it. A disk or a server that fails ends it in any case, as does a file that is gone
  // from a folder that is gone too, or empty: its store may not be mounted.
  bool skip_bad = false;
  uint64_t shard_bytes = uint64_t{1} << 30;  // at most, of a shard
  media::DecodeOptions decode;
  // Samples done and to be done. Called by one thread at a time, not always the same.
  std::function<void(int64_t done, int64_t count)> progress;
};

struct LeftOut {
  std::string name, reason;
};

struct PackResult {
  int64_t samples = 0;        // in the pack
  int64_t resumed_at = 0;     // samples that an earlier, interrupted call had done
  uint64_t source_bytes = 0;  // of the pictures in the source
  uint64_t bytes = 0;         // of all shards
  int64_t shards = 0;
  std::vector<LeftOut> left_out;
};

// Writes the folder `out`, whose parent exists. It may exist if it is empty or holds an interrupted
// pack of a source of the same names and labels, which is resumed. The result is, byte for byte,
// that of one call, as long as the pictures and `options` are the same. The source is never
// changed. What is written does not depend on the number of threads.
//
// Throws InvalidArgument if `out` lies in the source or holds something else, and FormatError
// naming the sample that cannot be read or decoded, or the file that cannot be written. What was
// written until then is resumed by the next call.
PackResult pack(const Dataset& source, const std::string& out, const PackOptions& options = {});

struct VerifyOptions {
  int threads = 0;
  // Of every n-th sample with a restart table the pixels are compared, decoded with it and without.
  int64_t pixels_every = 1;
  media::DecodeOptions decode;
  std::function<void(int64_t done, int64_t count)> progress;  // as in PackOptions
};

struct VerifyResult {
  int64_t samples = 0, compared = 0;  // checked, and pixels compared
  uint64_t bytes = 0;
  std::vector<LeftOut> damaged;  // in the order of samples
};

// Reads the whole pack: checksums of the index and of every sample, tables and pixels. Throws what
// open_pack() throws, and FormatError if the index is damaged.
VerifyResult verify_pack(const std::string& path, const VerifyOptions& options = {});

struct UnpackResult {
  int64_t files = 0;
  uint64_t bytes = 0;
};

// Writes every sample to its name below `out`, which is made, or empty: the bytes are those of the
// pack. A label map of images/NAME.EXT goes to masks/NAME.png. Throws InvalidArgument for a name
// that would lead out of it and for two pictures of one name, before anything is written, or of
// names that are one file there, as where case does not count; and FormatError for a damaged sample
// and for a file that cannot be written.
UnpackResult unpack(const std::string& path, const std::string& out,
                    const std::function<void(int64_t done, int64_t count)>& progress = {});

}  // namespace stretto::data
