# What `cmake --install` puts where, and the Debian packages that cpack makes of it.
#
# The libraries are made of the program's own objects. In the static one, all names but the public
# ones are made local, so that none can collide with a caller's.

# Debian keeps libraries in a folder for each architecture, below /usr/local too; so a package is
# right whatever prefix the build had.
if(CMAKE_LIBRARY_ARCHITECTURE AND EXISTS /etc/debian_version)
  set(CMAKE_INSTALL_LIBDIR lib/${CMAKE_LIBRARY_ARCHITECTURE}
      CACHE PATH "libraries, below the prefix")
endif()
include(GNUInstallDirs)

# ---- Libraries ----

add_library(narrowcast-shared SHARED $<TARGET_OBJECTS:narrowcast-lib> $<TARGET_OBJECTS:onnx_proto>)
target_link_libraries(narrowcast-shared PRIVATE PkgConfig::DEPS m ${CMAKE_DL_LIBS})
set_target_properties(narrowcast-shared PROPERTIES LINKER_LANGUAGE C OUTPUT_NAME narrowcast
                      VERSION ${PROJECT_VERSION} SOVERSION ${ABI_VERSION})

set(STATIC_LIBRARY ${CMAKE_BINARY_DIR}/libnarrowcast.a)
set(JOINED ${CMAKE_BINARY_DIR}/narrowcast.o)
add_custom_command(
  OUTPUT ${STATIC_LIBRARY}
  COMMAND ${CMAKE_LINKER} -r -o ${JOINED} --whole-archive $<TARGET_FILE:narrowcast-lib>
  COMMAND ${CMAKE_OBJCOPY} --localize-hidden ${JOINED}
  COMMAND ${CMAKE_COMMAND} -E rm -f ${STATIC_LIBRARY}
  COMMAND ${CMAKE_AR} rcs ${STATIC_LIBRARY} ${JOINED}
  DEPENDS narrowcast-lib
  VERBATIM)
add_custom_target(narrowcast-static ALL DEPENDS ${STATIC_LIBRARY})

file(RELATIVE_PATH PREFIX_FROM_PC /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
string(REGEX REPLACE "/$" "" PREFIX_FROM_PC "${PREFIX_FROM_PC}")
list(JOIN DEPS_LDFLAGS " " DEPENDENCIES)
configure_file(packaging/narrowcast.pc.in ${CMAKE_BINARY_DIR}/narrowcast.pc @ONLY)

install(TARGETS narrowcast-shared LIBRARY COMPONENT library NAMELINK_COMPONENT development)
install(FILES ${STATIC_LIBRARY} DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT development)
install(FILES include/narrowcast.h TYPE INCLUDE COMPONENT development)
install(FILES ${CMAKE_BINARY_DIR}/narrowcast.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig
        COMPONENT development)
install(FILES ${DOCS}/narrowcast.3 DESTINATION ${CMAKE_INSTALL_MANDIR}/man3 COMPONENT development)
install(FILES examples/convert.c COMPONENT development
        DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/libnarrowcast-dev/examples)

# ---- Program ----

install(TARGETS narrowcast RUNTIME COMPONENT program)
install(DIRECTORY ${DOCS}/ DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT program
        FILES_MATCHING PATTERN "*.1")
install(FILES ${DOCS}/narrowcast.bash RENAME narrowcast COMPONENT program
        DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
# Debian's zsh has a folder of its own for what packages bring.
install(CODE "
  set(folder site-functions)
  if(CMAKE_INSTALL_PREFIX STREQUAL /usr AND EXISTS /etc/debian_version)
    set(folder vendor-completions)
  endif()
  file(INSTALL ${DOCS}/_narrowcast
       DESTINATION \${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_DATADIR}/zsh/\${folder})"
  COMPONENT program)
# Policies and targets are inside the program; these are to read and to copy.
install(DIRECTORY rules/ DESTINATION ${CMAKE_INSTALL_DATADIR}/narrowcast COMPONENT program
        FILES_MATCHING PATTERN "*.json")
install(FILES README.md TYPE DOC COMPONENT program)
# Where README.md links to them.
install(DIRECTORY docs rules DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT program
        FILES_MATCHING PATTERN "*.md" PATTERN man EXCLUDE)

# ---- Debian packages: narrowcast, libnarrowcast0, libnarrowcast-dev ----

set(LIBRARY_PACKAGE libnarrowcast${ABI_VERSION})
foreach(pair "program:narrowcast" "library:${LIBRARY_PACKAGE}" "development:libnarrowcast-dev")
  string(REGEX REPLACE ":.*" "" component ${pair})
  string(REGEX REPLACE ".*:" "" package ${pair})
  install(FILES packaging/copyright DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/${package}
          COMPONENT ${component})
  string(TOUPPER ${component} COMPONENT)
  set(CPACK_DEBIAN_${COMPONENT}_PACKAGE_NAME ${package})
  set(CPACK_DEBIAN_${COMPONENT}_FILE_NAME DEB-DEFAULT)
endforeach()
set(CPACK_GENERATOR DEB)
set(CPACK_COMPONENTS_ALL program library development)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "ONNX models in fp16, bf16, fp8 or fp4, converted and verified")
set(CPACK_STRIP_FILES ON)
set(MAINTAINER "narrowcast <narrowcast@narrowcast.invalid>" CACHE STRING
    "of the Debian packages: NAME <ADDRESS>")
set(CPACK_DEBIAN_PACKAGE_MAINTAINER "${MAINTAINER}")
set(CPACK_DEBIAN_PACKAGE_RELEASE 1)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_PRE_BUILD_SCRIPTS ${CMAKE_SOURCE_DIR}/packaging/before-packing.cmake)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS_POLICY "=")
set(CPACK_DEBIAN_PROGRAM_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PROGRAM_DESCRIPTION
"It measures every tensor in ONNX Runtime on samples, decides a format for
each by the rules of a policy, rewrites the graph, and verifies the result
on samples that it has not seen. Commands that run a model need ONNX
Runtime, from a package or from Python; all others do without.")
set(CPACK_DEBIAN_PROGRAM_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_RECOMMENDS libonnxruntime1.21)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_SUGGESTS python3-onnxruntime)
set(CPACK_DEBIAN_LIBRARY_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_LIBRARY_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_LIBRARY_PACKAGE_RECOMMENDS libonnxruntime1.21)
file(WRITE ${CMAKE_BINARY_DIR}/triggers "activate-noawait ldconfig\n")
set(CPACK_DEBIAN_LIBRARY_PACKAGE_CONTROL_EXTRA ${CMAKE_BINARY_DIR}/triggers)
set(CPACK_DEBIAN_LIBRARY_DESCRIPTION "What the program narrowcast does, as a shared library.")
set(DEVELOPMENT_PACKAGES "libprotobuf-c-dev, libssl-dev, libzip-dev")
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS
    "${LIBRARY_PACKAGE} (= ${PROJECT_VERSION}-1), ${DEVELOPMENT_PACKAGES}")
set(CPACK_DEBIAN_DEVELOPMENT_DESCRIPTION
    "What builds programs that convert models by themselves: header, static library, example.")
include(CPack)
