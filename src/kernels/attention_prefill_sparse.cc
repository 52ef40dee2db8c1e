#include "kernels/attention_prefill_sparse.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "base/portable_math.h"
#include "kernels/attention_task.h"
#include "kernels/random_energy.h"
#include "kernels/sparse_attention_ops.h"
#include "kernels/sparse_workspace.h"

namespace baton {
namespace {

constexpr double kLn2 = 0.6931471805599453;
constexpr int64_t kMaxPosition = (int64_t{1} << 31) - 1;

// Rows of a sequence at the positions [begin, end).
struct Positions {
  int64_t begin;
  int64_t end;
};

int64_t CountTiles(const Positions& positions, int64_t tile) {
  if (positions.end <= positions.begin) return 0;
  return (positions.end - 1) / tile - positions.begin / tile + 1;
}

// A tile of one sequence.
struct Tile {
  int64_t sequence;
  int64_t index;  // on the absolute grid
  Positions positions;
  bool is_prompt;
};

// One call, with what follows from its arguments.
class SparseCall {
 public:
  SparseCall(const KernelContext& context, const SparsePrefillArgs& args)
      : context_(context),
        args_(args),
        policy_(*args.policy),
        ops_(*context.table.sparse_attention),
        tile_(TilePositions(policy_, args.attention.shape.GroupSize())),
        plan_(internal::MakeSparsePlan(args.attention.shape, policy_, args.attention.sequences)) {
    std::byte* at = args.attention.workspace.data();
    packed_ = reinterpret_cast<float*>(at);
    at += static_cast<size_t>(plan_.PackedFloats()) * sizeof(float);
    workers_ = at;
    worker_bytes_ = plan_.WorkerBytes();
    for (int i = 0; i < context.pool.num_threads(); ++i) {
      const internal::SparseWorkerSpace space = Worker(i);
      *space.times = {};
      std::fill_n(space.counts, plan_.num_kv_heads, BlockCounts{});
    }
    const float rest = static_cast<float>(Log2(kBlockTokens - internal::NumFar(policy_)));
    const float whole = static_cast<float>(Log2(policy_.block_tokens));
    for (int i = 0; i < plan_.num_slabs; ++i) {
      const bool is_rest =
          internal::NumFar(policy_) > 0 && i % (internal::NumFar(policy_) + 1) == 0;
      biases_.score[i] = is_rest ? rest : 0.0f;
      biases_.correct[i] = internal::NumFar(policy_) == 0 ? whole : biases_.score[i];
    }
  }

  void Run() {
    const int64_t num_heads = plan_.num_kv_heads;
    if (!IsDenseLayer() && plan_.packed_strips > 0) {
      context_.pool.ParallelFor(plan_.packed_strips * num_heads, [&](int64_t task, int worker) {
        const int64_t start = NowNs();
        PackStrip(static_cast<int>(task % num_heads), task / num_heads);
        Worker(worker).times->pack += NowNs() - start;
      });
    }
    int64_t num_tiles = 0;
    for (size_t i = 0; i < args_.attention.sequences.size(); ++i) {
      num_tiles += CountTiles(PromptOf(i), tile_) + CountTiles(RestOf(i), tile_);
    }
    if (num_tiles == 0) return;
    context_.pool.ParallelFor(num_tiles * num_heads, [&](int64_t task, int worker) {
      RunTile(FindTile(task % num_tiles), static_cast<int>(task / num_tiles), Worker(worker));
    });
    AddTotals();
  }

 private:
  internal::SparseWorkerSpace Worker(int worker) const {
    return plan_.WorkerAt(workers_ + static_cast<size_t>(worker) * worker_bytes_);
  }

  int64_t NowNs() const { return args_.clock == nullptr ? 0 : args_.clock->NowNs(); }

  const AttentionSequence& Sequence(int64_t index) const {
    return args_.attention.sequences[static_cast<size_t>(index)];
  }

  // Rows of the prompt, and those after it.
  Positions PromptOf(size_t index) const {
    const AttentionSequence& sequence = args_.attention.sequences[index];
    const int64_t end = sequence.first_position + sequence.num_rows;
    return {.begin = sequence.first_position, .end = std::min(end, args_.prompt_tokens[index])};
  }
  Positions RestOf(size_t index) const {
    const AttentionSequence& sequence = args_.attention.sequences[index];
    const int64_t end = sequence.first_position + sequence.num_rows;
    return {.begin = std::max(sequence.first_position, args_.prompt_tokens[index]), .end = end};
  }

  // Tile `index` of all sequences, later ones of a sequence first: they take longest.
  Tile FindTile(int64_t index) const {
    for (size_t i = 0; i < args_.attention.sequences.size(); ++i) {
      for (const bool is_prompt : {false, true}) {
        const Positions all = is_prompt ? PromptOf(i) : RestOf(i);
        const int64_t count = CountTiles(all, tile_);
        if (index >= count) {
          index -= count;
          continue;
        }
        const int64_t tile = all.begin / tile_ + count - 1 - index;
        return {.sequence = static_cast<int64_t>(i),
                .index = tile,
                .positions = {.begin = std::max(all.begin, tile * tile_),
                              .end = std::min(all.end, (tile + 1) * tile_)},
                .is_prompt = is_prompt};
      }
    }
    CHECK(false);
    return {};
  }

  bool IsDenseLayer() const {
    return policy_.rule == SelectionRule::kAll ||
           (args_.attention.layer.sliding_window != 0 && !policy_.has_sparse_windows);
  }
  bool IsDenseHeadOf(int64_t sequence, int kv_head) const {
    const int64_t prompt = args_.prompt_tokens[static_cast<size_t>(sequence)];
    return IsDenseLayer() || prompt <= policy_.min_prompt_tokens ||
           IsDenseHead(policy_, {.layer = args_.layer, .kv_head = kv_head});
  }
  bool IsDense(const Tile& tile, int kv_head) const {
    const int64_t prompt = args_.prompt_tokens[static_cast<size_t>(tile.sequence)];
    const int64_t num_tiles = (prompt + tile_ - 1) / tile_;
    return !tile.is_prompt || tile.index >= num_tiles - policy_.last_tiles ||
           IsDenseHeadOf(tile.sequence, kv_head);
  }

  // Packed strips of a sequence and KV head.
  float* PackedOf(int64_t sequence, int kv_head) const {
    int64_t before = 0;
    for (int64_t i = 0; i < sequence; ++i) before += internal::CountStrips(policy_, Sequence(i));
    const int64_t own = internal::CountStrips(policy_, Sequence(sequence));
    return packed_ + (before * plan_.num_kv_heads + own * kv_head) *
                         PackedStripFloats(plan_.head_dim, plan_.num_slabs);
  }

  // Packs strip `index` of all sequences, as far as its blocks are complete and in sight.
  void PackStrip(int kv_head, int64_t index) {
    int64_t sequence = 0;
    while (index >= internal::CountStrips(policy_, Sequence(sequence))) {
      index -= internal::CountStrips(policy_, Sequence(sequence++));
    }
    if (IsDenseHeadOf(sequence, kv_head)) return;
    const Positions rows = PromptOf(static_cast<size_t>(sequence));
    if (rows.end <= rows.begin) return;
    const TileBlocks blocks =
        FindTileBlocks({.first_position = rows.begin,
                        .last_position = rows.end - 1,
                        .sliding_window = args_.attention.layer.sliding_window},
                       policy_.block_tokens);
    const int64_t first = index * kStripBlocks;
    const auto lane = [&](int64_t block) {
      return static_cast<int>(std::clamp<int64_t>(block - first, 0, kStripBlocks));
    };
    if (lane(blocks.low) >= lane(blocks.scored_end)) return;
    const AttentionLayer& layer = args_.attention.layer;
    ops_.pack(
        {.blocks = Sequence(sequence).blocks,
         .record_offset = layer.record_offset + static_cast<size_t>(kv_head) * layer.head_stride,
         .kv_type = layer.kv_type,
         .head_dim = plan_.head_dim,
         .halves = policy_.block_tokens / kBlockTokens,
         .num_far = internal::NumFar(policy_),
         .first_block = first,
         .begin = lane(blocks.low),
         .end = lane(blocks.scored_end),
         .packed = PackedOf(sequence, kv_head) +
                   index * PackedStripFloats(plan_.head_dim, plan_.num_slabs)});
  }

  TileEstimates EstimatesOf(const Tile& tile, int kv_head, const TileBlocks& blocks,
                            const internal::SparseWorkerSpace& space) const {
    TileEstimates estimates;
    estimates.packed = PackedOf(tile.sequence, kv_head);
    estimates.num_slabs = plan_.num_slabs;
    std::copy_n(biases_.score, kMaxEstimateSlabs, estimates.score_bias);
    std::copy_n(biases_.correct, kMaxEstimateSlabs, estimates.correct_bias);
    estimates.block_tokens = policy_.block_tokens;
    estimates.low = blocks.low;
    estimates.scored_end = blocks.scored_end;
    estimates.z = space.z;
    estimates.row_tops = space.row_tops;
    estimates.energies = space.energies;
    return estimates;
  }

  AttentionTask TaskOf(const Tile& tile, int kv_head,
                       const internal::SparseWorkerSpace& space) const {
    const AttentionSequence& sequence = Sequence(tile.sequence);
    AttentionTask task = internal::MakeTask(context_.table, args_.attention, sequence, kv_head);
    const int64_t skipped = tile.positions.begin - sequence.first_position;
    task.q += skipped * task.q_stride;
    task.out += skipped * task.out_stride;
    task.first_position = tile.positions.begin;
    task.num_positions = static_cast<int>(tile.positions.end - tile.positions.begin);
    task.scratch = space.scratch;
    return task;
  }

  void RunTile(const Tile& tile, int kv_head, const internal::SparseWorkerSpace& space) {
    const AttentionTask task = TaskOf(tile, kv_head, space);
    TileSelection chosen = {.sequence = tile.sequence,
                            .tile = tile.index,
                            .rows = {.first_position = tile.positions.begin,
                                     .last_position = tile.positions.end - 1,
                                     .sliding_window = args_.attention.layer.sliding_window},
                            .layer = args_.layer,
                            .kv_head = kv_head,
                            .is_dense = IsDense(tile, kv_head)};
    chosen.blocks = FindTileBlocks(chosen.rows, policy_.block_tokens);
    const TileEstimates estimates = EstimatesOf(tile, kv_head, chosen.blocks, space);
    const int64_t prepare_start = NowNs();
    ops_.prepare(task);
    space.times->attend += NowNs() - prepare_start;
    const SelectionCounts counts = Choose(task, estimates, space, chosen);
    const int64_t attend_start = NowNs();
    ops_.attend(task, space.lists.kept.data(), counts.kept, policy_.block_tokens);
    const int64_t correct_start = NowNs();
    if (!chosen.corrected.empty()) {
      ops_.correct(task, estimates, space.lists.corrected.data(), counts.corrected);
    }
    const int64_t finish_start = NowNs();
    const bool wants_lse = args_.lse.data() != nullptr;
    ops_.finish(task, wants_lse ? space.row_m : nullptr, wants_lse ? space.row_l : nullptr);
    if (wants_lse) StoreLse(task, tile, kv_head, space);
    space.times->attend += correct_start - attend_start + NowNs() - finish_start;
    space.times->correct += finish_start - correct_start;
    if (tile.is_prompt) {
      space.counts[kv_head].kept += counts.kept;
      space.counts[kv_head].candidates += chosen.blocks.NumCandidates();
    }
    if (args_.observer != nullptr) args_.observer->OnTile(chosen);
  }

  // Fills in the lists, and what they were chosen by.
  SelectionCounts Choose(const AttentionTask& task, const TileEstimates& estimates,
                         const internal::SparseWorkerSpace& space, TileSelection& chosen) const {
    const int64_t start = NowNs();
    int64_t scored = start;
    SelectionCounts counts;
    if (chosen.is_dense) {
      counts = KeepAllBlocks(chosen.blocks, space.lists);
    } else {
      if (chosen.blocks.NumScored() > 0) {
        chosen.largest_logit =
            static_cast<float>(kLn2 * static_cast<double>(ops_.score(task, estimates)));
        if (ChoosesByEnergy(policy_)) ReplaceEnergies(task, estimates, chosen);
        chosen.energies = {space.energies + chosen.blocks.low % kStripBlocks,
                           static_cast<size_t>(chosen.blocks.NumScored())};
      }
      scored = NowNs();
      const double share = ShareOfHead(policy_, {.layer = args_.layer, .kv_head = chosen.kv_head});
      counts = SelectBlocks(policy_, share, chosen.blocks, chosen.energies, space.lists);
    }
    space.times->score += scored - start;
    space.times->select += NowNs() - scored;
    chosen.kept = space.lists.kept.first(static_cast<size_t>(counts.kept));
    if (policy_.has_correction) {
      chosen.corrected = space.lists.corrected.first(static_cast<size_t>(counts.corrected));
    }
    return counts;
  }

  // By the policy's yardstick, if it names one.
  void ReplaceEnergies(const AttentionTask& task, const TileEstimates& estimates,
                       const TileSelection& chosen) const {
    if (policy_.energy == BlockEnergy::kTrue) ops_.weigh(task, estimates);
    if (policy_.energy != BlockEnergy::kRandom) return;
    const int64_t lane_0 = chosen.blocks.low / kStripBlocks * kStripBlocks;
    for (int64_t block = chosen.blocks.low; block < chosen.blocks.scored_end; ++block) {
      estimates.energies[block - lane_0] = RandomEnergy({.seed = policy_.energy_seed,
                                                         .layer = args_.layer,
                                                         .kv_head = chosen.kv_head,
                                                         .tile = chosen.tile,
                                                         .block = block});
    }
  }

  void StoreLse(const AttentionTask& task, const Tile& tile, int kv_head,
                const internal::SparseWorkerSpace& space) const {
    const AttentionSequence& sequence = Sequence(tile.sequence);
    const int64_t first_row = sequence.first_row + tile.positions.begin - sequence.first_position;
    for (int r = 0; r < task.num_positions * task.group; ++r) {
      const double l = static_cast<double>(space.row_l[r]);
      args_.lse(first_row + r / task.group, int64_t{kv_head} * task.group + r % task.group) =
          static_cast<float>(kLn2 * static_cast<double>(space.row_m[r]) + Log(l));
    }
  }

  void AddTotals() const {
    for (int i = 0; i < context_.pool.num_threads(); ++i) {
      const internal::SparseWorkerSpace space = Worker(i);
      for (size_t h = 0; h < args_.counts.size(); ++h) {
        args_.counts[h].kept += space.counts[h].kept;
        args_.counts[h].candidates += space.counts[h].candidates;
      }
      if (args_.times == nullptr) continue;
      args_.times->pack += space.times->pack;
      args_.times->score += space.times->score;
      args_.times->select += space.times->select;
      args_.times->attend += space.times->attend;
      args_.times->correct += space.times->correct;
    }
  }

  struct Biases {
    float score[kMaxEstimateSlabs] = {};
    float correct[kMaxEstimateSlabs] = {};
  };

  const KernelContext& context_;
  const SparsePrefillArgs& args_;
  const SparsePolicy& policy_;
  const SparseAttentionOps& ops_;
  const int64_t tile_;
  const internal::SparsePlan plan_;
  Biases biases_;
  float* packed_ = nullptr;
  std::byte* workers_ = nullptr;
  size_t worker_bytes_ = 0;
};

void CheckSparseArgs(const SparsePrefillArgs& args) {
  internal::CheckAttentionArgs(args.attention);
  CHECK(args.policy != nullptr);
  CHECK_EQ(args.prompt_tokens.size(), args.attention.sequences.size());
  CHECK(args.policy->block_tokens == 64 || args.policy->block_tokens == 128);
  CHECK_GE(args.policy->window_tokens, 1);
  CHECK(args.counts.empty() ||
        args.counts.size() == static_cast<size_t>(args.attention.shape.num_kv_heads));
  if (args.lse.data() != nullptr) {
    CHECK_EQ(args.lse.rows(), args.attention.q.rows());
    CHECK_EQ(args.lse.cols(), int64_t{args.attention.shape.num_heads});
  }
  for (const AttentionSequence& sequence : args.attention.sequences) {
    CHECK_LE(sequence.first_position + sequence.num_rows, kMaxPosition);
  }
}

}  // namespace

size_t SparsePrefillWorkspaceBytes(const AttentionShape& shape, const SparsePolicy& policy,
                                   std::span<const AttentionSequence> sequences, int num_threads) {
  const internal::SparsePlan plan = internal::MakeSparsePlan(shape, policy, sequences);
  return static_cast<size_t>(plan.PackedFloats()) * sizeof(float) +
         plan.WorkerBytes() * static_cast<size_t>(num_threads);
}

void SparsePrefillAttention(const KernelContext& context, const SparsePrefillArgs& args) {
  CheckSparseArgs(args);
  CHECK_GE(args.attention.workspace.size(),
           SparsePrefillWorkspaceBytes(args.attention.shape, *args.policy, args.attention.sequences,
                                       context.pool.num_threads()));
  SparseCall(context, args).Run();
}

}  // namespace baton
