// Which tensors a model of the family has, and whether a checkpoint holds exactly these: names,
// shapes and dtypes are checked here, once, so that nothing behind the import meets a surprise.
#pragma once

#include "base/safetensors.h"
#include "models/qwen35/graphs.h"

namespace gm {

// Canonical name -> stored shape, for all that the text model uses (without the head if it is the
// embedding), with packed experts and separate projections.
std::map<std::string, std::vector<int64_t>, std::less<>> model_tensors(const Qwen35Config& config);

// The stored dtype (BF16, F16 or F32) of each tensor that is there: experts may be stored one by
// one instead of packed, and Qwen3-Next's input projections fused (docs/models.md). Vision and
// draft tensors are skipped by name. Errors, 121x at the tensor: missing, unknown, of another shape
// or dtype, quantised, of a layout that is not read, or a head that differs from the embedding it
// is tied to.
Result<WeightDtypes> match_checkpoint(const Qwen35Config& config, const SafeTensors& checkpoint);

// The dtypes of the published checkpoints: BF16 but for A_log and the delta net's norm, which are
// F32.
WeightDtypes published_dtypes(const Qwen35Config& config);

}  // namespace gm
