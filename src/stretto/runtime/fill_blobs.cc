#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <map>

#include "stretto/base/cpu.h"
#include "stretto/base/interrupt.h"
#include "stretto/base/parallel.h"
#include "stretto/kernels/access.h"
#include "stretto/runtime/emission.h"
#include "stretto/tensor/identity.h"

namespace stretto::runtime {
namespace {

void write_constant(std::byte* to, const Tensor& tensor, Layout layout, int block) {
  if (layout == Layout::kPlain) {
    if (tensor.bytes() > 0) std::memcpy(to, tensor.data(), tensor.bytes());
    return;
  }
  const Shape& s = tensor.shape();
  const kernels::Access access({s[0], s[1], s[2], s[3]}, Layout::kBlocked, block);
  const auto* from = static_cast<const float*>(tensor.data());
  auto* out = reinterpret_cast<float*>(to);
  for (int64_t n = 0; n < s[0]; ++n) {
    for (int64_t c = 0; c < s[1]; ++c) {
      for (int64_t y = 0; y < s[2]; ++y) {
        for (int64_t x = 0; x < s[3]; ++x) out[access.at(n, c, y, x)] = *from++;
      }
    }
  }
}

// What a blob is made of, for sharing it: two with one text hold the same bytes.
struct Origin {
  std::string text;
  std::vector<Tensor> constants;
};

// Names the blobs of packed weights. Layers whose packed weights are the same share one; the jobs
// returned are those that fill a blob.
std::vector<PackJob> name_packed(Program& program, const std::vector<PackJob>& candidates,
                                 std::vector<Origin>& origins) {
  std::map<std::string, int32_t> shared;
  std::vector<PackJob> jobs;
  for (const PackJob& job : candidates) {
    Instruction& in = program.instructions[job.instruction];
    const auto bytes = static_cast<int64_t>(in.family->packed_bytes(in.row, in.problem.data()));
    if (bytes == 0) continue;
    Origin origin{.text = weights_name(*in.family, in.row, in.problem.data(),
                                       constants_name(job.step->constants)),
                  .constants = job.step->constants};
    const auto [at, first] =
        shared.try_emplace(origin.text, static_cast<int32_t>(program.blobs.size()));
    in.packed = at->second;
    if (!first) continue;
    // Tables made of the problem alone may hold indices, which kernels trust: those have no key and
    // are made anew wherever the program is.
    const bool of_weights = !job.step->constants.empty();
    const std::string what =
        fmt::format("{} {}", in.family->row_name(in.row), in.family->key(in.problem.data()));
    program.blobs.push_back({.key = of_weights ? fmt::format("{}|{}", in.node, what) : "",
                             .form = blob_form(in.family->packing(in.row, in.problem.data())),
                             .bytes = bytes});
    origins.resize(program.blobs.size());
    origins.back() = std::move(origin);
    jobs.push_back(job);
  }
  return jobs;
}

// Takes over what an artefact already holds. Returns per blob whether it must be filled here.
std::vector<bool> find_packed(Program& program, const CompileOptions& options) {
  std::vector<bool> empty(program.blobs.size(), true);
  if (!options.packed) return empty;
  for (size_t b = 0; b < program.blobs.size(); ++b) {
    Blob& blob = program.blobs[b];
    if (blob.key.empty()) continue;
    const Blob found = options.packed(blob.key, blob.form);
    const bool aligned = reinterpret_cast<uintptr_t>(found.data) % kAlignment == 0;
    if (found.data == nullptr || found.bytes != blob.bytes || !aligned) continue;
    blob.data = found.data;
    empty[b] = false;
  }
  program.owners.push_back(options.packed_owner);
  return empty;
}

// Takes over what other programs of the model hold.
void find_shared(Program& program, const std::vector<Origin>& origins, const SharedWeights& weights,
                 std::vector<bool>& empty) {
  for (size_t b = 0; b < program.blobs.size(); ++b) {
    if (!empty[b] || origins[b].text.empty()) continue;
    const auto found = weights.find(origins[b].text);
    if (!found || found->bytes != program.blobs[b].bytes) continue;
    program.blobs[b].data = found->data;
    program.owners.push_back(found->owner);
    empty[b] = false;
  }
}

void share(const Program& program, const std::vector<Origin>& origins, SharedWeights& weights) {
  // One owner of everything that this program holds: what it took from others it keeps alive too.
  const auto owner = std::make_shared<const std::vector<std::shared_ptr<const void>>>(
      program.owners.begin(), program.owners.end());
  for (size_t b = 0; b < program.blobs.size(); ++b) {
    if (origins[b].text.empty()) continue;
    const Blob& blob = program.blobs[b];
    weights.add(origins[b].text, {blob.data, blob.bytes, owner, origins[b].constants});
  }
}

void allocate_blobs(Program& program, const std::vector<bool>& empty) {
  int64_t total = 0;
  for (size_t b = 0; b < empty.size(); ++b) {
    if (empty[b]) total += round_up(program.blobs[b].bytes, kAlignment);
  }
  if (total == 0) return;
  const auto block = allocate(static_cast<size_t>(total));
  int64_t offset = 0;
  for (size_t b = 0; b < empty.size(); ++b) {
    if (!empty[b]) continue;
    program.blobs[b].data = block.get() + offset;
    offset += round_up(program.blobs[b].bytes, kAlignment);
  }
  program.owners.push_back(block);
}

// Only for blobs that allocate_blobs() gave memory to.
std::byte* memory(const Program& program, int blob) {
  return const_cast<std::byte*>(program.blobs[blob].data);
}

void run_jobs(const Program& program, const std::vector<PackJob>& jobs) {
  std::atomic<size_t> next{0};
  run_parallel(std::min(program.target.threads, cpu_info().cores), [&] {
    for (size_t j = next++; j < jobs.size(); j = next++) {
      try {
        check_interrupt();
      } catch (...) {
        next = jobs.size();
        throw;
      }
      const Instruction& in = program.instructions[jobs[j].instruction];
      in.family->pack(in.row, in.problem.data(), jobs[j].step->constants,
                      memory(program, in.packed));
    }
  });
}

}  // namespace

void fill_blobs(Emission& emission, const CompileOptions& options) {
  Program& program = emission.program();
  std::vector<Origin> origins(program.blobs.size());
  for (const ConstantBlob& constant : emission.constants) {
    const Tensor& tensor = emission.graph().value(constant.value).constant;
    origins[constant.blob] = {
        fmt::format("{} {}", program.blobs[constant.blob].form, identity(tensor)), {tensor}};
  }
  std::vector<PackJob> jobs = name_packed(program, emission.pack_jobs, origins);
  origins.resize(program.blobs.size());
  std::vector<bool> empty = find_packed(program, options);
  if (options.shared != nullptr) find_shared(program, origins, *options.shared, empty);
  allocate_blobs(program, empty);
  for (const ConstantBlob& constant : emission.constants) {
    if (!empty[constant.blob]) continue;
    write_constant(memory(program, constant.blob), emission.graph().value(constant.value).constant,
                   constant.layout, program.target.block());
  }
  std::erase_if(jobs, [&](const PackJob& job) {
    return !empty[program.instructions[job.instruction].packed];
  });
  emission.compiled.packed = static_cast<int>(
      std::ranges::count_if(jobs, [](const PackJob& job) { return !job.step->constants.empty(); }));
  if (!jobs.empty()) {
    if (options.progress) options.progress("packing weights", 0);
    run_jobs(program, jobs);
  }
  if (options.shared != nullptr) share(program, origins, *options.shared);
}

}  // namespace stretto::runtime
