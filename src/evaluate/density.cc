#include "evaluate/density.h"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>

#include "evaluate/prompt_reader.h"

namespace baton {
namespace {

// Counts what every tile keeps, and copies the tiles of the map.
class DensityObserver final : public TileObserver {
 public:
  DensityObserver(const ModelSpec& spec, const std::optional<DenseHead>& map) : map_(map) {
    const std::vector<BlockCounts> heads(static_cast<size_t>(spec.num_kv_heads));
    counts_.assign(static_cast<size_t>(spec.num_layers()), heads);
  }

  void OnTile(const TileSelection& selection) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    BlockCounts& counts =
        counts_[static_cast<size_t>(selection.layer)][static_cast<size_t>(selection.kv_head)];
    counts.kept += std::ssize(selection.kept);
    counts.candidates += selection.blocks.NumCandidates();
    if (map_ != DenseHead{.layer = selection.layer, .kv_head = selection.kv_head}) return;
    tiles_.push_back({.first_position = selection.rows.first_position,
                      .last_position = selection.rows.last_position,
                      .blocks = selection.blocks,
                      .is_dense = selection.is_dense,
                      .kept = {selection.kept.begin(), selection.kept.end()}});
  }

  std::vector<std::vector<BlockCounts>> TakeCounts() { return std::move(counts_); }
  std::vector<KeptTile> TakeTiles() {
    std::sort(tiles_.begin(), tiles_.end(), [](const KeptTile& a, const KeptTile& b) {
      return a.first_position < b.first_position;
    });
    return std::move(tiles_);
  }

 private:
  const std::optional<DenseHead> map_;
  std::mutex mutex_;
  std::vector<std::vector<BlockCounts>> counts_;
  std::vector<KeptTile> tiles_;
};

Result<> CheckMap(const DenseHead& map, const ModelSpec& spec) {
  const bool is_right = map.layer >= 0 && map.layer < spec.num_layers() && map.kv_head >= 0 &&
                        map.kv_head < spec.num_kv_heads;
  if (is_right) return {};
  return Fail(ErrorCode::kInvalid,
              fmt::format("the map's layer must be in 0..{} and its KV head in 0..{}, got {}:{}",
                          spec.num_layers() - 1, spec.num_kv_heads - 1, map.layer, map.kv_head));
}

// A position of every tile: of chunks without logits the last layer is not computed.
std::vector<int64_t> EndsOfTiles(const SparsePolicy& policy, const ModelSpec& spec,
                                 int64_t num_tokens) {
  const int64_t tile = TilePositions(policy, spec.num_heads / spec.num_kv_heads);
  std::vector<int64_t> positions;
  for (int64_t end = tile; end < num_tokens; end += tile) positions.push_back(end - 1);
  positions.push_back(num_tokens - 1);
  return positions;
}

}  // namespace

Result<DensityResult> MeasureDensity(LoadedModel& model, std::span<const TokenId> tokens,
                                     const DensityOptions& options, const TokenProgress& progress,
                                     const std::atomic<bool>& cancel) {
  if (tokens.empty()) return Fail(ErrorCode::kInvalid, "there are no tokens to read");
  const ModelSpec& spec = model.model->spec();
  if (options.map) {
    if (Result<> right = CheckMap(*options.map, spec); !right) return Forward(right);
  }
  Result<PromptReader> reader = PromptReader::Make(model, std::ssize(tokens));
  if (!reader) return Forward(reader);
  DensityObserver observer(spec, options.map);
  DensityResult result;
  const std::vector<int64_t> positions = EndsOfTiles(options.policy, spec, std::ssize(tokens));
  const Result<double> read = reader->Read(
      {.tokens = tokens,
       .policy = &options.policy,
       .positions = positions,
       .report = &result.report,
       .observer = &observer},
      [](int64_t, std::span<const float>) {},
      [&](int64_t done) {
        if (progress) progress(done, std::ssize(tokens));
      },
      cancel);
  if (!read) return Forward(read);
  result.counts = observer.TakeCounts();
  if (options.map) {
    result.map = KeptMap{.layer = options.map->layer,
                         .kv_head = options.map->kv_head,
                         .tiles = observer.TakeTiles()};
  }
  return result;
}

}  // namespace baton
