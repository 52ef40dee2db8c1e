#include "cli/profile_option.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <span>
#include <vector>

#include "base/number_text.h"

namespace baton {
namespace {

// What TraceJson writes, and few others.
bool IsTrace(std::string_view head) {
  return head == "[\n]\n" || (head.starts_with("[\n{\"name\":\"") &&
                              head.find("\"ph\":\"X\",\"pid\":1,\"tid\":1,") < 200);
}

constexpr FileKind kTraceKind = {.name = "a trace", .holds = IsTrace};

constexpr StepKind kKinds[] = {StepKind::kPrefill, StepKind::kDecode};

const char* KindName(StepKind kind) {
  return kind == StepKind::kPrefill ? "prefill" : "decode";
}

double Share(int64_t part, int64_t whole) {
  return whole == 0 ? 0.0 : 100.0 * static_cast<double>(part) / static_cast<double>(whole);
}

double Ms(int64_t ns) {
  return static_cast<double>(ns) * 1e-6;
}

void AddRow(const OpRecorder& recorder, std::string_view name, const int64_t (&ns)[kNumStepKinds],
            std::string& text) {
  fmt::format_to(std::back_inserter(text), "  {:<18}", name);
  for (const StepKind kind : kKinds) {
    if (recorder.steps(kind) == 0) continue;
    const int64_t part = ns[static_cast<size_t>(kind)];
    fmt::format_to(std::back_inserter(text), "{:>12.1f} ms {:>5.1f} %", Ms(part),
                   Share(part, recorder.step_ns(kind)));
  }
  text += '\n';
}

void AddLayers(const OpRecorder& recorder, StepKind kind, std::string& text) {
  const std::vector<int64_t>& layers = recorder.layer_ns(kind);
  if (layers.empty()) return;
  std::vector<int64_t> sorted = layers;
  std::sort(sorted.begin(), sorted.end());
  const auto slowest = std::max_element(layers.begin(), layers.end());
  fmt::format_to(std::back_inserter(text),
                 "  layers, {:<10} least {:.1f} ms, median {:.1f} ms, most {:.1f} ms (layer {})\n",
                 fmt::format("{}:", KindName(kind)), Ms(sorted.front()),
                 Ms(sorted[sorted.size() / 2]), Ms(*slowest), slowest - layers.begin());
}

}  // namespace

std::string ProfileText(const OpRecorder& recorder) {
  if (std::ranges::all_of(kKinds, [&](StepKind kind) { return recorder.steps(kind) == 0; })) {
    return "profile: nothing was computed\n";
  }
  std::string text = "profile, operation by operation\n";
  fmt::format_to(std::back_inserter(text), "  {:<18}", "");
  for (const StepKind kind : kKinds) {
    if (recorder.steps(kind) == 0) continue;
    fmt::format_to(std::back_inserter(text), "{:>23}",
                   fmt::format("{} of {}", KindName(kind), CountOf(recorder.rows(kind), "row")));
  }
  text += '\n';
  int64_t rest[kNumStepKinds];
  int64_t whole[kNumStepKinds];
  for (const StepKind kind : kKinds) {
    rest[static_cast<size_t>(kind)] = whole[static_cast<size_t>(kind)] = recorder.step_ns(kind);
  }
  for (int i = 0; i < kNumStepOps; ++i) {
    const StepOp op = static_cast<StepOp>(i);
    int64_t ns[kNumStepKinds];
    bool any = false;
    for (const StepKind kind : kKinds) {
      const size_t k = static_cast<size_t>(kind);
      ns[k] = recorder.op_ns(kind, op);
      rest[k] -= ns[k];
      any = any || ns[k] > 0;
    }
    if (any) AddRow(recorder, StepOpName(op), ns, text);
  }
  AddRow(recorder, "everything else", rest, text);
  AddRow(recorder, "steps", whole, text);
  for (const StepKind kind : kKinds) AddLayers(recorder, kind, text);
  return text;
}

std::string TraceJson(const OpRecorder& recorder) {
  std::string json = "[";
  const int64_t start = recorder.step_spans().empty() ? 0 : recorder.step_spans().front().begin_ns;
  const auto add = [&](std::string_view name, const char* kind, int64_t begin, int64_t end,
                       const std::string& arguments) {
    fmt::format_to(std::back_inserter(json),
                   "{}\n{{\"name\":\"{}\",\"cat\":\"{}\",\"ph\":\"X\",\"pid\":1,\"tid\":1,"
                   "\"ts\":{:.3f},\"dur\":{:.3f},\"args\":{{{}}}}}",
                   json.size() == 1 ? "" : ",", name, kind,
                   static_cast<double>(begin - start) * 1e-3,
                   static_cast<double>(end - begin) * 1e-3, arguments);
  };
  for (const OpRecorder::StepSpan& step : recorder.step_spans()) {
    add(fmt::format("{} step", KindName(step.kind)), KindName(step.kind), step.begin_ns,
        step.end_ns, fmt::format("\"rows\":{}", step.num_rows));
  }
  for (const OpRecorder::Span& span : recorder.spans()) {
    add(StepOpName(span.op), KindName(span.kind), span.begin_ns, span.end_ns,
        span.layer < 0 ? "" : fmt::format("\"layer\":{}", span.layer));
  }
  json += "\n]\n";
  return json;
}

void ProfileOption::Declare(OptionSet& options) {
  options.Group("Where the time goes");
  options.Flag({.names = "--profile",
                .value = "",
                .help = "Afterwards, print the time of every operation of both phases"},
               &profile_);
  options.OutputFile(
      {.names = "--trace",
       .value = "FILE",
       .help = "Write every operation of every step to FILE, for chrome://tracing or "
               "Perfetto"},
      &trace_path_);
}

Result<OpRecorder*> ProfileOption::Recorder(Clock& clock) {
  if (!profile_ && !trace_path_) return nullptr;
  if (trace_path_) {
    Result<ReplacingFile> file = ReplacingFile::Create(*trace_path_, kTraceKind);
    if (!file) return Forward(file);
    trace_ = *std::move(file);
  }
  recorder_.emplace(clock, OpRecorder::Options{.keep_spans = trace_path_.has_value()});
  return &*recorder_;
}

Result<> ProfileOption::Report(Console& console) {
  if (!recorder_) return {};
  if (profile_) {
    if (Result<> written = console.err.Write(ProfileText(*recorder_)); !written) return written;
  }
  if (!trace_) return {};
  const std::string json = TraceJson(*recorder_);
  Result<> written = trace_->WriteAt(0, std::as_bytes(std::span(json)));
  if (written) written = trace_->Finish(json.size());
  if (!written || recorder_->spans_left_out() == 0) return written;
  return console.err.Write(
      fmt::format("baton: note: {} left out of the trace, which "
                  "keeps the first {}\n",
                  CountOf(recorder_->spans_left_out(), "operation"),
                  CountText(static_cast<int64_t>(OpRecorder::kMaxSpans))));
}

}  // namespace baton
