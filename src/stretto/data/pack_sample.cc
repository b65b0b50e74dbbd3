#include "stretto/data/pack_sample.h"

#include "stretto/base/error.h"
#include "stretto/data/details.h"
#include "stretto/data/restarts.h"
#include "stretto/data/sample_bytes.h"
#include "stretto/media/decode.h"
#include "stretto/media/jpeg/decode.h"
#include "stretto/media/jpeg/transcode.h"
#include "stretto/media/png.h"

namespace stretto::data {
namespace {

using media::Bytes;

// Nothing if it has to stay as it is.
std::vector<std::byte> transcoded(Bytes file, const media::DecodeOptions& options) {
  try {
    std::vector<std::byte> written = media::jpeg::transcode(file, options);
    // Its coefficients were read. Whether its components can be decoded shows with one pixel.
    media::Buffer buffer;
    media::jpeg::decode_planes(written, {.x0 = 0, .y0 = 0, .x1 = 1, .y1 = 1}, options, buffer);
    return written;
  } catch (const FormatError&) {
  } catch (const Unsupported&) {
  }
  return {};
}

void put_sample(Bytes picture, Bytes restarts, PackedSample& sample) {
  sample.bytes.reserve(restarts.size() + picture.size());
  sample.bytes.insert(sample.bytes.end(), restarts.begin(), restarts.end());
  sample.bytes.insert(sample.bytes.end(), picture.begin(), picture.end());
  sample.restart_bytes = static_cast<uint32_t>(restarts.size());
}

void make_sample(Bytes file, const media::DecodeOptions& options, PackedSample& sample) {
  const media::PictureInfo info = media::read_info(file);
  media::check_size(info.width, info.height, options);
  sample.width = static_cast<int32_t>(info.width);
  sample.height = static_cast<int32_t>(info.height);
  if (info.format == media::Format::kJpeg) {
    const std::vector<std::byte> written = transcoded(file, options);
    if (!written.empty() && written.size() <= kLargestSample / 2) {
      const media::jpeg::RestartTableOrReason found = media::jpeg::restart_table(written);
      put_sample(written, found ? encode_restarts(found.table) : std::vector<std::byte>{}, sample);
      return;
    }
  }
  media::decode_rgb(file, options);
  put_sample(file, {}, sample);
}

// Without the path, which whoever shows it puts before it.
std::string reason_of(std::string text, const std::string& path) {
  if (!text.starts_with(path)) return text;
  text.erase(0, path.size());
  text.erase(0, text.find_first_not_of(": "));
  return text;
}

}  // namespace

PackedSample pack_sample(const Dataset& source, int64_t index,
                         const media::DecodeOptions& options) {
  PackedSample sample;
  try {
    std::vector<std::byte> bytes;
    read_sample(source, index, bytes);
    const Bytes file = Bytes(bytes).subspan(source.sample(index).restart_bytes);
    sample.source_bytes = file.size();
    make_sample(file, options, sample);
    std::vector<std::byte> details = read_details(source, index);
    if (source.kind() == "concat") details = with_image_id(details, index);  // as the loader has it
    if (details.size() > kLargestDetails) {
      throw FormatError(
          "details", -1,
          fmt::format("{} bytes, expected at most {}", details.size(), kLargestDetails));
    }
    const Details known = decode_details(details);
    if (!known.mask.empty()) media::png::decode_indices(known.mask, options);
    sample.bytes.insert(sample.bytes.end(), details.begin(), details.end());
    sample.details_bytes = static_cast<uint32_t>(details.size());
  } catch (const FormatError& e) {
    if (!is_of_the_sample(e, source, index)) throw;
    sample.problem =
        source.one_file_each(index) ? reason_of(e.what(), source.path(index)) : e.what();
  } catch (const Unsupported& e) {
    sample.problem = e.what();
  }
  return sample;
}

}  // namespace stretto::data
