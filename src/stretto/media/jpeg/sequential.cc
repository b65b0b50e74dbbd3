#include "stretto/media/jpeg/sequential.h"

#include <algorithm>
#include <array>
#include <iterator>

#include "stretto/media/jpeg/sequential_kernel.h"

namespace stretto::media::jpeg {
namespace {

void fill_several(HuffmanTable& table) {
  for (size_t i = 0; i < std::size(table.several); ++i) {
    int used = 0, skip = 0;
    uint32_t end = 0;
    while (end == 0) {
      // With zeros for the bits that are not known.
      const uint32_t entry = table.first[i << used & (std::size(table.first) - 1)];
      const int known = kFirstBits - used;
      if (entry == 0 || code_bits(entry) > known || used + used_bits(entry) > 31) break;
      used += used_bits(entry);
      if (skip_of(entry) == kEndOfBlock) {
        end = kAtTheEnd;
      } else {
        skip += skip_of(entry) + 1;
      }
      if (used >= kFirstBits) break;
    }
    table.several[i] = static_cast<uint32_t>(used) | end | static_cast<uint32_t>(skip) << 12;
  }
}

// False where libjpeg refuses the table.
bool make_table(const JHUFF_TBL* from, bool dc, HuffmanTable& table) {
  if (from == nullptr) return false;
  table.dc = dc;
  std::fill(std::begin(table.first), std::end(table.first), 0);
  std::fill(std::begin(table.last), std::end(table.last), -1);
  std::fill(std::begin(table.offset), std::end(table.offset), 0);
  int code = 0, index = 0;
  for (int length = 1; length <= 16; ++length, code <<= 1) {
    const int count = from->bits[length], rest = kFirstBits - length;
    // No code may be all ones.
    if (index + count > 256 || (count > 0 && code + count >= 1 << length)) return false;
    table.offset[static_cast<size_t>(length)] = index - code;
    for (int i = 0; i < count; ++i, ++index, ++code) {
      const int symbol = from->huffval[index];
      if (dc && symbol > 15) return false;
      table.symbol[static_cast<size_t>(index)] = static_cast<uint8_t>(symbol);
      if (rest >= 0) {
        std::fill_n(table.first + (code << rest), 1 << rest, entry_of(symbol, length, dc));
      }
    }
    if (count > 0) table.last[static_cast<size_t>(length)] = code - 1;
  }
  if (!dc) fill_several(table);
  return true;
}

bool is_ordinary(const jpeg_decompress_struct& info) {
  const int count = info.num_components;
  if (info.progressive_mode || info.arith_code || info.data_precision != 8 ||
      info.comps_in_scan != count || info.Ss != 0 || info.Se != DCTSIZE2 - 1 || info.Ah != 0 ||
      info.Al != 0 || (count != 1 && count != 3)) {
    return false;
  }
  int blocks = 0;
  for (int k = 0; k < count; ++k) {
    const jpeg_component_info& c = info.comp_info[k];
    blocks += c.h_samp_factor * c.v_samp_factor;
    if (info.cur_comp_info[k] != &c || info.max_h_samp_factor % c.h_samp_factor ||
        info.max_v_samp_factor % c.v_samp_factor || c.quant_tbl_no < 0 ||
        c.quant_tbl_no >= NUM_QUANT_TBLS || info.quant_tbl_ptrs[c.quant_tbl_no] == nullptr ||
        c.dc_tbl_no < 0 || c.dc_tbl_no >= NUM_HUFF_TBLS || c.ac_tbl_no < 0 ||
        c.ac_tbl_no >= NUM_HUFF_TBLS) {
      return false;
    }
  }
  return blocks <= (count == 1 ? 1 : D_MAX_BLOCKS_IN_MCU);
}

struct Tables {
  std::array<HuffmanTable, NUM_HUFF_TBLS> dc, ac;
  std::array<bool, NUM_HUFF_TBLS> dc_made{}, ac_made{};
};

const HuffmanTable* table_of(const JHUFF_TBL* const* from, int number, bool dc, Tables& tables) {
  const auto n = static_cast<size_t>(number);
  HuffmanTable& table = dc ? tables.dc[n] : tables.ac[n];
  bool& made = dc ? tables.dc_made[n] : tables.ac_made[n];
  if (!made && !make_table(from[n], dc, table)) return nullptr;
  made = true;
  return &table;
}

}  // namespace

std::optional<Planes> decode_sequential(Decompressor& decompressor, const Region& region,
                                        Buffer& buffer, Isa isa) {
  const jpeg_decompress_struct& info = decompressor.info();
  if (!is_ordinary(info)) return {};
  Tables tables;
  Scan scan;
  scan.data = info.src->next_input_byte;
  scan.end = scan.data + info.src->bytes_in_buffer;
  scan.count = info.num_components;
  scan.restart_interval = info.restart_interval;
  const int64_t mcu_width = int64_t{info.max_h_samp_factor} * DCTSIZE;
  const int64_t mcu_height = int64_t{info.max_v_samp_factor} * DCTSIZE;
  scan.mcus_x = ceil_div(info.image_width, mcu_width);
  scan.first_mcu = region.x0 / mcu_width;
  scan.last_mcu = ceil_div(region.x1, mcu_width);
  scan.first_row = region.y0 / mcu_height;
  scan.last_row = ceil_div(region.y1, mcu_height);

  Planes planes{.width = info.image_width, .height = info.image_height, .count = scan.count};
  planes.colour = planes.count == 1                    ? Colour::kGrey
                  : info.jpeg_color_space == JCS_YCbCr ? Colour::kYCbCr
                                                       : Colour::kRgb;
  std::array<size_t, 3> offsets{};
  size_t total = 0;
  for (int k = 0; k < scan.count; ++k) {
    const jpeg_component_info& from = info.comp_info[k];
    ScanComponent& c = scan.component[static_cast<size_t>(k)];
    c.h = from.h_samp_factor;
    c.v = from.v_samp_factor;
    c.blocks_x = from.width_in_blocks;
    c.blocks_y = from.height_in_blocks;
    c.dc = table_of(info.dc_huff_tbl_ptrs, from.dc_tbl_no, true, tables);
    c.ac = table_of(info.ac_huff_tbl_ptrs, from.ac_tbl_no, false, tables);
    if (c.dc == nullptr || c.ac == nullptr) return {};
    for (size_t i = 0; i < std::size(kNatural); ++i) {
      c.quantisation[i] = info.quant_tbl_ptrs[from.quant_tbl_no]->quantval[kNatural[i]];
    }
    c.first_x = scan.first_mcu * c.h;
    c.first_y = scan.first_row * c.v;
    const int64_t last_x = std::min(scan.last_mcu * c.h, c.blocks_x);
    const int64_t last_y = std::min(scan.last_row * c.v, c.blocks_y);
    c.stride = (last_x - c.first_x) * DCTSIZE;
    Plane& plane = planes.plane[static_cast<size_t>(k)];
    plane.ratio_x = info.max_h_samp_factor / c.h;
    plane.ratio_y = info.max_v_samp_factor / c.v;
    plane.full_width = ceil_div(planes.width, plane.ratio_x);
    plane.full_height = ceil_div(planes.height, plane.ratio_y);
    plane.stride = c.stride;
    plane.x0 = c.first_x * DCTSIZE;
    plane.y0 = c.first_y * DCTSIZE;
    plane.width = std::min(plane.full_width, last_x * DCTSIZE) - plane.x0;
    plane.height = std::min(plane.full_height, last_y * DCTSIZE) - plane.y0;
    offsets[static_cast<size_t>(k)] = total;
    total += static_cast<size_t>(c.stride * (last_y - c.first_y) * DCTSIZE + 63) / 64 * 64;
  }
  uint8_t* const data = buffer.get(total);
  for (int k = 0; k < scan.count; ++k) {
    const auto i = static_cast<size_t>(k);
    planes.plane[i].data = scan.component[i].to = data + offsets[i];
  }
  if (!decode_scan(scan, isa)) return {};
  return planes;
}

}  // namespace stretto::media::jpeg
