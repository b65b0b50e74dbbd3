// The shape of every kernel in Stretto: a *family* per operator (conv2d, gemm, softmax, ...) is one
// plain-data problem type and one visible list of candidates. The tuner, the memory planner, the
// tests, the benches and `stretto kernels` all work on this erased form and know no operator.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "stretto/base/cpu.h"
#include "stretto/base/team.h"
#include "stretto/tensor/layout.h"
#include "stretto/tensor/tensor.h"

namespace stretto::kernels {

// strict: only kernels whose error is that of a direct fp32 sum (Winograd F(2,3) at most).
// default: F(4,3) and Strassen's products as well. fast: F(6,3) as well.
enum class Accuracy : uint8_t { kStrict, kDefault, kFast };
std::string_view accuracy_name(Accuracy accuracy);
Accuracy parse_accuracy(std::string_view name);  // throws InvalidArgument

// What a kernel is compiled for. Part of every problem and of every key of a tuning cache.
struct Target {
  Isa isa = kIsas.front();
  Accuracy accuracy = Accuracy::kDefault;
  // Vectors of a panel of packed weights; 0: what suits the number of rows. Given where weights are
  // packed already, for other shapes.
  int16_t panel_width = 0;
  int32_t threads = 1;

  int lanes() const { return isa_lanes(isa); }
  int block() const { return isa_lanes(isa); }  // of Layout::kBlocked
};
std::string target_text(const Target& target);  // "avx512/default/t2", with a width "..t2/p3"

// Whether a candidate can do a problem, and how well it expects to. `expected` is the effective
// fraction of the machine's fp32 peak (may exceed 1: Winograd), or of the memory bandwidth for
// families that only move data; it orders candidates when nothing was measured.
struct Fit {
  bool ok = false;
  double expected = 0;
  std::string reason;  // when not ok: why, for people

  static Fit yes(double expected) { return {true, expected, {}}; }
  static Fit no(std::string reason) { return {false, 0, std::move(reason)}; }
};

// One tensor of a problem. `shape` is logical; memory follows `layout`.
struct TensorInfo {
  std::string_view name;  // "x", "weight", "residual", ...
  DType dtype = DType::kFloat32;
  Shape shape;
  Layout layout = Layout::kPlain;
};

// All tensors of a problem, in the order in which pack() and run() get them. Constants are known
// when a model is compiled (weights, bias); inputs and outputs only when it runs. Constants are
// plain.
struct Signature {
  std::vector<TensorInfo> inputs, constants, outputs;
};

// What run() gets. Pointers are aligned to kAlignment, inputs only to their elements; none of these
// overlaps an output, but for the one that in_place() names: that may be the first output.
struct Args {
  std::span<const void* const> inputs;
  std::span<void* const> outputs;
  const std::byte* packed = nullptr;  // what pack() wrote
  std::byte* scratch = nullptr;       // scratch_bytes(), shared by all threads, contents undefined
};

// One row of a family's list. P is trivially copyable plain data without pointers, because programs
// copy it as bytes: give every byte a value, padding included (zero-initialise).
template <typename P>
struct Candidate {
  std::string_view name;  // "winograd_f4x4"
  Fit (*fits)(const P&);
  // Bytes that pack() writes / that run() needs as scratch for p.target.threads; null means 0.
  size_t (*packed_bytes)(const P&) = nullptr;
  // Rearranges the constants (signature order; absent ones undefined tensors) for run(). The
  // default when null and packed_bytes is null: the candidate needs no constants.
  void (*pack)(const P&, std::span<const Tensor> constants, std::byte* packed) = nullptr;
  // What packing_text() says of the bytes that pack() writes; not null where pack is not.
  std::string (*packing)(const P&) = nullptr;
  size_t (*scratch_bytes)(const P&) = nullptr;
  // The input, as long as the first output, over which run() may write it; -1 or null: none.
  int (*in_place)(const P&) = nullptr;
  // Phases of run(); null: one. A phase begins when all of the one before is done.
  int (*phases)(const P&) = nullptr;
  // Does unit `unit` of `units` of share `index` of `count`, in phase `phase`, each a field of
  // Worker; `count` is p.target.threads. All units of all shares together write every real element
  // of every output, whichever thread does them and in whichever order, to the same bits for any
  // number of units. `thread` says whose part of the scratch to use. No allocation, no lock, no
  // throw, no waiting.
  void (*run)(const P&, const Args&, const Worker&);
};

// A family with its types erased; row r is candidate r. Problems are passed by address.
struct Family {
  std::string_view name;
  size_t problem_bytes;
  int rows;
  int reference;  // the row that fits every problem, and that the others are checked against
  std::string_view (*row_name)(int row);
  // Human-readable and unique: the key of its choice in a tuning cache, target included.
  std::string (*key)(const void* problem);
  Signature (*signature)(const void* problem);
  // Floating point operations of the plain algorithm; 0 for pure data movement.
  double (*flops)(const void* problem);
  Fit (*fits)(int row, const void* problem);
  size_t (*packed_bytes)(int row, const void* problem);
  void (*pack)(int row, const void* problem, std::span<const Tensor> constants, std::byte* packed);
  std::string (*packing)(int row, const void* problem);
  // What pack() reads of the problem besides what packing() says: the same row, both texts and the
  // same constants give the same bytes, whatever the batch, the size of the maps and the threads.
  std::string (*weights_key)(const void* problem);
  size_t (*scratch_bytes)(int row, const void* problem);
  int (*in_place)(int row, const void* problem);
  int (*phases)(int row, const void* problem);
  void (*run)(int row, const void* problem, const Args& args, const Worker& worker);
  const Target& (*target)(const void* problem);
};

// Another width of panels for a problem.
void set_panel_width(const Family& family, void* problem, int width);

// All of a row's work by a team whose threads each do their own share.
void run_shares(const Family& family, int row, const void* problem, const Args& args,
                const Worker& worker);

// Every family. To add one: a folder with problem.h, a list, and one row in families.cc.
std::span<const Family* const> families();
const Family& family(std::string_view name);               // throws InvalidArgument
int find_row(const Family& family, std::string_view row);  // -1 when absent

// The row to use when nothing was measured: the fitting one with the highest expectation, the first
// of equals. Throws Unsupported with every reason when none fits.
int default_row(const Family& family, const void* problem);

template <const auto*>
struct Address {};

// Where kRow stands in kList; does not compile when it is not there. Compares types, because to GCC
// 11 a comparison of the addresses themselves is no constant.
template <const auto& kList, const auto& kRow, size_t... kIndex>
consteval int row_of(std::index_sequence<kIndex...>) {
  int found = -1;
  ((std::is_same_v<Address<kList[kIndex]>, Address<& kRow>> ? found = static_cast<int>(kIndex)
                                                            : found),
   ...);
  if (found < 0) throw "the reference is not in the list";
  return found;
}

// A family's erased form from its problem type, its list and the reference in it. P provides, by
// overload in its namespace:
//   std::string problem_key(const P&);  Signature problem_signature(const P&);
//   double problem_flops(const P&);     and a member `Target target`;
//   std::string weights_key(P);         where it has constants that programs may share.
template <typename P, const auto& kList, const auto& kReference>
constexpr Family make_family(std::string_view name) {
  static_assert(std::is_trivially_copyable_v<P>);
  const auto as = [](const void* p) -> const P& { return *static_cast<const P*>(p); };
  (void)as;
  return Family{
      .name = name,
      .problem_bytes = sizeof(P),
      .rows = static_cast<int>(std::size(kList)),
      .reference = row_of<kList, kReference>(std::make_index_sequence<std::size(kList)>()),
      .row_name = [](int row) { return kList[row]->name; },
      .key = [](const void* p) { return problem_key(*static_cast<const P*>(p)); },
      .signature = [](const void* p) { return problem_signature(*static_cast<const P*>(p)); },
      .flops = [](const void* p) { return problem_flops(*static_cast<const P*>(p)); },
      .fits = [](int row, const void* p) { return kList[row]->fits(*static_cast<const P*>(p)); },
      .packed_bytes =
          [](int row, const void* p) {
            return kList[row]->packed_bytes ? kList[row]->packed_bytes(*static_cast<const P*>(p))
                                            : 0;
          },
      .pack =
          [](int row, const void* p, std::span<const Tensor> constants, std::byte* packed) {
            if (kList[row]->pack) kList[row]->pack(*static_cast<const P*>(p), constants, packed);
          },
      .packing =
          [](int row, const void* p) {
            return kList[row]->packing ? kList[row]->packing(*static_cast<const P*>(p))
                                       : std::string();
          },
      .weights_key =
          [](const void* p) {
            const P& problem = *static_cast<const P*>(p);
            if constexpr (requires { weights_key(problem); }) {
              return weights_key(problem);
            } else {
              return problem_key(problem);
            }
          },
      .scratch_bytes =
          [](int row, const void* p) {
            return kList[row]->scratch_bytes ? kList[row]->scratch_bytes(*static_cast<const P*>(p))
                                             : 0;
          },
      .in_place =
          [](int row, const void* p) {
            return kList[row]->in_place ? kList[row]->in_place(*static_cast<const P*>(p)) : -1;
          },
      .phases =
          [](int row, const void* p) {
            return kList[row]->phases ? kList[row]->phases(*static_cast<const P*>(p)) : 1;
          },
      .run = [](int row, const void* p, const Args& args,
                const Worker& worker) { kList[row]->run(*static_cast<const P*>(p), args, worker); },
      .target = [](const void* p) -> const Target& { return static_cast<const P*>(p)->target; },
  };
}

}  // namespace stretto::kernels
