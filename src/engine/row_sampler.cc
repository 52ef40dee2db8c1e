#include "engine/row_sampler.h"

namespace baton {

RowSampler::RowSampler(ThreadPool& pool, int64_t vocab_size) : pool_(&pool) {
  for (int i = 0; i < pool.num_threads(); ++i) {
    samplers_.push_back(std::make_unique<Sampler>(vocab_size));
  }
}

uint64_t RowSampler::BufferBytes(int num_threads, int64_t vocab_size) {
  return static_cast<uint64_t>(num_threads) * Sampler::BufferBytes(vocab_size);
}

void RowSampler::Run(std::span<const SampleTask> tasks) {
  pool_->ParallelFor(std::ssize(tasks), [&](int64_t i, int worker) {
    const SampleTask& task = tasks[static_cast<size_t>(i)];
    Sampler& sampler = *samplers_[static_cast<size_t>(worker)];
    if (task.known) {
      *task.token =
          sampler.Score(task.logits, *task.known, task.params->num_top_logprobs.value_or(0));
    } else {
      *task.token = sampler.Sample(task.logits, *task.params, task.history);
    }
  });
}

}  // namespace baton
