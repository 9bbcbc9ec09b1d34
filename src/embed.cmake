# Turns the files in FILES into one C file OUT with the table that src/embedded.h declares.
# Bytes are written as numbers: string literals have a length limit in the C standard.
set(arrays "")
set(rows "")
set(index 0)
foreach(file ${FILES})
  get_filename_component(name ${file} NAME)
  file(READ ${file} hex HEX)
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${hex}")
  string(APPEND arrays "static const unsigned char data_${index}[] = {${bytes}0x00};\n")
  string(APPEND rows "  {\"${name}\", (const char *)data_${index}, sizeof data_${index} - 1},\n")
  math(EXPR index "${index} + 1")
endforeach()
file(WRITE ${OUT} "#include \"embedded.h\"\n${arrays}const struct embedded embedded_files[] = {\n${rows}  {0, 0, 0},\n};\n")
