#include "cli/serve_command.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/random.h>
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <filesystem>
#include <utility>

#include "base/check.h"
#include "base/number_text.h"
#include "cli/chat_template_option.h"
#include "cli/input.h"
#include "cli/local_time.h"
#include "cli/model_argument.h"
#include "cli/model_options.h"
#include "cli/open_model.h"
#include "cli/saved_times.h"
#include "cli/serve_log.h"
#include "cli/serve_stop.h"
#include "engine/engine.h"
#include "engine/model_parts.h"
#include "format/gguf.h"
#include "forward/step_forward.h"
#include "kv/block_layout.h"
#include "kv/disk_tier.h"
#include "serve/api_keys.h"
#include "serve/service.h"
#include "text/unicode.h"

namespace baton {
namespace {

constexpr int64_t kDefaultMaxRunning = 16;
constexpr int64_t kMaxMaxRunning = 1024;
// The cache that a server takes unless told otherwise: some hundred megabytes for small models.
constexpr int64_t kDefaultKvTokens = 32768;
constexpr int64_t kDefaultDiskGb = 10;
constexpr int64_t kDefaultPort = 8080;
constexpr int64_t kDefaultDrainSeconds = 30;
constexpr int64_t kMaxTokens = int64_t{1} << 40;
// For what is being sent when all requests are ended.
constexpr int64_t kCloseGraceMs = 2'000;
constexpr rlim_t kWantedDescriptors = 65'536;

// What the server holds from its start on.
std::string MemoryText(const LoadedModel& model, int64_t kv_tokens) {
  const Result<BlockLayout> layout = KvLayoutOf(model.model->spec(), model.options.kv_type);
  CHECK(layout.has_value());  // or the engine could not be made
  const auto blocks = static_cast<uint64_t>(NumBlocksFor(kv_tokens));
  return fmt::format("{} of weights, {} of {} KV cache for {} (--kv-tokens)",
                     BytesText(model.model->weight_bytes()),
                     BytesText(blocks * layout->block_bytes()), KvTypeName(model.options.kv_type),
                     CountOf(kv_tokens, "token"));
}

// Connections are descriptors, and the usual soft limit is low.
void RaiseDescriptorLimit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = std::max(limit.rlim_cur, std::min(limit.rlim_max, kWantedDescriptors));
  // Where it may not be raised, fewer clients can connect.
  (void)::setrlimit(RLIMIT_NOFILE, &limit);
}

uint64_t RandomNumber() {
  uint64_t number = 0;
  // So few bytes come at once or, on a machine that is starting, a little later.
  while (::getrandom(&number, sizeof(number), 0) != sizeof(number)) {
  }
  return number;
}

// What the server will go by until it ends.
std::string TuningText(const LoadedModel& model) {
  constexpr const char* kUntil = "what is written there meanwhile counts from the next start on";
  if (!model.tuning) return fmt::format("{}; {}", model.tuning.error().message, kUntil);
  const Tuning& tuning = *model.tuning;
  const std::string from =
      tuning.break_even_tokens
          ? fmt::format("beyond {}", CountOf(*tuning.break_even_tokens, "token"))
          : std::string("at no length");
  return fmt::format("{}: read; 'auto' is sparse {}, by '{}'; {}", tuning.path, from,
                     PolicyText(tuning.policy), kUntil);
}

class ServeCommand final : public Command {
 public:
  CommandText Text() const override {
    return {
        .name = "serve",
        .summary = "serve many clients over HTTP, as the OpenAI API",
        .usages = {"MODEL [--port N] [OPTION]..."},
        .description =
            {"Opens the model and answers /v1/chat/completions, /v1/completions, /v1/models, "
             "/tokenize, /detokenize, /health, /livez, /readyz, /metrics, /status and "
             "/openapi.json; docs/serve.md describes them. At / is a page to chat with the model "
             "and to watch the server. When it is ready it prints one line with its "
             "address. Every ended request is one line of JSON on standard error.",
             "It listens on this machine only, unless --host says otherwise; TLS is the task "
             "of a proxy in front. SIGTERM or Ctrl-C lets running requests finish; a second "
             "one stops at once."},
        .ends_by_ctrl_c = true,
        .examples = {"baton serve model.gguf --port 8080",
                     "baton serve model.gguf --host 0.0.0.0 --api-key-file keys.txt"}};
  }

  void Declare(OptionSet& options) override {
    model_.Declare(options);
    options.Group("Server");
    options.Parsed({.names = "--host",
                    .value = "ADDRESS",
                    .help = "IP address to listen on (default: 127.0.0.1)"},
                   [this](const std::string& given) { return TakeHost(given); });
    options.Integer(
        {.names = "--port", .value = "N", .help = "Port; 0 takes any free one (default: 8080)"},
        {.min = 0, .max = 65535}, &port_);
    options.Parsed({.names = "--name",
                    .value = "NAME",
                    .help = "What clients call the model (default: the file's name without .gguf)"},
                   [this](const std::string& given) { return TakeWord(given, name_); });
    options.File({.names = "--api-key-file",
                  .value = "FILE",
                  .help = "Keys, one a line; clients must send one",
                  .dash_is_input = true},
                 &key_file_);
    options.ParsedEach({.names = "--cors-origin",
                        .value = "ORIGIN",
                        .help = "Pages of this origin may use the server (https://host[:port]); "
                                "may be repeated (default: none)"},
                       [this](const std::string& origin) -> Result<> {
                         const Result<> valid =
                             Validate(OriginRules{.origins = {origin}, .hosts = {}});
                         if (!valid) return Fail(ErrorCode::kInvalid, ": " + valid.error().message);
                         origins_.push_back(origin);
                         return {};
                       });
    options.ParsedEach({.names = "--allowed-host",
                        .value = "NAME",
                        .help = "A Host name that requests may carry besides those of this "
                                "machine, without its port; for proxies that pass it on; may be "
                                "repeated"},
                       [this](const std::string& given) -> Result<> {
                         Result<std::string> host = ParseAllowedHost(given);
                         if (!host) return Forward(host);
                         hosts_.push_back(*std::move(host));
                         return {};
                       });
    options.Integer({.names = "--drain-seconds",
                     .value = "N",
                     .help = "Time for running requests after SIGTERM or Ctrl-C (default: 30)"},
                    {.min = 0, .max = 86'400}, &drain_seconds_);
    chat_template_.Declare(options);
    DeclareScheduling(options);
    options.Flag({.names = "--print-config",
                  .value = "",
                  .help = "Print every limit and its value, and exit"},
                 &print_config_);
    compute_.Declare(options);
  }

  Result<> Check() override {
    if (kv_disk_gb_ && !kv_disk_) {
      return Fail(ErrorCode::kInvalid, "--kv-disk-gb goes with --kv-disk only");
    }
    if (kv_disk_ && no_prefix_cache_) {
      return Fail(ErrorCode::kInvalid,
                  "--kv-disk needs the prefix cache: leave --no-prefix-cache out");
    }
    if (Result<> sound = compute_.CheckForRequests(); !sound) return sound;
    return model_.Check();
  }

  Result<> Run(Console& console) override {
    Result<LoadOptions> load = compute_.ToLoadOptions(model_.path(), console.clock);
    if (!load) return Forward(load);
    if (Result<> chosen = chat_template_.Apply(console.in, *load); !chosen) return chosen;
    load->max_running = static_cast<int32_t>(max_running_.value_or(kDefaultMaxRunning));
    load->max_gap_steps = max_gap_steps_.value_or(load->max_gap_steps);
    const Result<int64_t> context = ContextOf(*load);
    if (!context) return Forward(context);
    load->kv_tokens = kv_tokens_.value_or(
        std::clamp(kDefaultKvTokens, *context, *context * int64_t{load->max_running}));
    Result<ServiceConfig> config = ReadServiceConfig(console);
    if (!config) return Forward(config);
    if (print_config_) return PrintConfig(*load, *context, console.out);
    RaiseDescriptorLimit();
    return compute_.Finish(Serve(*load, *std::move(config), console), console);
  }

 private:
  // What the start would refuse is refused here, too, as far as it does not take the weights' bytes
  // or the port, which a running server may have. Makes nothing.
  Result<> PrintConfig(const LoadOptions& load, int64_t context, Output& out) const {
    const Result<GgufFile> file = GgufFile::Open(load.path);
    if (!file) return Forward(file);
    const ModelParts parts = ReadModelParts(*file, load);
    if (!parts.lacks.empty()) return Refusal(parts.lacks);
    const EngineConfig config = ConfigOf(load, context);
    if (Result<> valid = Validate(config, context); !valid) return valid;
    if (kv_disk_) {
      if (Result<> usable = CheckDiskFolder(*kv_disk_); !usable) return usable;
    }
    return out.Write(
        ToText(config) + ToText(HttpLimits{}) + ToText(ServiceConfig{}) +
        fmt::format("drain_seconds = {}\n", drain_seconds_.value_or(kDefaultDrainSeconds)));
  }

  Result<> TakeHost(const std::string& given) {
    std::array<unsigned char, sizeof(in6_addr)> address{};
    if (given != "localhost" && ::inet_pton(AF_INET, given.c_str(), address.data()) != 1 &&
        ::inet_pton(AF_INET6, given.c_str(), address.data()) != 1) {
      return Fail(ErrorCode::kInvalid,
                  fmt::format("takes an IP address or localhost, not '{}'", given));
    }
    host_ = given;
    return {};
  }

  static Result<> TakeWord(const std::string& given, std::optional<std::string>& place) {
    constexpr size_t kMaxBytes = 200;
    const bool is_word =
        !given.empty() && given.size() <= kMaxBytes &&
        std::all_of(given.begin(), given.end(), [](char c) { return c > ' ' && c < 0x7f; });
    if (!is_word) {
      return Fail(ErrorCode::kInvalid,
                  fmt::format("takes a word of visible ASCII characters, not '{}'", given));
    }
    place = given;
    return {};
  }

  void DeclareScheduling(OptionSet& options) {
    options.Group("Scheduling");
    options.Integer({.names = "--max-running",
                     .value = "N",
                     .help = "Requests computed at the same time (default: 16)"},
                    {.min = 1, .max = kMaxMaxRunning}, &max_running_);
    DeclareMaxGapSteps(options, &max_gap_steps_);
    options.Integer(
        {.names = "--kv-tokens",
         .value = "N",
         .help = "Tokens that the KV cache has room for, all requests and kept "
                 "prefixes together (default: 32768, but at least one context and at most "
                 "--max-running of them)"},
        {.min = 1, .max = kMaxTokens}, &kv_tokens_);
    options.Integer({.names = "--max-queue",
                     .value = "N",
                     .help = "Requests that may wait; more are refused with 429 (default: 1024)"},
                    {.min = 1, .max = 1'000'000}, &max_queue_);
    options.Integer({.names = "--max-queue-tokens",
                     .value = "N",
                     .help = "Prompt tokens that may wait (default: 4194304)"},
                    {.min = 1, .max = kMaxTokens}, &max_queue_tokens_);
    options.Flag({.names = "--no-prefix-cache",
                  .value = "",
                  .help = "Do not keep what was read for requests that begin alike"},
                 &no_prefix_cache_);
    options.Folder({.names = "--kv-disk",
                    .value = "DIR",
                    .help = "Keep what was read in this folder, too, beyond the memory and the "
                            "run; several servers may share it"},
                   &kv_disk_);
    options.Integer({.names = "--kv-disk-gb",
                     .value = "N",
                     .help = "Gigabytes that the folder may take (default: 10)"},
                    {.min = 1, .max = 1'000'000}, &kv_disk_gb_);
    options.Flag({.names = "--no-saved-times",
                  .value = "",
                  .help = "Measure what steps take at the start, instead of going on from what the "
                          "last run learnt, and keep nothing for the next"},
                 &no_saved_times_);
  }

  EngineConfig ConfigOf(const LoadOptions& load, int64_t context) const {
    EngineConfig config = EngineConfigOf(load, context);
    config.max_queue_requests = max_queue_.value_or(config.max_queue_requests);
    config.max_queue_tokens = max_queue_tokens_.value_or(config.max_queue_tokens);
    config.prefix_cache = !no_prefix_cache_;
    if (kv_disk_) {
      config.kv_disk_folder = *kv_disk_;
      config.kv_disk_bytes =
          static_cast<uint64_t>(kv_disk_gb_.value_or(kDefaultDiskGb)) * 1'000'000'000;
    }
    return config;
  }

  Result<ServiceConfig> ReadServiceConfig(Console& console) const {
    ServiceConfig config{.origins = {.origins = origins_,
                                     .hosts = hosts_,
                                     .is_loopback = IsLoopbackHost(host_.value_or("127.0.0.1"))}};
    if (!key_file_) return config;
    const Result<std::string> text = ReadTextOrInput(*key_file_, console.in);
    if (!text) return Forward(text);
    Result<std::vector<std::string>> keys = ParseApiKeys(*text);
    if (!keys) return Fail(keys.error().code, *key_file_ + ": " + keys.error().message);
    config.api_keys = *std::move(keys);
    return config;
  }

  std::string ModelName() const {
    return name_.value_or(ReplaceInvalidUtf8(std::filesystem::path(model_.path()).stem().string()));
  }

  Result<> Serve(const LoadOptions& load, ServiceConfig config, Console& console) const {
    const TerminationScope scope(console.interrupt);
    ServeLog log(console.err, console.clock);
    Service service(std::move(config),
                    {.clock = console.clock,
                     .unix_seconds = [] { return static_cast<int64_t>(std::time(nullptr)); },
                     .local_time = LocalTimeNow,
                     .random = RandomNumber,
                     .write_log = [&log](const std::string& lines) { log.Write(lines); }});
    auto server = HttpServer::Listen({.host = host_.value_or("127.0.0.1"),
                                      .port = static_cast<uint16_t>(port_.value_or(kDefaultPort))},
                                     service);
    if (!server) return Forward(server);
    if (!key_file_ && !IsLoopbackHost(host_.value_or("127.0.0.1"))) {
      service.LogEvent("no_keys", "anyone who reaches " + (*server)->address() +
                                      " can use the server; --api-key-file makes it ask for a key");
    }
    service.SetServer(**server);
    (*server)->Start();
    auto stop = std::make_unique<ServeStop>(console, drain_seconds_.value_or(kDefaultDrainSeconds));
    Result<LoadedModel> model = OpenModel(load, console);
    if (!model) return Forward(model);
    const EngineConfig limits = ConfigOf(load, model->context_tokens);
    auto engine = Engine::Make(*model, limits);
    if (!engine) return Forward(engine);
    (*engine)->TakeCacheMemory();
    const SavedTimes times(no_saved_times_ ? std::string() : console.cache_folder, *model);
    const auto log_times = [&service](const std::string& message) {
      service.LogEvent("step_times", message);
    };
    if (Result<> ready = times.Prepare(**engine, log_times); !ready) return ready;
    service.LogEvent("memory", MemoryText(*model, limits.kv_tokens));
    service.LogEvent("tune_file", TuningText(*model));
    (*engine)->OnDiskProblem(
        [&service](const std::string& message) { service.LogEvent("kv_disk", message); });
    EngineBackend backend(**engine);
    stop->SetActions({.drain =
                          [&] {
                            service.Drain();
                            (*engine)->Stop(/*drain=*/true);
                          },
                      .stop = [&] { (*engine)->Stop(/*drain=*/false); }});
    service.SetModel({.text = MakeTextModel(ModelName(), *model->tokenizer,
                                            model->chat_template.get(), model->context_tokens),
                      .backend = backend,
                      .queue = {.max_requests = limits.max_queue_requests,
                                .max_tokens = limits.max_queue_tokens}});
    Result<> done = console.out.Write(
        fmt::format("Serving {} at http://{}\n", ModelName(), (*server)->address()));
    if (done) done = (*engine)->Run();
    times.Keep(**engine, log_times);
    // Its actions speak to the engine.
    stop.reset();
    service.Drain();
    (*server)->Close(kCloseGraceMs);
    log.EndSoon();
    return done;
  }

  ModelArgument model_;
  ComputeOptions compute_;
  ChatTemplateOption chat_template_;
  std::optional<std::string> host_;
  std::optional<int64_t> port_;
  std::optional<std::string> name_;
  std::optional<std::string> key_file_;
  std::vector<std::string> origins_;
  std::vector<std::string> hosts_;
  std::optional<int64_t> drain_seconds_;
  std::optional<int64_t> max_running_;
  std::optional<double> max_gap_steps_;
  std::optional<int64_t> kv_tokens_;
  std::optional<int64_t> max_queue_;
  std::optional<int64_t> max_queue_tokens_;
  bool no_prefix_cache_ = false;
  std::optional<std::string> kv_disk_;
  std::optional<int64_t> kv_disk_gb_;
  bool no_saved_times_ = false;
  bool print_config_ = false;
};

}  // namespace

std::unique_ptr<Command> MakeServeCommand() {
  return std::make_unique<ServeCommand>();
}

}  // namespace baton
