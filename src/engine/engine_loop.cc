#include "engine/engine_loop.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "base/check.h"
#include "base/number_text.h"
#include "engine/memory_needs.h"
#include "engine/prompt_policy.h"

namespace baton {
namespace {

// An engine without work looks up so often, to check its books.
constexpr int64_t kIdleMs = 100;

double Seconds(int64_t ns) {
  return static_cast<double>(ns) * 1e-9;
}

}  // namespace

Engine::Loop::Loop(LoadedModel& model, const EngineConfig& config, BlockPool pool)
    : model_(&model),
      config_(config),
      pool_(std::move(pool)),
      scheduler_({.pool = pool_,
                  .kv_key = model.kv_key,
                  .limits = ScheduleLimitsOf(config, model.context_tokens),
                  .time_model = StepTimeModel()}),
      sampler_(*model.pool, model.model->spec().vocab_size),
      inbox_({.max_requests = config.max_queue_requests, .max_tokens = config.max_queue_tokens}) {
  const auto most = static_cast<size_t>(config.max_running);
  choices_.reserve(most);
  step_ids_.reserve(most);
  reports_.reserve(most);
  policies_.reserve(most);
  samples_.reserve(most);
  scores_.reserve(most);
}

Result<std::unique_ptr<Engine::Loop>> Engine::Loop::Make(LoadedModel& model,
                                                         const EngineConfig& config) {
  if (Result<> valid = Validate(config, model.context_tokens); !valid) return Forward(valid);
  Result<BlockLayout> layout = KvLayoutOf(model.model->spec(), model.options.kv_type);
  if (!layout) return Forward(layout);
  const int64_t num_blocks = NumBlocksFor(config.kv_tokens);
  if (num_blocks > BlockPool::kMaxBlocks) {
    return Fail(ErrorCode::kInvalid,
                fmt::format("a KV cache for {} is beyond the limit of {}; give a smaller "
                            "--kv-tokens, or a smaller --ctx, which it follows without it",
                            CountOf(config.kv_tokens, "token"),
                            CountText(int64_t{BlockPool::kMaxBlocks} * kBlockTokens)));
  }
  Result<BlockPool> pool = BlockPool::Make(*layout, static_cast<int32_t>(num_blocks));
  if (!pool) return Forward(pool);
  std::unique_ptr<Loop> loop(new Loop(model, config, *std::move(pool)));
  const KernelContext context{.table = KernelsFor(model.options.isa), .pool = *model.pool};
  Result<StepForward> forward =
      StepForward::Make(*model.model, loop->pool_, context,
                        StepOptionsOf(config, {.context_tokens = model.context_tokens,
                                               .precision = model.options.precision,
                                               .prefill_policy = model.options.prefill_policy}));
  if (!forward) return Forward(forward);
  loop->forward_ = std::make_unique<StepForward>(*std::move(forward));
  loop->forward_->SetRecorder(model.options.recorder);
  if (config.kv_disk_folder.empty()) return loop;
  Result<std::unique_ptr<DiskCache>> disk =
      DiskCache::Make({.folder = config.kv_disk_folder,
                       .limit_bytes = config.kv_disk_bytes,
                       .kind = {.key = model.kv_key, .layout = *layout},
                       .now_ns = WallClockNs},
                      [inbox = &loop->inbox_] { inbox->Wake(); });
  if (!disk) return Forward(disk);
  loop->disk_ = *std::move(disk);
  return loop;
}

Result<> Engine::Loop::CheckIds(const std::vector<TokenId>& tokens) const {
  const int64_t vocab_size = model_->model->spec().vocab_size;
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i] >= 0 && tokens[i] < vocab_size) continue;
    return Fail(ErrorCode::kInvalid,
                fmt::format("token {} of the prompt is {}; the vocabulary has the ids 0..{}", i,
                            tokens[i], vocab_size - 1));
  }
  return {};
}

Result<StopRules> Engine::Loop::RulesFor(const GenerationRequest& request) const {
  const int64_t vocab_size = model_->model->spec().vocab_size;
  const std::span<const TokenId> ends = model_->tokenizer->EndTokens();
  StopRules rules{.end_tokens = {ends.begin(), ends.end()},
                  .ignore_end_tokens = request.ignore_end_tokens,
                  .max_tokens = request.max_tokens,
                  .max_context = model_->context_tokens};
  if (Result<> valid = Validate(request.sampling, vocab_size); !valid) return Forward(valid);
  if (Result<> valid = Validate(rules, vocab_size); !valid) return Forward(valid);
  if (request.prompt.empty()) return Fail(ErrorCode::kInvalid, "the prompt is empty");
  if (request.prompt_logprobs && !request.sampling.num_top_logprobs) {
    return Fail(ErrorCode::kInvalid,
                "log-probabilities of the prompt (prompt_logprobs) need sampling.num_top_logprobs");
  }
  if (Result<> valid = CheckIds(request.prompt); !valid) return Forward(valid);
  if (Result<> fits = CheckPromptFits(rules, std::ssize(request.prompt)); !fits) {
    return Forward(fits);
  }
  if (request.deadline_seconds && !(*request.deadline_seconds >= 0)) {
    return Fail(ErrorCode::kInvalid, fmt::format("the deadline must be at least 0 seconds, got {}",
                                                 *request.deadline_seconds));
  }
  return rules;
}

Result<uint64_t> Engine::Loop::Submit(GenerationRequest request,
                                      std::shared_ptr<RequestObserver> observer) {
  Result<StopRules> rules = RulesFor(request);
  if (!rules) return Forward(rules);
  Result<AnswerText> text = AnswerText::Make({.tokenizer = *model_->tokenizer,
                                              .stop_strings = request.stop_strings,
                                              .shown_tokens = request.shown_tokens});
  if (!text) return Forward(text);
  Result<std::optional<SparsePolicy>> policy =
      PolicyFor(request.prefill, std::ssize(request.prompt));
  if (!policy) return Forward(policy);
  const bool states_prefill = StatesPrefill(request.prefill, *model_);
  const uint64_t id = next_id_.fetch_add(1, std::memory_order_relaxed);
  Result<> put =
      inbox_.Put(std::make_unique<LiveRequest>(LiveRequest::Parts{.id = id,
                                                                  .request = std::move(request),
                                                                  .rules = *std::move(rules),
                                                                  .text = *std::move(text),
                                                                  .policy = *std::move(policy),
                                                                  .states_prefill = states_prefill,
                                                                  .observer = std::move(observer),
                                                                  .submitted_ns = clock_.NowNs()}));
  if (!put) return Forward(put);
  return id;
}

Result<std::optional<SparsePolicy>> Engine::Loop::PolicyFor(const PrefillWish& wish,
                                                            int64_t num_tokens) const {
  Result<std::optional<SparsePolicy>> policy = PolicyOfPrompt(wish, num_tokens, *model_);
  if (!policy || !*policy) return policy;
  // What the model was opened with has its room already.
  const std::optional<SparsePolicy>& opened_with = model_->options.prefill_policy;
  const uint64_t limit = std::max<uint64_t>(config_.max_policy_bytes,
                                            opened_with ? forward_->PolicyBytes(*opened_with) : 0);
  const uint64_t needed = forward_->PolicyBytes(**policy);
  if (needed <= limit) return policy;
  return Fail(ErrorCode::kInvalid,
              fmt::format("the sparse policy's tiles and estimates need {} of workspace at this "
                          "context; the limit is {}; a smaller tile needs less",
                          BytesText(needed), BytesText(limit)));
}

void Engine::Loop::Receive() {
  inbox_.Take(mail_);
  for (std::unique_ptr<LiveRequest>& request : mail_.requests) Admit(std::move(request));
  for (const uint64_t id : mail_.cancelled) End(id, StopReason::kCancelled);
  ReceiveFromDisk();
  // The ids lie in the scheduler's memory, which End changes.
  const std::span<const uint64_t> expired = scheduler_.Expired(Seconds(clock_.NowNs()));
  for (const uint64_t id : std::vector<uint64_t>(expired.begin(), expired.end())) {
    End(id, StopReason::kDeadline);
  }
}

void Engine::Loop::Admit(std::unique_ptr<LiveRequest> request) {
  const uint64_t id = request->id();
  LiveRequest& live = *live_.emplace(id, std::move(request)).first->second;
  const std::optional<StopReason> stop = live.StopBeforeNext();
  if (stop && !live.request().prompt_logprobs) return End(id, *stop);
  live.SetAwaitsDisk(AwaitDisk(live));
  if (!live.awaits_disk()) Queue(live);
}

void Engine::Loop::Queue(LiveRequest& live) {
  const uint64_t id = live.id();
  const ModelSpec& spec = model_->model->spec();
  if (live.policy()) {
    if (Result<> admitted = forward_->Admit(*live.policy()); !admitted) {
      return EndWith(id, admitted.error());
    }
    live.ReportPrefill(spec.num_layers());
  }
  const GenerationRequest& wanted = live.request();
  const double now = Seconds(live.submitted_ns());
  Result<> queued = scheduler_.Submit(
      {.id = id,
       .prompt = live.TakePrompt(),
       .max_known = live.max_known(),
       .priority = wanted.priority,
       .arrival = now,
       .deadline = wanted.deadline_seconds ? now + *wanted.deadline_seconds
                                           : std::numeric_limits<double>::infinity(),
       .salt = SaltOf(live),
       .prompt_logits = wanted.prompt_logprobs,
       .session = wanted.session,
       .reuse = ReuseOfPrompt(live.policy(), live.num_prompt(), spec)});
  if (!queued) EndWith(id, queued.error());
}

void Engine::Loop::End(uint64_t id, StopReason reason) {
  const auto found = live_.find(id);
  if (found == live_.end()) return;
  const std::unique_ptr<LiveRequest> live = std::move(found->second);
  live_.erase(found);
  LiveRequest::End end;
  if (const Sequence* sequence = scheduler_.Find(id)) {
    end = {.kv_bytes =
               static_cast<int64_t>(sequence->table.blocks().size() * pool_.layout().block_bytes()),
           .preemptions = sequence->preemptions};
  }
  scheduler_.End(id);
  ++counters_.finished_requests;
  live->Finish(reason, end);
}

void Engine::Loop::EndWith(uint64_t id, const Error& error) {
  const auto found = live_.find(id);
  if (found == live_.end()) return;
  const std::unique_ptr<LiveRequest> live = std::move(found->second);
  live_.erase(found);
  scheduler_.End(id);
  live->EndWith(error);
}

void Engine::Loop::EndAll() {
  const std::lock_guard lock(books_);
  Receive();
  while (!live_.empty()) End(live_.begin()->first, StopReason::kCancelled);
  NoteWaiting();
}

void Engine::Loop::BeginStep() {
  choices_.clear();
  step_ids_.clear();
  reports_.clear();
  policies_.clear();
  sampling_seconds_ = 0;
  const int64_t now = clock_.NowNs();
  for (const Sequence* sequence : scheduler_.planned()) {
    LiveRequest& live = *live_.at(sequence->spec.id);
    live.NoteRead(sequence->ledger.computed);
    if (!live.has_started()) {
      live.NoteStart(now, sequence->hit_tokens, sequence->ledger.known.front());
    }
    choices_.push_back({.request = &live, .token = std::nullopt, .failure = std::nullopt});
    reports_.push_back(live.prefill_report());
    policies_.push_back(live.policy() ? &*live.policy() : nullptr);
    step_ids_.push_back(live.id());
  }
  inbox_.BeginStep(step_ids_);
}

// A row before the prompt's last one says how probable the prompt's next token was.
void Engine::Loop::Sample(const StepPlan& plan, std::span<const RowLogits> rows) {
  const int64_t begin = clock_.NowNs();
  samples_.clear();
  scores_.assign(rows.size(), std::nullopt);
  const auto position_after = [&](const RowLogits& row) {
    return plan.sequences[static_cast<size_t>(row.sequence)].first_position + row.row + 1;
  };
  for (size_t i = 0; i < rows.size(); ++i) {
    const auto index = static_cast<size_t>(rows[i].sequence);
    const Request& ledger = scheduler_.planned()[index]->ledger;
    samples_.push_back({.logits = rows[i].logits,
                        .params = &choices_[index].request->request().sampling,
                        .history = {.tokens = ledger.known, .num_prompt = ledger.num_prompt},
                        .token = &choices_[index].token});
    const int64_t next = position_after(rows[i]);
    if (next >= ledger.num_prompt) continue;
    samples_.back().known = ledger.known[static_cast<size_t>(next)];
    samples_.back().token = &scores_[i];
  }
  sampler_.Run(samples_);
  for (size_t i = 0; i < rows.size(); ++i) {
    if (!scores_[i]) continue;
    Choice& choice = choices_[static_cast<size_t>(rows[i].sequence)];
    if (*scores_[i]) {
      choice.request->TakeScore(position_after(rows[i]), **std::move(scores_[i]));
    } else {
      choice.failure = scores_[i]->error();
    }
  }
  sampling_seconds_ += Seconds(clock_.NowNs() - begin);
}

// A layer of a chunk counts as its share of the chunk's tokens.
void Engine::Loop::OnLayerDone(int layers_done, int num_layers) {
  const std::span<Sequence* const> planned = scheduler_.planned();
  for (size_t i = 0; i < planned.size(); ++i) {
    if (step_chunks_[i] == 0) continue;
    choices_[i].request->TellPrefill(planned[i]->ledger.computed +
                                     step_chunks_[i] * layers_done / num_layers);
  }
}

Result<bool> Engine::Loop::Step(const std::atomic<bool>& cancel) {
  const int64_t begin = clock_.NowNs();
  std::unique_lock lock(books_);
  Receive();
  const StepPlan& plan = scheduler_.Plan();
  if (plan.sequences.empty()) {
    NoteWaiting();
    if (scheduler_.is_idle()) return !live_.empty();
    return Fail(ErrorCode::kInternal, "requests are left, and none of them can be computed");
  }
  step_chunks_.clear();
  TokenRates::Tokens planned;
  for (const SequenceStep& sequence : plan.sequences) {
    const bool is_prefill = sequence.phase == Phase::kPrefill;
    step_chunks_.push_back(is_prefill ? sequence.num_rows() : 0);
    (is_prefill ? planned.prompt : planned.generated) += static_cast<uint64_t>(sequence.num_rows());
  }
  rates_.BeginStep(begin, planned);
  BeginStep();
  lock.unlock();
  const int64_t run_begin = clock_.NowNs();
  const Result<> run = forward_->Run(
      plan, [&](std::span<const RowLogits> rows) { Sample(plan, rows); },
      {.cancel = cancel, .progress = this, .reports = reports_, .policies = policies_});
  const double run_seconds = Seconds(clock_.NowNs() - run_begin);
  lock.lock();
  if (run) {
    const TokenRates::Tokens before = Computed();
    scheduler_.Commit(run_seconds);
    StoreOnDisk();
    Emit();
    rates_.EndStep(clock_.NowNs(), {.prompt = Computed().prompt - before.prompt,
                                    .generated = Computed().generated - before.generated});
  } else {
    scheduler_.Abandon();
    rates_.EndStep(clock_.NowNs(), {});
    if (run.error().code != ErrorCode::kCancelled) return Forward(run);
  }
  ++counters_.steps;
  counters_.requests_in_steps += step_ids_.size();
  counters_.forward_seconds += run_seconds - sampling_seconds_;
  counters_.sampling_seconds += sampling_seconds_;
  counters_.other_seconds += Seconds(clock_.NowNs() - begin) - run_seconds;
  NoteWaiting();
  return !live_.empty();
}

// Gives each sequence its token, tells of it, and ends who has all.
void Engine::Loop::Emit() {
  const int64_t now = clock_.NowNs();
  for (size_t i = 0; i < step_ids_.size(); ++i) {
    Choice& choice = choices_[i];
    const uint64_t id = step_ids_[i];
    if (choice.failure) EndWith(id, *choice.failure);
    if (choice.failure || !choice.token.has_value()) continue;
    if (!choice.token->has_value()) {
      EndWith(id, choice.token->error());
      continue;
    }
    choice.request->TellPrompt();
    if (const std::optional<StopReason> stop = choice.request->StopBeforeNext()) {
      End(id, *stop);  // only the prompt was asked for
      continue;
    }
    const SampledToken& token = **choice.token;
    const std::optional<StopReason> stop = choice.request->Accept(token, *model_->tokenizer, now);
    ++generated_tokens_;
    if (stop.has_value()) {
      End(id, *stop);
    } else {
      scheduler_.Push(id, token.id);
    }
  }
}

Result<> Engine::Loop::Run() {
  bool checked = false;
  while (true) {
    if (inbox_.is_stopping() && !inbox_.drains()) break;
    Result<bool> left = Step(inbox_.give_up());
    if (!left) {
      EndAll();
      return Forward(left);
    }
    if (*left) {
      checked = false;
      // Whoever is left waits for the disk.
      if (scheduler_.is_idle()) inbox_.Wait(kIdleMs);
      continue;
    }
    if (inbox_.is_stopping()) break;
    if (!checked) {
      if (Result<> idle = CheckIdle(); !idle) return idle;
      checked = true;
    }
    inbox_.Wait(kIdleMs);
  }
  EndAll();
  return CheckIdle();
}

Result<> Engine::Loop::CheckIdle() const {
  if (Result<> books = scheduler_.CheckIntegrity(); !books) return books;
  int64_t kept = 0;
  scheduler_.sessions().ForEachTable(
      [&](const BlockTable& table) { kept += std::ssize(table.blocks()); });
  // Kept sequences may share blocks, so they are an upper limit.
  if (pool_.num_owned() <= kept) return {};
  return Fail(ErrorCode::kInternal,
              fmt::format("{} blocks are owned while nothing runs; kept sequences have {}",
                          pool_.num_owned(), kept));
}

void Engine::Loop::NoteWaiting() {
  // Those that wait for the disk are neither running nor in the scheduler's queue.
  const int64_t await_disk =
      std::ssize(live_) - std::ssize(scheduler_.running()) - scheduler_.num_waiting();
  inbox_.NoteWaiting(scheduler_.num_waiting() + await_disk, scheduler_.waiting_tokens());
}

}  // namespace baton
