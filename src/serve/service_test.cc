// The server but for its answers: routes, keys, states, descriptions and the page.
#include "serve/service.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <initializer_list>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>

#include "serve/page_files.h"
#include "serve/test_service.h"

namespace baton {
namespace {

using Json = nlohmann::ordered_json;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

TEST_F(ServiceTest, AModelOfAnyNameIsFound) {
  TextModel model = words_.model;
  model.id = "org/My model \xc3\xa9%2F";
  StartWith({});
  service_->SetModel({.text = model, .backend = backend_});
  // As the clients of the API write it.
  const std::string found = Ask(Head("GET", "/v1/models/org%2FMy%20model%20%C3%a9%252F", ""));
  EXPECT_THAT(found, StartsWith("HTTP/1.1 200 "));
  EXPECT_EQ(BodyOf(found)["id"], model.id);
  for (const char* other : {"org%2fMy", "org/My%20model%20%C3%A9%252F", "%", "%2", "%zz"}) {
    EXPECT_THAT(Ask(Head("GET", std::string("/v1/models/") + other, "")),
                StartsWith("HTTP/1.1 404 "))
        << other;
  }
}

TEST_F(ServiceTest, EveryLimitIsPrinted) {
  const std::string text = ToText(ServiceConfig{.keep_alive_ms = 77});
  for (const char* line : {"keep_alive_ms = 77\n", "max_choices = 128\n", "max_stops = 1024\n",
                           "max_json_depth = 64\n", "max_json_keys = 256\n"}) {
    EXPECT_THAT(text, HasSubstr(line));
  }
}

TEST_F(ServiceTest, WhatIsAlmostAPathOrAModelIsTold) {
  const auto told = [&](const std::string& method, const std::string& path) {
    const std::string reply = Ask(method == "GET" ? Head("GET", path, "") : PostText(path, "{}"));
    EXPECT_THAT(reply, StartsWith("HTTP/1.1 404 "));
    return BodyOf(reply)["error"]["message"].get<std::string>();
  };
  EXPECT_EQ(
      told("POST", "/chat/completions"),
      "there is no '/chat/completions' here; did you mean '/v1/chat/completions'? /openapi.json "
      "lists what there is");
  for (const auto& [path, meant] : std::initializer_list<std::pair<const char*, const char*>>{
           {"/completions", "'/v1/completions'"},
           {"/models", "'/v1/models'"},
           {"/v1/v1/models", "'/v1/models'"},
           {"/v1/chat/completions/", "'/v1/chat/completions'"},
           {"/v1//Chat/completion", "'/v1/chat/completions'"},
           {"/v1/tokenize", "'/tokenize'"},
           {"/models/tiny", "'/v1/models/tiny'"},
           {"/v1/health", "'/health'"}}) {
    EXPECT_THAT(told("GET", path), HasSubstr(std::string("did you mean ") + meant)) << path;
  }
  for (const char* path : {"/v1/embeddings", "/v1", "/v1/models/a/b", "/api/chat", "/xyz"}) {
    EXPECT_EQ(told("GET", path),
              std::string("there is no '") + path + "' here; /openapi.json lists what there is");
  }
  EXPECT_EQ(told("GET", "/v1/models/huge"), "the model 'huge' is not served here; 'tiny' is");
  const std::string other = Ask(PostText(kChat, "{" + kHi + R"(,"model":"gpt-4"})"));
  EXPECT_EQ(BodyOf(other)["error"]["message"], "the model 'gpt-4' is not served here; 'tiny' is");
}

TEST_F(ServiceTest, RoutesMethodsAndModels) {
  EXPECT_THAT(Ask(Head("GET", "/livez", "")), StartsWith("HTTP/1.1 200 "));
  EXPECT_THAT(Ask(Head("HEAD", "/readyz", "")), StartsWith("HTTP/1.1 200 "));
  EXPECT_EQ(BodyOf(Ask(Head("GET", "/v1/models", "")))["data"][0]["id"], "tiny");
  EXPECT_EQ(BodyOf(Ask(Head("GET", "/v1/models/tiny", "")))["max_model_len"], 256);
  EXPECT_THAT(Ask(Head("GET", "/v1/models/huge", "")), StartsWith("HTTP/1.1 404 "));
  for (const char* path :
       {"/page", "/page/", "/v1", "/v1/chat/completions/", "/v1//models", "/V1/models",
        "/v1%2fmodels", "/v1/models/", "/v1/models/../x", "/etc/passwd", "/v1/models/a/b"}) {
    EXPECT_THAT(Ask(Head("GET", path, "")), StartsWith("HTTP/1.1 404 ")) << path;
  }
  const std::string wrong = Ask(Head("GET", kChat, ""));
  EXPECT_THAT(wrong, StartsWith("HTTP/1.1 405 "));
  EXPECT_THAT(wrong, HasSubstr("Allow: POST, OPTIONS\r\n"));
  EXPECT_THAT(Ask(Head("OPTIONS", kChat, "")), HasSubstr("Allow: POST, OPTIONS\r\n"));
  EXPECT_THAT(Ask(Head("OPTIONS", "/livez", "")), HasSubstr("Allow: GET, HEAD, OPTIONS\r\n"));
  EXPECT_THAT(Ask(Head("TRACE", "/livez", "")), StartsWith("HTTP/1.1 405 "));
  EXPECT_THAT(Ask(Head("DELETE", "/v1/models", "")), StartsWith("HTTP/1.1 405 "));
  EXPECT_THAT(Ask(Head("GET", "/livez?x=1", "")), StartsWith("HTTP/1.1 200 "));
  const std::string other = Ask(PostText(kChat, "{" + kHi + R"(,"model":"gpt-4"})"));
  EXPECT_THAT(other, StartsWith("HTTP/1.1 404 "));
  EXPECT_EQ(BodyOf(other)["error"]["code"], "model_not_found");
  const std::string bad = Ask(PostText(kChat, "{" + kHi + R"(,"n":0})"));
  EXPECT_THAT(bad, StartsWith("HTTP/1.1 400 "));
  EXPECT_EQ(BodyOf(bad)["error"]["param"], "n");
  EXPECT_THAT(Ask("GET / HTTP/1.1\r\n\r\n"), HasSubstr("\"error\":{\"message\":"));
}

TEST_F(ServiceTest, TheDescriptionHasEveryRoute) {
  const Json api = BodyOf(Ask(Head("GET", "/openapi.json", "")));
  EXPECT_EQ(api["openapi"], "3.1.0");
  for (const RouteRow& row : Routes()) {
    const std::string path = row.route == Route::kModel ? "/v1/models/{id}" : std::string(row.path);
    ASSERT_TRUE(api["paths"].contains(path)) << path;
    EXPECT_TRUE(api["paths"][path].contains(row.is_post ? "post" : "get")) << path;
  }
  EXPECT_EQ(api["paths"].size(), Routes().size());
}

TEST_F(ServiceTest, TheStatusListsWhatRunsAndWhatWaits) {
  const Json status = BodyOf(Ask(Head("GET", "/status", "")));
  EXPECT_EQ(status["state"], "ok");
  EXPECT_EQ(status["model"], "tiny");
  EXPECT_EQ(status["running"], 1);
  EXPECT_EQ(status["waiting"], 3);
  ASSERT_EQ(status["requests"].size(), 2u);
  EXPECT_EQ(status["requests"][0]["id"], "chatcmpl-1");
  EXPECT_EQ(status["requests"][0]["phase"], "prefill");
  EXPECT_EQ(status["requests"][1]["phase"], "waiting");
  EXPECT_EQ(status["kv"].dump(),
            R"({"type":"f16","block_tokens":0,"blocks":9,"owned":0,"cached":2,"free":7})");
  // What the description promises is there.
  const Json schema =
      BodyOf(Ask(Head("GET", "/openapi.json", "")))["components"]["schemas"]["Status"];
  for (const auto& [name, property] : schema["properties"].items()) {
    ASSERT_TRUE(status.contains(name)) << name;
    if (!property.contains("required")) continue;
    for (const Json& inner : property["required"]) {
      EXPECT_TRUE(status[name].contains(inner.get<std::string>())) << name << " " << inner;
    }
  }
  for (const Json& name : schema["properties"]["requests"]["items"]["required"]) {
    EXPECT_TRUE(status["requests"][1].contains(name.get<std::string>())) << name;
  }
  EXPECT_EQ(status.size(), schema["properties"].size());
}

TEST_F(ServiceTest, TheStatusBeforeThereIsAModel) {
  StartWith({.api_keys = {"k"}});
  EXPECT_THAT(Ask(Head("GET", "/status", "")), StartsWith("HTTP/1.1 401 "));
  EXPECT_EQ(BodyOf(Ask(Head("GET", "/status", "Authorization: Bearer k\r\n"))).dump(),
            R"({"state":"loading","model":"","context_tokens":0})");
}

TEST_F(ServiceTest, ThePageIsForEverybodyAndTakesNothingFromElsewhere) {
  StartWith({.api_keys = {"k"}});
  const std::string page = Ask(Head("GET", "/", ""));
  EXPECT_THAT(page, StartsWith("HTTP/1.1 200 OK\r\n"));
  EXPECT_THAT(page, HasSubstr("Content-Type: text/html; charset=utf-8\r\n"));
  EXPECT_THAT(page, HasSubstr("Content-Security-Policy: default-src 'none';"));
  EXPECT_THAT(page, Not(HasSubstr("unsafe-inline")));
  const size_t at = page.find("ETag: ") + 6;
  const std::string tag = page.substr(at, page.find('\r', at) - at);
  for (const std::string& given : {tag, "W/" + tag, "\"a\", " + tag, std::string("*")}) {
    const std::string same = Ask(Head("GET", "/", "If-None-Match: " + given + "\r\n"));
    EXPECT_THAT(same, StartsWith("HTTP/1.1 304 Not Modified\r\n"));
    EXPECT_THAT(same, HasSubstr("ETag: " + tag));
    EXPECT_THAT(same, Not(HasSubstr("Content-Length")));
  }
  EXPECT_THAT(Ask(Head("GET", "/", "If-None-Match: \"a\"\r\n")), StartsWith("HTTP/1.1 200 "));
  for (const PageFile& file : PageFiles()) {
    const std::string text = Ask(Head("GET", std::string(file.path), ""));
    EXPECT_THAT(text, HasSubstr("Content-Type: " + std::string(file.type) + "\r\n"));
    EXPECT_EQ(text.substr(text.find("\r\n\r\n") + 4), file.bytes) << file.path;
    // The files name each other, and nothing else.
    for (const char* scheme : {"src=\"http", "href=\"http", "url(", "import('http", "from 'http"}) {
      EXPECT_EQ(file.bytes.find(scheme), std::string_view::npos) << file.path << " " << scheme;
    }
  }
  EXPECT_THAT(Ask(Head("HEAD", "/", "")), HasSubstr("Content-Length: "));
  EXPECT_THAT(Ask(PostText("/", "{}")), StartsWith("HTTP/1.1 405 "));
}

TEST_F(ServiceTest, TokensThereAndBack) {
  EXPECT_EQ(
      BodyOf(Ask(PostText("/tokenize", R"({"content":"A<|im_end|>","add_special":true})"))).dump(),
      R"({"tokens":[1,70,4]})");
  EXPECT_EQ(BodyOf(Ask(PostText("/tokenize", R"({"content":"é","with_pieces":true})")))["tokens"][0]
                .dump(),
            R"({"id":200,"piece":[195]})");
  EXPECT_EQ(BodyOf(Ask(PostText("/detokenize", R"({"tokens":[70,200]})"))).dump(),
            "{\"content\":\"A\xEF\xBF\xBD\"}");
  EXPECT_EQ(BodyOf(Ask(PostText("/detokenize", R"({"tokens":[]})"))).dump(), R"({"content":""})");
  EXPECT_EQ(BodyOf(Ask(PostText("/detokenize", R"({"tokens":[261]})")))["error"]["param"],
            "tokens");
  EXPECT_EQ(BodyOf(Ask(PostText("/tokenize", R"({"content":5})")))["error"]["param"], "content");
}

TEST_F(ServiceTest, KeysGuardEveryRouteButTheProbes) {
  StartWith({.api_keys = {"key-1"}});
  SetModel();
  for (const RouteRow& row : Routes()) {
    const std::string method = row.is_post ? "POST" : "GET";
    const std::string answer =
        Ask(Head(method, std::string(row.path), row.is_post ? "Content-Length: 2\r\n" : ""));
    EXPECT_THAT(answer, StartsWith(row.is_open ? "HTTP/1.1 200 " : "HTTP/1.1 401 ")) << row.path;
  }
  for (const char* path : {"/nothing", "/v1%2fmodels", "//v1/models", "/v1/models/", "/V1/models",
                           "/v1/models?key=key-1"}) {
    EXPECT_THAT(Ask(Head("GET", path, "")), StartsWith("HTTP/1.1 401 ")) << path;
  }
  EXPECT_THAT(Ask(Head("HEAD", "/v1/models", "")), StartsWith("HTTP/1.1 401 "));
  EXPECT_THAT(Ask(Head("GET", "/v1/models", "Authorization: Bearer key-1\r\n")),
              StartsWith("HTTP/1.1 200 "));
  // A browser's question before the request comes without the key.
  const std::string preflight = Ask(Head("OPTIONS", kChat, "Origin: https://other.example\r\n"));
  EXPECT_THAT(preflight, StartsWith("HTTP/1.1 204 "));
  EXPECT_THAT(preflight, Not(HasSubstr("Access-Control")));
  EXPECT_THAT(Ask(Head("POST", kChat,
                       "Origin: https://other.example\r\nAuthorization: Bearer key-1\r\n"
                       "Content-Length: 2\r\n")),
              StartsWith("HTTP/1.1 403 "));
  EXPECT_THAT(Log(), Not(HasSubstr("key-1")));
}

TEST_F(ServiceTest, AllowedPagesSeeEveryAnswer) {
  StartWith({.origins = {.origins = {"https://chat.example"}, .hosts = {}}});
  SetModel();
  const std::string origin = "Origin: https://chat.example\r\n";
  const std::string allow = "Access-Control-Allow-Origin: https://chat.example\r\n";
  EXPECT_THAT(Ask(Head("OPTIONS", kChat, origin)), HasSubstr(allow));
  EXPECT_THAT(Ask(Head("GET", "/v1/models", origin)), HasSubstr(allow));
  EXPECT_THAT(Ask(Head("GET", "/nothing", origin)), HasSubstr(allow));
  EXPECT_THAT(Ask(Head("POST", kChat, origin + "Content-Length: 2\r\n") + "{}"), HasSubstr(allow));
  TestHttpClient client(server_->port());
  const std::string body = "{" + kHi + R"(,"stream":true})";
  ASSERT_TRUE(client.Send(
      Head("POST", kChat, origin + "Content-Length: " + std::to_string(body.size()) + "\r\n") +
      body));
  ASSERT_TRUE(Eventually([&] { return backend_.num_requests() == 1; }));
  backend_.Say(1, "x");
  EXPECT_THAT(client.ReadUntil("\r\n\r\n"), HasSubstr(allow));
  EXPECT_THAT(Ask("GET /livez HTTP/1.1\r\nHost: evil.example\r\n\r\n"),
              StartsWith("HTTP/1.1 403 "));
}

TEST_F(ServiceTest, LoadingThenReadyThenDraining) {
  StartWith({});
  EXPECT_THAT(Ask(Head("GET", "/livez", "")), StartsWith("HTTP/1.1 200 "));
  for (const char* path : {"/readyz", "/health", "/v1/models"}) {
    const std::string answer = Ask(Head("GET", path, ""));
    EXPECT_THAT(answer, StartsWith("HTTP/1.1 503 ")) << path;
    EXPECT_THAT(answer, HasSubstr("Retry-After: 1\r\n")) << path;
  }
  EXPECT_THAT(Ask(Head("GET", "/metrics", "")), HasSubstr("baton_kv_blocks{state=\"free\"} 0"));
  const std::string loading = Ask(PostText(kChat, "{" + kHi + "}"));
  EXPECT_THAT(loading, StartsWith("HTTP/1.1 503 "));
  EXPECT_EQ(BodyOf(loading)["error"]["code"], "loading");
  SetModel();
  EXPECT_THAT(Ask(Head("GET", "/readyz", "")), StartsWith("HTTP/1.1 200 "));
  EXPECT_THAT(Ask(Head("GET", "/metrics", "")), HasSubstr("baton_kv_blocks{state=\"free\"} 7"));
  const auto running = Call(kChat, "{" + kHi + "}", 1);
  service_->Drain();
  EXPECT_THAT(Ask(Head("GET", "/livez", "")), StartsWith("HTTP/1.1 200 "));
  EXPECT_THAT(Ask(Head("GET", "/readyz", "")), StartsWith("HTTP/1.1 503 "));
  EXPECT_EQ(BodyOf(Ask(PostText(kChat, "{" + kHi + "}")))["error"]["code"], "draining");
  backend_.Say(1, "last");
  backend_.End(1, StopReason::kEndToken);
  EXPECT_THAT(running->ReadUntil("}}}"), HasSubstr("\"content\":\"last\""));
}

}  // namespace
}  // namespace baton
