# What Debian's policy wants of the files of a package: manual pages and changelog compressed,
# without the time in them, so that the same build gives the same package.
file(GLOB MANUALS ${CPACK_TEMPORARY_INSTALL_DIRECTORY}/*/usr/share/man/man1/*.1
     ${CPACK_TEMPORARY_INSTALL_DIRECTORY}/*/usr/share/man/man3/*.3)
foreach(file ${MANUALS})
  execute_process(COMMAND gzip -9nf ${file} COMMAND_ERROR_IS_FATAL ANY)
endforeach()
file(GLOB FOLDERS ${CPACK_TEMPORARY_INSTALL_DIRECTORY}/*/usr/share/doc/*/copyright)
foreach(copyright ${FOLDERS})
  get_filename_component(folder ${copyright} DIRECTORY)
  set(changelog ${folder}/changelog.Debian)
  configure_file(${CMAKE_CURRENT_LIST_DIR}/changelog.in ${changelog} @ONLY)
  execute_process(COMMAND gzip -9nf ${changelog} COMMAND_ERROR_IS_FATAL ANY)
endforeach()
