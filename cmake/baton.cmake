# Flags and the two functions that every folder's CMakeLists.txt uses.

# What everything is compiled with; baton_flags adds what BATON_SANITIZE and BATON_FUZZ ask for.
add_library(baton_plain_flags INTERFACE)
add_library(baton_flags INTERFACE)
target_link_libraries(baton_flags INTERFACE baton_plain_flags)
target_include_directories(baton_plain_flags INTERFACE ${CMAKE_SOURCE_DIR}/src)
# -ffp-contract=off: a fused multiply-add happens where the source says so and nowhere else
# (docs/numerics.md); without it the bits of a result would depend on the compiler.
target_compile_options(baton_plain_flags INTERFACE
  -Wall -Wextra -Wshadow -Wconversion -Wno-sign-conversion -Wnon-virtual-dtor -Werror
  -ffp-contract=off -fno-math-errno)
if(BATON_SANITIZE)
  target_compile_options(baton_flags INTERFACE
    -fsanitize=${BATON_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  target_link_options(baton_flags INTERFACE -fsanitize=${BATON_SANITIZE})
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # GCC 12 takes the checks that it inserts itself for paths on which nothing was set.
    target_compile_options(baton_flags INTERFACE -Wno-maybe-uninitialized)
  endif()
endif()
if(BATON_FUZZ)
  target_compile_options(baton_flags INTERFACE -fsanitize=fuzzer-no-link)
  target_link_options(baton_flags INTERFACE -fsanitize=fuzzer-no-link)
endif()

# baton_folder(NAME [DEPS folder...] [LINK library...])
#   Makes the library baton_NAME of the folder's *.cc (without *_test.cc, *_isa.cc and main.cc), and,
#   when testing, one program NAME_test of its *_test.cc. DEPS are other folders, LINK third-party
#   targets; TEST_DEPS and TEST_LINK what tests need besides.
function(baton_folder NAME)
  cmake_parse_arguments(ARG "" "" "DEPS;LINK;TEST_DEPS;TEST_LINK" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS *.cc)
  set(tests ${sources})
  list(FILTER tests INCLUDE REGEX "_test\\.cc$")
  if(BATON_ONLY_TESTS)
    list(FILTER tests INCLUDE REGEX "/(${BATON_ONLY_TESTS})_test\\.cc$")
  endif()
  list(FILTER sources EXCLUDE REGEX "(_test|_isa|/main)\\.cc$")
  set(deps ${ARG_DEPS})
  list(TRANSFORM deps PREPEND baton_)
  set(test_deps ${ARG_TEST_DEPS})
  list(TRANSFORM test_deps PREPEND baton_)
  if(sources)
    add_library(baton_${NAME} STATIC ${sources})
    target_link_libraries(baton_${NAME} PUBLIC baton_flags ${deps} ${ARG_LINK})
  else()
    add_library(baton_${NAME} INTERFACE)
    target_link_libraries(baton_${NAME} INTERFACE baton_flags ${deps} ${ARG_LINK})
  endif()
  if(BUILD_TESTING AND tests)
    add_executable(${NAME}_test ${tests})
    target_link_libraries(${NAME}_test PRIVATE
      baton_${NAME} ${test_deps} ${ARG_TEST_LINK} GTest::gmock GTest::gtest_main)
    target_compile_definitions(${NAME}_test PRIVATE
      BATON_TEST_DATA="${CMAKE_SOURCE_DIR}/tests/data")
    add_test(NAME ${NAME} COMMAND ${NAME}_test)
  endif()
endfunction()
