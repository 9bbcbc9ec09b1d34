# Manual pages and completions, made by a program that shares the tables with `narrowcast`.
add_executable(narrowcast-docs ${DOCS_SOURCES})
target_compile_options(narrowcast-docs PRIVATE ${WARNINGS})
target_link_libraries(narrowcast-docs PRIVATE narrowcast-cli)

set(DOCS ${CMAKE_BINARY_DIR}/docs)
file(MAKE_DIRECTORY ${DOCS})
file(GLOB MANUAL_PARTS CONFIGURE_DEPENDS docs/man/*.man)
add_custom_command(
  OUTPUT ${DOCS}/narrowcast.1 ${DOCS}/narrowcast.3 ${DOCS}/narrowcast.bash ${DOCS}/_narrowcast
  COMMAND narrowcast-docs ${DOCS} ${CMAKE_SOURCE_DIR}
  DEPENDS narrowcast-docs ${MANUAL_PARTS} include/narrowcast.h examples/convert.c
  VERBATIM)
add_custom_target(docs ALL DEPENDS ${DOCS}/narrowcast.1)
