#include "serve/prepared_call.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "serve/json_body.h"
#include "serve/test_text_model.h"

namespace baton {
namespace {

using Ids = std::vector<TokenId>;
using ::testing::HasSubstr;

const CallLimits kLimits{.vocab_size = kTestVocabSize};

ApiResult<PreparedCall> Chat(const TestWords& words, const std::string& body) {
  auto call = ReadChatCall(*ParseJsonBody(body), kLimits);
  if (!call) return ForwardApi(call);
  return PrepareChat(*std::move(call), words.model, {});
}

ApiResult<PreparedCall> Completion(const TestWords& words, const std::string& body) {
  auto call = ReadCompletionCall(*ParseJsonBody(body), kLimits);
  if (!call) return ForwardApi(call);
  return PrepareCompletion(*std::move(call), words.model);
}

Ids Joined(std::initializer_list<Ids> parts) {
  Ids all;
  for (const Ids& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

TEST(PreparedCallTest, ChatInTheTemplatesWords) {
  const TestWords words;
  const Ids expected = Joined({{kTestBos, kTestStart},
                               ByteIds("user\nhi"),
                               {kTestEnd},
                               ByteIds("\n"),
                               {kTestStart},
                               ByteIds("assistant\n")});
  const auto text = Chat(words, R"({"messages":[{"role":"user","content":"hi"}]})");
  ASSERT_TRUE(text) << text.error().message;
  EXPECT_TRUE(text->is_chat);
  EXPECT_EQ(text->prompts, std::vector<Ids>{expected});
  const auto parts = Chat(
      words,
      R"({"messages":[{"role":"user","content":[{"type":"text","text":"h"},{"type":"text","text":"i"}]}]})");
  ASSERT_TRUE(parts) << parts.error().message;
  EXPECT_EQ(parts->prompts, text->prompts);
  const auto continued = Chat(words, R"({"continue_final_message":true,"messages":[
      {"role":"user","content":"hi"},{"role":"assistant","content":"ho"}]})");
  ASSERT_TRUE(continued) << continued.error().message;
  EXPECT_EQ(continued->prompts[0], Joined({expected, ByteIds("ho")}));
}

TEST(PreparedCallTest, WhatMessagesSpellStaysText) {
  const TestWords words;
  const auto call = Chat(words, R"({"messages":[{"role":"user","content":"<|im_end|>"}]})");
  ASSERT_TRUE(call);
  EXPECT_EQ(call->prompts[0], Joined({{kTestBos, kTestStart},
                                      ByteIds("user\n<|im_end|>"),
                                      {kTestEnd},
                                      ByteIds("\n"),
                                      {kTestStart},
                                      ByteIds("assistant\n")}));
}

TEST(PreparedCallTest, PromptsBecomeIds) {
  const TestWords words;
  auto call = Completion(words, R"({"prompt":["ab","<|im_end|>"],"n":2,"echo":true})");
  ASSERT_TRUE(call) << call.error().message;
  EXPECT_EQ(call->prompts[0], Joined({{kTestBos}, ByteIds("ab")}));
  EXPECT_EQ(call->prompts[1], (Ids{kTestBos, kTestEnd}));
  EXPECT_EQ(call->echoes, (std::vector<std::string>{"ab", "<|im_end|>"}));
  EXPECT_EQ(call->num_choices(), 4);
  EXPECT_EQ(call->PromptOf(3), 1);
  const GenerationRequest request = RequestOf(*call, 3, 5);
  EXPECT_EQ(request.prompt, call->prompts[1]);
  EXPECT_EQ(request.sampling.seed, SeedOfChoice(5, 1));
  EXPECT_EQ(RequestOf(*call, 2, 5).sampling.seed, 5u);
  call = Completion(words, R"({"prompt":[70,71],"echo":true})");
  ASSERT_TRUE(call);
  EXPECT_EQ(call->prompts[0], (Ids{70, 71}));
  EXPECT_EQ(call->echoes[0], "AB");
  // A vocabulary that begins with BOS makes a prompt of nothing, too.
  EXPECT_EQ(Completion(words, R"({"prompt":""})")->prompts[0], Ids{kTestBos});
}

TEST(PreparedCallTest, AnEchoWithLogprobsAsksForThePromptsToo) {
  const TestWords words;
  const auto of = [&](const std::string& fields) {
    return Completion(words, R"({"prompt":"ab")" + fields + "}");
  };
  EXPECT_TRUE(RequestOf(*of(R"(,"echo":true,"logprobs":0)"), 0, 5).prompt_logprobs);
  EXPECT_FALSE(RequestOf(*of(R"(,"echo":true)"), 0, 5).prompt_logprobs);
  EXPECT_FALSE(RequestOf(*of(R"(,"logprobs":2)"), 0, 5).prompt_logprobs);
  EXPECT_FALSE(RequestOf(*of(R"(,"echo":false,"logprobs":2)"), 0, 5).prompt_logprobs);
  // 128 choices of 255 tokens with 101 numbers each are 3,296,640.
  EXPECT_TRUE(Completion(
      words, R"({"echo":true,"logprobs":100,"n":128,"prompt":")" + std::string(254, 'a') + "\"}"));
  const TextModel long_model =
      MakeTextModel("tiny", words.tokenizer, &words.chat_template, 100'000);
  const std::string long_prompt(41'526, 'a');
  const auto one = [&](const std::string& text) {
    auto call = ReadCompletionCall(
        *ParseJsonBody(R"({"echo":true,"logprobs":100,"prompt":")" + text + "\"}"), kLimits);
    return PrepareCompletion(*std::move(call), long_model);
  };
  EXPECT_TRUE(one(long_prompt));  // 41,527 tokens: 4,194,227 numbers
  const auto beyond = one(long_prompt + "a");
  ASSERT_FALSE(beyond);
  EXPECT_EQ(beyond.error().status, 400);
  EXPECT_EQ(beyond.error().param, "logprobs");
  EXPECT_THAT(beyond.error().message, HasSubstr("4194304"));
}

TEST(PreparedCallTest, TooLongIsSaidWithBothNumbers) {
  const TestWords words;
  // BOS and 254 bytes leave room for one token of 256.
  EXPECT_TRUE(Completion(words, R"({"prompt":")" + std::string(254, 'a') + "\"}"));
  const auto full = Completion(words, R"({"prompt":")" + std::string(255, 'a') + "\"}");
  ASSERT_FALSE(full);
  EXPECT_EQ(full.error().status, 400);
  EXPECT_EQ(full.error().param, "prompt");
  EXPECT_EQ(full.error().code, "context_length_exceeded");
  EXPECT_THAT(full.error().message, HasSubstr("256 tokens"));
  EXPECT_THAT(full.error().message, HasSubstr("context of 256"));
  const auto chat = Chat(
      words, R"({"messages":[{"role":"user","content":")" + std::string(10'000'000, 'a') + "\"}]}");
  ASSERT_FALSE(chat);
  EXPECT_EQ(chat.error().code, "context_length_exceeded");
  EXPECT_EQ(chat.error().param, "messages");
}

TEST(PreparedCallTest, TheTemplatesOwnWordsReachTheClient) {
  TestWords words;
  words.chat_template = *ChatTemplate::FromSource("{{ raise_exception('roles must alternate') }}");
  const auto refused = Chat(words, R"({"messages":[{"role":"user","content":"hi"}]})");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().status, 400);
  EXPECT_EQ(refused.error().param, "messages");
  EXPECT_THAT(refused.error().message, HasSubstr("roles must alternate"));
  const TextModel silent = MakeTextModel("tiny", words.tokenizer, nullptr, 256);
  const auto none = PrepareChat(ChatCall{}, silent, {});
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, "no_chat_template");
}

}  // namespace
}  // namespace baton
