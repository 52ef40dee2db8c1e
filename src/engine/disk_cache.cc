#include "engine/disk_cache.h"

#include <utility>

namespace baton {

Result<std::unique_ptr<DiskCache>> DiskCache::Make(const DiskTierConfig& config,
                                                   std::function<void()> wake) {
  Result<DiskTier> tier = DiskTier::Open(config);
  if (!tier) return Forward(tier);
  return std::unique_ptr<DiskCache>(
      new DiskCache(*std::move(tier), config.kind.layout.block_bytes(), std::move(wake)));
}

DiskCache::DiskCache(DiskTier tier, size_t block_bytes, std::function<void()> wake)
    : tier_(std::move(tier)),
      block_bytes_(block_bytes),
      wake_(std::move(wake)),
      thread_([this] { Work(); }) {}

DiskCache::~DiskCache() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    wanted_.clear();
  }
  changed_.notify_one();
  thread_.join();
}

void DiskCache::Store(const Hash128& name, std::span<const TokenId> tokens,
                      std::span<const std::byte> bytes) {
  {
    const std::lock_guard lock(mutex_);
    if (stored_.size() >= kMaxWaiting) {
      ++counters_.skipped;
      return;
    }
  }
  // Only this thread adds, so there is still room.
  Stored block{.name = name,
               .tokens = {tokens.begin(), tokens.end()},
               .bytes = {bytes.begin(), bytes.end()}};
  {
    const std::lock_guard lock(mutex_);
    stored_.push_back(std::move(block));
  }
  changed_.notify_one();
}

void DiskCache::Load(Wanted wanted) {
  {
    const std::lock_guard lock(mutex_);
    wanted_.push_back(std::move(wanted));
  }
  changed_.notify_one();
}

void DiskCache::Take(std::vector<Loaded>& loaded) {
  loaded.clear();
  {
    const std::lock_guard lock(mutex_);
    std::swap(loaded, loaded_);
    num_loaded_ = 0;
  }
  if (!loaded.empty()) changed_.notify_one();
}

DiskCacheCounters DiskCache::counters() const {
  const std::lock_guard lock(mutex_);
  return counters_;
}

void DiskCache::OnProblem(std::function<void(const std::string& message)> listener) {
  const std::lock_guard lock(mutex_);
  on_problem_ = std::move(listener);
}

void DiskCache::Work() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return stopping_ || MayLoad() || !stored_.empty(); });
    // Somebody waits for what is to be read.
    if (MayLoad()) {
      LoadSlice(lock);
    } else if (!stored_.empty()) {
      StoreOne(lock);
    } else if (stopping_) {
      return;
    }
  }
}

void DiskCache::StoreOne(std::unique_lock<std::mutex>& lock) {
  const Stored block = std::move(stored_.front());
  stored_.pop_front();
  lock.unlock();
  const Result<bool> put = tier_.Put({.name = block.name, .tokens = block.tokens}, block.bytes);
  const DiskTierCounters counters = tier_.counters();
  lock.lock();
  counters_.tier = counters;
  const bool begins_to_fail = !put && stores_;
  stores_ = put.has_value();
  if (put) return;
  ++counters_.failed;
  if (begins_to_fail && on_problem_) on_problem_(put.error().message);
}

void DiskCache::LoadSlice(std::unique_lock<std::mutex>& lock) {
  Wanted wanted = std::move(wanted_.front());
  wanted_.pop_front();
  lock.unlock();
  Loaded slice{
      .ticket = wanted.ticket, .first_block = wanted.first_block, .blocks = {}, .is_last = false};
  while (slice.blocks.size() < kSlice && !slice.is_last) {
    const size_t block = wanted.first_block;
    if (block == wanted.names.size()) {
      slice.is_last = true;
      break;
    }
    std::vector<std::byte> bytes(block_bytes_);
    const auto tokens = std::span(wanted.tokens).first((block + 1) * size_t{kBlockTokens});
    if (tier_.Get({.name = wanted.names[block], .tokens = tokens}, bytes)) {
      slice.blocks.push_back(std::move(bytes));
      ++wanted.first_block;
    } else {
      slice.is_last = true;
    }
  }
  const DiskTierCounters counters = tier_.counters();
  lock.lock();
  counters_.tier = counters;
  num_loaded_ += slice.blocks.size();
  // Others may want something, too; they take turns.
  if (!slice.is_last && !stopping_) wanted_.push_back(std::move(wanted));
  loaded_.push_back(std::move(slice));
  lock.unlock();
  wake_();
  lock.lock();
}

}  // namespace baton
