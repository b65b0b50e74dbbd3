// TensorProtos as tensors: raw bytes, typed fields and external files.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>

#include "stretto/base/file.h"
#include "stretto/import/onnx/import.h"
#include "stretto/import/onnx/schema.h"
#include "stretto/import/onnx/wire.h"
#include "stretto/tensor/any_value.h"
#include "stretto/tensor/tensor.h"

namespace stretto::onnx {

// ONNX's number for an element type as ours. Of strings it throws NotStraight. Throws Unsupported
// (FormatError for a number that ONNX does not know) beginning with `what`.
DType element_type(const Source& source, DataType type, std::string_view what, const char* at);

// The same without errors: kUndefined for what the engine lacks.
DType known_type(DataType type);

// Whether a TensorProto holds strings.
bool is_strings(const Source& source, std::string_view message);
// The inverse; every element type has a number.
DataType data_type(DType dtype);

// Reads the tensors of one model. Data stays where it is when `owner` keeps the source alive and
// the elements are aligned; otherwise it is copied. One message read twice gives the same tensor.
class TensorReader {
 public:
  // External data may lie in `folder` and below, nowhere else; empty: there is none but `given`,
  // which `owner` keeps alive, too.
  TensorReader(const Source& source, std::string folder, std::shared_ptr<const void> owner,
               std::span<const ExternalData> given = {});

  // Throws FormatError or Unsupported naming the tensor.
  Tensor read(std::string_view message);
  // The same where strings are welcome.
  AnyValue read_value(std::string_view message);
  // A SparseTensorProto as a dense tensor, zeros included. Throws Unsupported where the file asks
  // for far more memory than it gives values.
  Tensor read_sparse(std::string_view message);

  // Where the file has the data of a TensorProto that does not hold it itself.
  struct ExternalPlace {
    std::string_view location;
    uint64_t offset = 0;
    std::shared_ptr<const MappedFile> file;
    std::string_view bytes;
  };
  std::optional<ExternalPlace> external_place(std::string_view message);

  // The paths of the files with external data that were read.
  std::vector<std::string> external_files() const;

 private:
  struct Parts;
  Parts parts_of(std::string_view message);
  Tensor make(const Parts& parts);
  Tensor from_raw(const Parts& parts, std::string_view raw,
                  const std::shared_ptr<const void>& owner);
  Tensor from_typed(const Parts& parts);
  ExternalPlace find_external(const Parts& parts);
  std::string_view given_data(const Parts& parts, const ExternalPlace& place, uint64_t length);
  std::shared_ptr<const MappedFile> open_external(const Parts& parts, std::string_view location);

  const Source& source_;
  std::string folder_;
  std::shared_ptr<const void> owner_;
  std::unordered_map<const char*, Tensor> known_;
  int64_t sparse_excess_bytes_ = 0;  // of dense tensors over what their entries stand for
  std::map<std::string, std::shared_ptr<const MappedFile>> files_;
  // Given data by location and first byte in the file.
  std::map<std::string, std::map<uint64_t, std::string_view>, std::less<>> given_;
};

}  // namespace stretto::onnx
