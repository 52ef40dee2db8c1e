#include "serve/openapi.h"

#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "serve/call_fields.h"
#include "serve/completion_call.h"
#include "serve/text_routes.h"

namespace baton {
namespace {

using Json = nlohmann::ordered_json;

Json Described(Json schema, const char* description) {
  schema["description"] = description;
  return schema;
}

Json Type(const char* name) {
  return {{"type", name}};
}

// Fields may be null where the API's clients send null for "not given".
Json OrNull(const char* name) {
  return {{"type", Json::array({name, "null"})}};
}

Json Integer(int64_t min, int64_t max) {
  return {{"type", Json::array({"integer", "null"})}, {"minimum", min}, {"maximum", max}};
}

Json Number(double min, double max) {
  return {{"type", Json::array({"number", "null"})}, {"minimum", min}, {"maximum", max}};
}

Json ListOf(Json items) {
  return {{"type", "array"}, {"items", std::move(items)}};
}

Json TokenList() {
  return {{"type", "array"}, {"items", {{"type", "integer"}, {"minimum", 0}}}, {"minItems", 1}};
}

Json Ref(const char* name) {
  return {{"$ref", std::string("#/components/schemas/") + name}};
}

Json AnyOf(Json choices) {
  return {{"anyOf", std::move(choices)}};
}

Json CommonProperties() {
  using P = SamplingParams;
  const Json text = {{"type", "string"}, {"minLength", 1}};
  return {
      {"model", Described(OrNull("string"), "As /v1/models names it; may be left out")},
      {"max_tokens", Integer(0, CallLimits::kMaxTokens)},
      {"max_completion_tokens", Integer(0, CallLimits::kMaxTokens)},
      {"temperature", Described(Number(0, P::kMaxTemperature), "Default 1; 0 is greedy")},
      {"top_p", Number(0, 1)},
      {"top_k", Described(Integer(-1, INT32_MAX), "0 and -1: off")},
      {"min_p", Number(0, 1)},
      {"repetition_penalty", Number(0.001, P::kMaxRepetitionPenalty)},
      {"frequency_penalty", Number(-P::kMaxAdditivePenalty, P::kMaxAdditivePenalty)},
      {"presence_penalty", Number(-P::kMaxAdditivePenalty, P::kMaxAdditivePenalty)},
      {"logit_bias",
       AnyOf(Json::array({Type("null"),
                          {{"type", "object"},
                           {"propertyNames", {{"pattern", "^(0|[1-9][0-9]{0,9})$"}}},
                           {"additionalProperties", Number(-P::kMaxBias, P::kMaxBias)}},
                          ListOf({{"type", "array"}, {"minItems", 2}, {"maxItems", 2}})}))},
      {"seed",
       {{"type", Json::array({"integer", "null"})},
        {"minimum", INT64_MIN},
        {"maximum", UINT64_MAX}}},
      {"stop", AnyOf(Json::array({Type("null"), text, ListOf(text)}))},
      {"n", Integer(1, CallLimits::kMaxChoices)},
      {"stream", OrNull("boolean")},
      {"stream_options", Described({{"type", Json::array({"object", "null"})},
                                    {"properties", {{"include_usage", OrNull("boolean")}}}},
                                   "With stream only")},
      {"return_progress", Described(OrNull("boolean"),
                                    "With stream: events with prompt_progress while the prompt is "
                                    "read")},
      {"ignore_eos", OrNull("boolean")},
      {"prefill",
       Described({{"enum", Json::array({"dense", "sparse", "auto", nullptr})}},
                 "How the prompt is read; default: as the server was started. auto: sparse by the "
                 "model's tuned policy where that is faster")},
      {"sparse",
       Described(OrNull("string"),
                 "With prefill sparse only: what it keeps, as words name=value with blanks "
                 "between, such as 'rule=share:0.15 dense-layers=6,7'")}};
}

Json ChatBody() {
  const Json part = {{"type", "object"},
                     {"required", Json::array({"type", "text"})},
                     {"properties", {{"type", {{"const", "text"}}}, {"text", Type("string")}}}};
  const Json message = {
      {"type", "object"},
      {"required", Json::array({"role", "content"})},
      {"properties",
       {{"role", {{"enum", Json::array({"system", "developer", "user", "assistant", "tool"})}}},
        {"content", AnyOf(Json::array({Type("string"),
                                       {{"type", "array"}, {"items", part}, {"minItems", 1}}}))}}}};
  Json properties = CommonProperties();
  properties["messages"] = {{"type", "array"}, {"items", message}, {"minItems", 1}};
  properties["logprobs"] = OrNull("boolean");
  properties["top_logprobs"] =
      Described(Integer(0, CallLimits::kMaxTopLogprobs), "With logprobs only");
  properties["add_generation_prompt"] = OrNull("boolean");
  properties["continue_final_message"] = OrNull("boolean");
  return {{"type", "object"},
          {"required", Json::array({"messages"})},
          {"properties", std::move(properties)}};
}

Json CompletionBody() {
  Json properties = CommonProperties();
  properties["prompt"] = AnyOf(
      Json::array({Type("string"), TokenList(), ListOf(Type("string")), ListOf(TokenList())}));
  properties["max_tokens"] = Described(Integer(0, CallLimits::kMaxTokens), "Default 16");
  properties["logprobs"] = Integer(0, CallLimits::kMaxTopLogprobs);
  properties["echo"] = Described(
      OrNull("boolean"), "With logprobs the prompt's tokens have theirs, too; the first has null");
  return {{"type", "object"},
          {"required", Json::array({"prompt"})},
          {"properties", std::move(properties)}};
}

Json TokenizeBody() {
  return {{"type", "object"},
          {"required", Json::array({"content"})},
          {"properties",
           {{"content", {{"type", "string"}, {"maxLength", kMaxTokenizeBytes}}},
            {"add_special", OrNull("boolean")},
            {"parse_special", OrNull("boolean")},
            {"with_pieces", OrNull("boolean")}}}};
}

Json DetokenizeBody() {
  return {{"type", "object"},
          {"required", Json::array({"tokens"})},
          {"properties",
           {{"tokens", {{"type", "array"}, {"items", {{"type", "integer"}, {"minimum", 0}}}}}}}};
}

Json AllRequired(Json properties) {
  Json names = Json::array();
  for (const auto& [name, schema] : properties.items()) names.push_back(name);
  return {
      {"type", "object"}, {"required", std::move(names)}, {"properties", std::move(properties)}};
}

Json ErrorSchema() {
  return {{"type", "object"},
          {"required", Json::array({"error"})},
          {"properties",
           {{"error",
             {{"type", "object"},
              {"required", Json::array({"message", "type", "param", "code"})},
              {"properties",
               {{"message", Type("string")},
                {"type", Type("string")},
                {"param", OrNull("string")},
                {"code", OrNull("string")}}}}}}}};
}

Json UsageSchema() {
  return {{"type", "object"},
          {"required", Json::array({"prompt_tokens", "completion_tokens", "total_tokens"})},
          {"properties",
           {{"prompt_tokens", Type("integer")},
            {"completion_tokens", Type("integer")},
            {"total_tokens", Type("integer")},
            {"prompt_tokens_details",
             {{"type", "object"}, {"properties", {{"cached_tokens", Type("integer")}}}}}}}};
}

Json ReplySchema() {
  return {{"type", "object"},
          {"required", Json::array({"id", "object", "created", "model", "choices", "usage"})},
          {"properties",
           {{"id", Type("string")},
            {"object", Type("string")},
            {"created", Type("integer")},
            {"model", Type("string")},
            {"choices", ListOf(Type("object"))},
            {"timings", AllRequired({{"queue_seconds", Type("number")},
                                     {"first_token_seconds", Type("number")},
                                     {"prefill_seconds", Type("number")},
                                     {"decode_seconds", Type("number")}})},
            {"usage", Ref("Usage")},
            {"baton", Ref("Baton")}}}};
}

// Of each prompt how it was read.
Json BatonSchema() {
  const Json prefill = {{"type", "object"},
                        {"required", Json::array({"policy"})},
                        {"properties",
                         {{"policy", Type("string")},
                          {"density", Number(0, 1)},
                          {"layer_densities", ListOf(Number(0, 1))},
                          {"thread_seconds", Type("object")}}}};
  return Described({{"type", "object"}, {"properties", {{"prefill", ListOf(prefill)}}}},
                   "Where other than dense reading was asked for, by the request or at the start");
}

Json StatusSchema() {
  const Json count = Type("integer");
  const Json number = Type("number");
  const Json phase = {{"enum", Json::array({"waiting", "prefill", "decode"})}};
  const Json request = AllRequired(
      {{"id", Described(Type("string"), "As the answer names it; its choices share it")},
       {"number", count},
       {"phase", phase},
       {"age_seconds", number},
       {"prompt_tokens", count},
       {"cached_tokens", count},
       {"computed_tokens", Described(count, "In the cache, of prompt and answer")},
       {"generated_tokens", count},
       {"kv_blocks", count}});
  Json schema = AllRequired({{"state", {{"enum", Json::array({"ok", "loading", "draining"})}}},
                             {"model", Type("string")},
                             {"context_tokens", count}});
  const Json later = {{"max_running", count},
                      {"running", count},
                      {"waiting", count},
                      {"waiting_tokens", count},
                      {"requests", Described(ListOf(request), "Of those that wait the 100 oldest")},
                      {"kv", AllRequired({{"type", Type("string")},
                                          {"block_tokens", count},
                                          {"blocks", count},
                                          {"owned", count},
                                          {"cached", count},
                                          {"free", count}})},
                      {"rates", Described(AllRequired({{"seconds", number},
                                                       {"prefill_tokens_per_second", number},
                                                       {"decode_tokens_per_second", number}}),
                                          "Of the last seconds")},
                      {"totals", AllRequired({{"steps", count},
                                              {"finished_requests", count},
                                              {"prompt_tokens", count},
                                              {"generated_tokens", count},
                                              {"prefix_hit_tokens", count},
                                              {"preemptions", count}})}};
  // Not while the model loads.
  schema["properties"].update(later);
  return schema;
}

Json Content(const char* type, Json schema) {
  return {{type, {{"schema", std::move(schema)}}}};
}

Json Errors(std::initializer_list<const char*> statuses) {
  Json errors = Json::object();
  for (const char* status : statuses) {
    errors[status] = {{"description", "An error"},
                      {"content", Content("application/json", Ref("Error"))}};
  }
  return errors;
}

struct PostText {
  const char* summary;
  const char* body;
  Json reply;
  bool streams;
};

Json Post(PostText text) {
  Json content = Content("application/json", std::move(text.reply));
  if (text.streams) content.update(Content("text/event-stream", Type("string")));
  Json responses = {{"200", {{"description", "Done"}, {"content", std::move(content)}}}};
  responses.update(
      Errors({"400", "401", "403", "404", "408", "411", "413", "429", "431", "500", "503"}));
  return {{"post",
           {{"summary", text.summary},
            {"requestBody",
             {{"required", true}, {"content", Content("application/json", Ref(text.body))}}},
            {"responses", std::move(responses)}}}};
}

Json Get(const char* summary, const char* type, const char* schema_type) {
  Json responses = {
      {"200", {{"description", "Done"}, {"content", Content(type, Type(schema_type))}}}};
  responses.update(Errors({"401", "403", "404", "503"}));
  return {{"get", {{"summary", summary}, {"responses", std::move(responses)}}}};
}

Json StateGet(const char* summary) {
  Json operation = Get(summary, "application/json", "object");
  operation["get"]["responses"]["503"]["content"] = Content("application/json", Type("object"));
  operation["get"]["security"] = Json::array();
  return operation;
}

Json Paths() {
  const Json text = {{"type", "object"}};
  Json model = Get("The served model", "application/json", "object");
  model["parameters"] = Json::array(
      {{{"name", "id"}, {"in", "path"}, {"required", true}, {"schema", Type("string")}}});
  Json status =
      Get("What runs, what waits, and the blocks of the cache", "application/json", "object");
  status["get"]["responses"]["200"]["content"] = Content("application/json", Ref("Status"));
  return {{"/v1/chat/completions",
           Post({"Go on with a conversation", "ChatCompletionRequest", Ref("Completion"), true})},
          {"/v1/completions",
           Post({"Go on from prompts", "CompletionRequest", Ref("Completion"), true})},
          {"/v1/models", Get("The served models", "application/json", "object")},
          {"/v1/models/{id}", std::move(model)},
          {"/tokenize", Post({"Text to token ids", "TokenizeRequest", text, false})},
          {"/detokenize", Post({"Token ids to text", "DetokenizeRequest", text, false})},
          {"/health", StateGet("As /readyz")},
          {"/livez", StateGet("Whether the process lives")},
          {"/readyz", StateGet("Whether requests are taken")},
          {"/metrics", Get("For Prometheus", "text/plain", "string")},
          {"/status", std::move(status)},
          {"/openapi.json", Get("This description", "application/json", "object")}};
}

}  // namespace

std::string OpenApiText() {
  const Json json = {
      {"openapi", "3.1.0"},
      {"info",
       {{"title", "Baton"},
        {"version", BATON_VERSION},
        {"description", "An OpenAI-compatible server. Fields that are not listed are ignored."}}},
      {"security", Json::array({Json{{"bearer", Json::array()}}, Json::object()})},
      {"paths", Paths()},
      {"components",
       {{"securitySchemes", {{"bearer", {{"type", "http"}, {"scheme", "bearer"}}}}},
        {"schemas",
         {{"ChatCompletionRequest", ChatBody()},
          {"CompletionRequest", CompletionBody()},
          {"TokenizeRequest", TokenizeBody()},
          {"DetokenizeRequest", DetokenizeBody()},
          {"Completion", ReplySchema()},
          {"Status", StatusSchema()},
          {"Usage", UsageSchema()},
          {"Baton", BatonSchema()},
          {"Error", ErrorSchema()}}}}}};
  return json.dump();
}

}  // namespace baton
