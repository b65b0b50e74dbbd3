# cmake -DIN=file -DOUT=file.cc -DHEADER=h -DNAMESPACE=a::b -DFUNCTION=f -P EmbedText.cmake
# Writes a source file whose function returns the text of IN as a string_view.
file(READ ${IN} hex HEX)
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "'\\\\x\\1'," bytes "${hex}")
string(REGEX REPLACE "('[^']*',)('[^']*',)('[^']*',)('[^']*',)('[^']*',)('[^']*',)('[^']*',)('[^']*',)"
       "\\1\\2\\3\\4\\5\\6\\7\\8\n" bytes "${bytes}")
file(WRITE ${OUT} "#include \"${HEADER}\"\n\nnamespace ${NAMESPACE} {\n\n"
  "static constexpr char kText[] = {\n${bytes}'\\0'};\n\n"
  "std::string_view ${FUNCTION}() { return {kText, sizeof(kText) - 1}; }\n\n}  // namespace ${NAMESPACE}\n")
